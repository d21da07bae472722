"""A workspace: right answers one after the other, nothing allocated, as few launches as the form allows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from specdec_kernels import verify_chain, verify_chain_logits, verify_workspace
from specdec_kernels.errors import InvalidInput, SpecDecError
from specdec_kernels.verdict import Verdict
from specdec_kernels.workspace import Workspace
from tests.interpreter.cases import Case, tensors

RULES = ("rejection", "block", "coupled")
KERNELS = ("block_kernel", "chain_kernel", "coupled_kernel", "logits_kernel", "statistics_kernel")


class Operations(TorchDispatchMode):
    """Write down every torch operation, views included."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """See TorchDispatchMode."""
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


class Counted:
    """In a kernel's place: counts launches and does nothing."""

    def __init__(self) -> None:
        self.launches = 0

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        self.launches += 1
        return lambda *args, **options: None


def call(given: dict[str, Any], rule: str, workspace: Workspace | None, backend: str, number: Any = None) -> Verdict:
    """The public function of this form; `number` in place of a tensor of temperatures."""
    numbers = {name: given[name] for name in ("seeds", "positions", "uniforms")}
    options = {"rule": rule, "backend": backend, "workspace": workspace, **numbers}
    if given["temperature"] is None:
        return verify_chain(given["drafts"], given["q"], given["p"], **options)
    temperature = given["temperature"] if number is None else number
    return verify_chain_logits(given["drafts"], given["q"], given["p"], temperature=temperature, **options)


def example(rule: str, form: str, one_hot: bool, seed: int = 0) -> dict[str, Any]:
    """Two rows of three drafts."""
    return tensors(Case(rule, 2, 3, 40, False, one_hot or rule == "coupled", form, 1, False, False), seed)


@pytest.mark.parametrize("backend", ["torch", "triton"])
@pytest.mark.parametrize("form", ["p", "float32"])
@pytest.mark.parametrize("rule", RULES)
def test_one_workspace_many_calls(rule: str, form: str, backend: str) -> None:
    """Other inputs, other kinds of q, and a refused row in between: each answer as without, and clean scratch."""
    workspace = verify_workspace(2, 3, 40)
    different = set()
    for seed, one_hot in ((0, False), (1, True), (0, False), (2, False), (3, True)):
        given = example(rule, form, one_hot, seed)
        right = call(given, rule, None, "torch")
        found = call(given, rule, workspace, backend)
        found.check()
        assert found.status is workspace.status
        for name in ("accepted", "tokens", "degenerate"):
            assert getattr(found, name) is getattr(workspace, name)
            assert getattr(found, name).tolist() == getattr(right, name).tolist(), name
        different.add(str(found.tokens.tolist()))
        # Now one row that is refused: by its ids, or by its numbers.
        if seed % 2:
            given["drafts"][1, 1] = 40
        else:
            given["p"][1, 0] = float("nan")
        with pytest.raises(SpecDecError) as wanted:
            call(given, rule, None, "torch")
        refused = call(given, rule, workspace, backend)
        with pytest.raises(type(wanted.value)) as caught:
            refused.check()
        assert str(caught.value) == str(wanted.value)
        assert refused.accepted.tolist() == [right.accepted[0].item(), -1]
        assert workspace.scratch.eq(0).all()
    assert len(different) == 4


LAUNCHES = [
    ("p", False, {"rejection": 1, "block": 1, "coupled": 1}),
    ("p", True, {"rejection": 1, "block": 1, "coupled": 1}),
    ("float32", False, {"rejection": 2, "block": 2, "coupled": 1}),
    ("float32", True, {"rejection": 1, "block": 1, "coupled": 1}),
]


@pytest.mark.parametrize(("form", "one_hot", "allowed"), LAUNCHES)
@pytest.mark.parametrize("rule", RULES)
def test_launches_and_nothing_else(
    rule: str, form: str, one_hot: bool, allowed: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No torch operation at all runs on the way: none that allocates, none that waits, none that copies."""
    from specdec_kernels import triton_launch

    given, workspace = example(rule, form, one_hot), verify_workspace(2, 3, 40)
    kernels = {name: Counted() for name in KERNELS}
    for name, counted in kernels.items():
        monkeypatch.setattr(triton_launch, name, counted)
    for number in (None, 0.7):
        with Operations() as operations:
            call(given, rule, workspace, "triton", number)
        assert operations.seen == []
    assert sum(counted.launches for counted in kernels.values()) == 2 * allowed[rule]
    with Operations() as operations:
        monkeypatch.undo()
        call(given, rule, None, "triton")
    assert any("empty" in name for name in operations.seen), "the mode sees nothing"


def test_a_number_and_a_tensor_of_temperatures_are_one() -> None:
    """The kernels take either; half and bfloat16 logits too."""
    for rule in RULES:
        for form in ("float32", "float16", "bfloat16"):
            for one_hot in (True, False):
                given = example(rule, form, one_hot)
                given["temperature"] = torch.full((2,), 0.7)
                both = [call(given, rule, None, "triton", number).tokens.tolist() for number in (None, 0.7)]
                assert both == [call(given, rule, None, "torch").tokens.tolist()] * 2


def test_what_does_not_fit_is_refused() -> None:
    """Other sizes, and a strided tensor, which would have to be copied."""
    given = example("rejection", "p", False)
    for sizes in ((3, 3, 40), (2, 2, 40), (2, 3, 41)):
        for backend in ("torch", "triton"):
            with pytest.raises(InvalidInput, match=r"the workspace is for B, K, V = .*verify_workspace"):
                call(given, "rejection", verify_workspace(*sizes), backend)
    given["q"] = given["q"].transpose(0, 1).contiguous().transpose(0, 1)
    with pytest.raises(InvalidInput, match="draft_probs is strided"):
        call(given, "rejection", verify_workspace(2, 3, 40), "triton")
    for sizes in ((-1, 1, 1), (1, -1, 1), (1, 1, 0)):
        with pytest.raises(InvalidInput, match="a workspace needs"):
            verify_workspace(*sizes)
