"""The kernels say what the reference says: tokens, counts, flags and refusals, whatever the plan."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from specdec_kernels import noise, reference, verify_chain, verify_chain_logits
from specdec_kernels.errors import SpecDecError
from specdec_kernels.logits import softmax
from specdec_kernels.verdict import Verdict
from specdec_kernels.workspace import allocate
from tests.interpreter.cases import Case, every, pairwise, tensors

PAIRWISE = pairwise()
NAN = float("nan")


def _by_kernel(given: dict[str, Any], rule: str, **plan: int) -> tuple[Verdict, Tensor]:
    from specdec_kernels import triton_launch

    return triton_launch.verify(*[given[name] for name in list(given)[:6]], rule, given["temperature"], **plan)


def _by_reference(given: dict[str, Any], rule: str) -> tuple[Verdict, Tensor]:
    q, p, temperature = given["q"], given["p"], given["temperature"]
    if temperature is not None:
        q, p = None if q is None else softmax(q, temperature), softmax(p, temperature)
    numbers = (given["seeds"], given["positions"], given["uniforms"])
    return reference.verify(given["drafts"], q, p, *numbers, rule)


def _same(found: tuple[Verdict, Tensor], right: tuple[Verdict, Tensor]) -> None:
    assert found[1].tolist() == right[1].tolist()
    for name in ("accepted", "tokens", "degenerate"):
        assert getattr(found[0], name).tolist() == getattr(right[0], name).tolist(), name


def _compare(case: Case) -> None:
    given = tensors(case)
    right = _by_reference(given, case.rule)
    assert right[1].eq(0).all()
    _same(_by_kernel(given, case.rule, tile=case.tile, splits=case.splits), right)


def test_the_set_is_pairwise_and_small() -> None:
    assert len(PAIRWISE) <= 60
    accepted = [_by_reference(tensors(case), case.rule)[0].accepted for case in PAIRWISE if case.width >= 1000]
    assert {0, 1} < {int(n) for row in accepted for n in row}


@pytest.mark.parametrize("case", PAIRWISE, ids=str)
def test_kernel_is_reference(case: Case) -> None:
    _compare(case)


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", every(), ids=str)
def test_kernel_is_reference_everywhere(case: Case) -> None:
    _compare(case)


@pytest.mark.parametrize("rule", ["rejection", "block", "coupled"])
def test_neither_tiles_nor_splits_change_anything(rule: str) -> None:
    """The merge is exact: one tile, many tiles, more splits than tiles."""
    case = Case(rule, 2, 3, 1000, False, rule == "coupled", "p", 1, False, False)
    given = tensors(case)
    right = _by_kernel(given, rule, tile=1024, splits=1)
    for tile, splits in ((128, 1), (128, 2), (128, 7), (256, 99)):
        _same(_by_kernel(given, rule, tile=tile, splits=splits), right)


@pytest.mark.parametrize("rule", ["rejection", "block", "coupled"])
@pytest.mark.parametrize("shift", [0.0, 3.0, 150.0])
def test_tiles_on_other_scales_are_merged(rule: str, shift: float) -> None:
    """From logits: each tile races on its own scale, here apart by more than float32 can tell or by nothing."""
    given: dict[str, Any] = tensors(Case(rule, 6, 3, 300, False, True, "float32", 1, False, False))
    given["p"] *= 2.0
    given["p"] += shift * (torch.arange(300) // 64 % 3)
    given["drafts"] = given["p"][:, :3].argmax(-1)
    right = _by_reference(given, rule)
    assert right[1].eq(0).all()
    assert right[0].accepted.max() > right[0].accepted.min()
    for tile, splits in ((512, 1), (64, 1), (64, 2), (32, 7)):
        _same(_by_kernel(given, rule, tile=tile, splits=splits), right)


def test_statistics_do_not_depend_on_splits() -> None:
    """From logits: the same bits for every number of splits of one tile size, and the softmax's numbers."""
    from specdec_kernels import triton_launch

    given = tensors(Case("rejection", 2, 2, 1000, False, False, "float32", 1, False, False))
    found = []
    for splits in (1, 2, 7, 8):
        workspace = allocate(2, 2, 1000, torch.device("cpu"), 128, logits=True)
        arguments = [given[name] for name in list(given)[:6]]
        triton_launch.verify(*arguments, "rejection", given["temperature"], splits=splits, workspace=workspace)  # type: ignore[arg-type]
        found.append(workspace.statistics)
    first, *rest = found
    assert all(torch.equal(first, other) for other in rest)
    x = torch.cat([given["p"], given["q"]], 1).double() / given["temperature"].double()[:, None, None]  # type: ignore
    torch.testing.assert_close(first[..., 0].double(), x.amax(-1), rtol=1e-6, atol=0)
    torch.testing.assert_close(first[..., 1].double(), (x - x.amax(-1, keepdim=True)).exp().sum(-1), rtol=1e-5, atol=0)


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_one_launch_keeps_the_softmax_of_the_drafts(rule: str) -> None:
    """One-hot drafts from logits: p of each and the share of the others, whatever the splits, in the same bits."""
    from specdec_kernels import triton_launch

    given = tensors(Case(rule, 2, 3, 1000, False, True, "float32", 1, False, False))
    found = []
    for splits in (1, 3, 8):
        workspace = allocate(2, 3, 1000, torch.device("cpu"), 128, logits=True)
        arguments = [given[name] for name in list(given)[:6]]
        triton_launch.verify(*arguments, rule, given["temperature"], splits=splits, workspace=workspace)  # type: ignore[arg-type]
        found.append(workspace.statistics[:, :3])
    assert all(torch.equal(found[0], other) for other in found[1:])
    p = softmax(given["p"].double(), given["temperature"])[:, :3]  # type: ignore[union-attr, arg-type]
    p_BK = p.gather(-1, given["drafts"][..., None])[..., 0]  # type: ignore[index]
    torch.testing.assert_close(found[0].double(), torch.stack([p_BK, 1 - p_BK], -1), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("form", ["p", "float32"])
@pytest.mark.parametrize("one_hot", [False, True])
def test_block_weighs_the_rows_behind_each_prefix(form: str, one_hot: bool) -> None:
    """Where the masses decide: forty rows of six ids, p far enough from q that prefixes of every length stand."""
    given: dict[str, Any] = tensors(Case("block", 40, 3, 6, False, one_hot, form, 1, False, False))
    if form == "p":
        given["p"] = torch.randn(40, 4, 6, generator=torch.Generator().manual_seed(1)).softmax(-1)
    else:
        given["p"] = torch.randn(40, 4, 6, generator=torch.Generator().manual_seed(1))
    if one_hot:
        given["drafts"] = given["p"][:, :3].argmax(-1)
    right = _by_reference(given, "block")
    assert set(right[0].accepted.tolist()) == {0, 1, 2, 3}
    _same(_by_kernel(given, "block", tile=8, splits=1), right)


def test_an_empty_residual() -> None:
    """Both sides fall back to p, with the same token, and say so."""
    zero = torch.arange(3)
    p = torch.tensor([0.1, 0.2, 0.3, 0.25]).expand(3, 2, 4)
    q = (p[:, :1] * 1.01).contiguous()
    u = torch.full((3, 1), 0.999)
    for rule in ("rejection", "block"):
        given = {"drafts": zero[:, None], "q": q, "p": p, "seeds": zero, "positions": zero}
        given |= {"uniforms": u, "temperature": None}
        right = _by_reference(given, rule)
        assert right[0].degenerate.all()
        _same(_by_kernel(given, rule, tile=4, splits=1), right)


@pytest.mark.parametrize("rule", ["rejection", "coupled"])
def test_the_lowest_id_wins_ties(rule: str) -> None:
    """Weights so small that their scores fall together, in one tile and across splits."""
    rows = torch.arange(24)
    given = {"drafts": rows.new_empty(24, 0), "q": None, "p": torch.full((24, 1, 6), 1e-45), "seeds": rows}
    given |= {"positions": rows, "uniforms": None, "temperature": None}
    right = _by_reference(given, rule)
    scores = given["p"][:, 0] / noise.race_times(rows, noise.TOKEN if rule == "rejection" else noise.COUPLED, rows, 6)
    assert (scores == scores.amax(-1, keepdim=True)).sum(-1).max() > 1
    for tile, splits in ((8, 1), (4, 2)):
        _same(_by_kernel(given, rule, tile=tile, splits=splits), right)


def _wrong() -> list[tuple[str, str, dict[str, Any]]]:
    """Name, rule, and the entries to overwrite: (tensor, index) → value."""
    found: list[tuple[str, str, dict[str, Any]]] = []
    for rule in ("rejection", "block", "coupled"):
        found += [
            ("id too large", rule, {"drafts": ((1, 1), 40)}),
            ("id below −1", rule, {"drafts": ((1, 0), -3)}),
            ("padding inside", rule, {"drafts": ((0, 0), -1)}),
            ("NaN in the first row", rule, {"p": ((1, 0), NAN)}),
            ("infinity in the last row", rule, {"p": ((0, 2), float("inf"))}),
            ("no mass", rule, {"p": ((0, slice(None)), 0.0)}),
        ]
        if rule != "coupled":
            found += [
                ("NaN in q", rule, {"q": ((1, 1), NAN)}),
                ("NaN in both", rule, {"q": ((1, 1), NAN), "p": ((1, 1), NAN)}),
                ("q NaN at one token", rule, {"q": ((0, 1, 7), NAN)}),
                ("p NaN at one token", rule, {"p": ((1, 1, 9), NAN)}),
                ("uniform 1", rule, {"uniforms": ((0, 1), 1.0)}),
                ("uniform NaN", rule, {"uniforms": ((1, 0), NAN)}),
            ]
    return found


@pytest.mark.parametrize(("name", "rule", "changes"), _wrong(), ids=lambda it: it if isinstance(it, str) else "")
def test_refusals_are_the_references(name: str, rule: str, changes: dict[str, Any]) -> None:
    """The same status for every row, and the same message from the public function."""
    given = tensors(Case(rule, 2, 2, 40, False, rule == "coupled", "p", 1, False, rule != "coupled"))
    for tensor, (index, value) in changes.items():
        given[tensor][index] = value  # type: ignore[index]
    right = _by_reference(given, rule)
    _same(_by_kernel(given, rule, tile=16, splits=2), right)
    if right[1].any():
        messages = []
        for backend in ("torch", "triton"):
            numbers = {name: given[name] for name in ("seeds", "positions", "uniforms")}
            with pytest.raises(SpecDecError) as caught:
                verify_chain(given["drafts"], given["q"], given["p"], rule=rule, backend=backend, **numbers)  # type: ignore
            messages.append(str(caught.value))
        assert messages[0] == messages[1]
    else:
        assert name in ("NaN in q", "q NaN at one token", "p NaN at one token", "infinity in the last row")


@pytest.mark.parametrize("rule", ["rejection", "block", "coupled"])
@pytest.mark.parametrize("value", [NAN, float("inf"), float("-inf")])
@pytest.mark.parametrize("one_hot", [True, False])
def test_logits_without_a_softmax(rule: str, value: float, one_hot: bool) -> None:
    """A whole row of −inf, one NaN, or one +inf: the same refusal, and rows beside it are judged."""
    given = tensors(Case(rule, 3, 2, 40, False, one_hot or rule == "coupled", "float32", 1, False, False))
    given["p"][1, 0, slice(None) if value == float("-inf") else 7] = value  # type: ignore[index]
    right = _by_reference(given, rule)
    assert right[1].tolist() == [0, 4, 0]
    _same(_by_kernel(given, rule, tile=16, splits=2), right)


def test_rows_behind_the_verdict_are_not_in_the_way() -> None:
    """Under rejection, NaN in every row that the outcome does not need."""
    case = Case("rejection", 8, 5, 40, False, False, "p", 1, False, True)
    given = tensors(case)
    right = _by_reference(given, "rejection")
    assert len(set(right[0].accepted.tolist())) > 1
    for row, n in enumerate(right[0].accepted.tolist()):
        given["p"][row, n + 1 :], given["q"][row, n + 1 :] = NAN, NAN  # type: ignore[index]
        for step in range(n):
            drafted = given["drafts"][row, step]  # type: ignore[index]
            for tensor in (given["p"], given["q"]):
                kept = tensor[row, step, drafted].clone()  # type: ignore[index]
                tensor[row, step], tensor[row, step, drafted] = NAN, kept  # type: ignore[index]
    _same(_by_kernel(given, "rejection", tile=16, splits=2), right)


def test_the_public_functions_reach_the_kernels() -> None:
    """Both forms, both backends, one answer."""
    given = tensors(Case("rejection", 3, 2, 50, True, False, "bfloat16", 1, True, False))
    numbers = {name: given[name] for name in ("seeds", "positions", "temperature")}
    both = [
        verify_chain_logits(given["drafts"], given["q"], given["p"], backend=backend, **numbers)  # type: ignore
        for backend in ("torch", "triton")
    ]
    assert both[0].tokens.tolist() == both[1].tokens.tolist()
