"""What verification refuses: each error names row and step, and a row that is not needed is never in the way."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from specdec_kernels import verify_chain, verify_chain_logits
from specdec_kernels.errors import EngineFailure, InvalidInput

NAN, INF = float("nan"), float("inf")


def _arguments(rows: int = 2, length: int = 3, width: int = 4) -> dict[str, Any]:
    """Drafts that all stand: p = q, so u·q < p always."""
    p = torch.full((rows, length + 1, width), 0.25)
    return {
        "draft_tokens": torch.ones(rows, length, dtype=torch.int64),
        "draft_probs": p[:, :length].clone(),
        "target_probs": p,
        "seeds": torch.arange(rows),
        "positions": torch.zeros(rows, dtype=torch.int64),
        "uniforms": torch.full((rows, length), 0.5),
    }


def _run(arguments: dict[str, Any], **more: Any) -> Any:
    drafts, q, p = (arguments.pop(name) for name in ("draft_tokens", "draft_probs", "target_probs"))
    return verify_chain(drafts, q, p, **arguments, **more)


@pytest.mark.parametrize("rule", ["rejection", "block"])
@pytest.mark.parametrize("value", [NAN, INF])
@pytest.mark.parametrize("who", ["target", "draft"])
def test_not_numbers_at_a_draft(rule: str, value: float, who: str) -> None:
    arguments = _arguments()
    arguments[f"{who}_probs"][1, 2, 1] = value
    with pytest.raises(EngineFailure, match=rf"row 1, step 2: the {who}'s row is not numbers"):
        _run(arguments, rule=rule)


@pytest.mark.parametrize("rule", ["rejection", "block", "coupled"])
def test_not_numbers_in_the_scanned_row(rule: str) -> None:
    """The bonus row, away from any drafted token."""
    arguments = _arguments()
    if rule == "coupled":
        arguments |= {"uniforms": None, "draft_tokens": torch.full((2, 3), -1)}
        arguments["target_probs"][1, 0, 2] = NAN
        with pytest.raises(EngineFailure, match="row 1, step 0: the target's"):
            _run(arguments, rule=rule)
        return
    arguments["target_probs"][1, 3, 2] = NAN
    with pytest.raises(EngineFailure, match="row 1, step 3: the target's"):
        _run(arguments, rule=rule)


def test_not_numbers_in_the_residual() -> None:
    """A correction reads the draft's whole row too."""
    arguments = _arguments()
    arguments["target_probs"][0, 1, 1] = 0.0
    arguments["draft_probs"][0, 1, 3] = NAN
    with pytest.raises(EngineFailure, match="row 0, step 1: the draft's"):
        _run(arguments)


def test_rows_behind_the_verdict_may_hold_anything() -> None:
    """Under rejection: rows behind the first refused draft, and other tokens of rows whose draft stood."""
    arguments = _arguments()
    arguments["target_probs"][0, 1, 1] = 0.0
    arguments["target_probs"][0, 2:] = NAN
    arguments["draft_probs"][0, 2:] = NAN
    arguments["target_probs"][0, 0, 2] = NAN
    verdict = _run(arguments)
    assert verdict.accepted.tolist() == [1, 3]


def test_block_needs_every_row_of_the_drafts() -> None:
    arguments = _arguments()
    arguments["target_probs"][1, 2, 3] = NAN
    with pytest.raises(EngineFailure, match="row 1, step 2: the target's"):
        _run(arguments, rule="block")


@pytest.mark.parametrize("rule", ["rejection", "block", "coupled"])
def test_a_row_without_mass(rule: str) -> None:
    arguments = _arguments(length=0)
    arguments["target_probs"][1] = 0.0
    if rule == "coupled":
        arguments["uniforms"] = None
    with pytest.raises(EngineFailure, match="row 1, step 0: the target's row holds no positive"):
        _run(arguments, rule=rule)


@pytest.mark.parametrize("rule", ["rejection", "block", "coupled"])
@pytest.mark.parametrize("token", [4, 2**40, -2])
def test_ids_outside_the_vocabulary(rule: str, token: int) -> None:
    """Refused wherever they stand, with nothing read for them."""
    arguments = _arguments()
    arguments["draft_tokens"][1, 2] = token
    if rule == "coupled":
        arguments["uniforms"] = None
    with pytest.raises(InvalidInput, match="row 1, step 2: the drafted id"):
        _run(arguments, rule=rule)


def test_padding_only_at_the_end() -> None:
    arguments = _arguments()
    arguments["draft_tokens"][0, 1] = -1
    with pytest.raises(InvalidInput, match="row 0, step 2: a draft stands behind padding"):
        _run(arguments)


@pytest.mark.parametrize("u", [0.0, 1.0, NAN, -0.5])
def test_uniforms_are_inside_the_interval(u: float) -> None:
    arguments = _arguments()
    arguments["uniforms"][1, 0] = u
    with pytest.raises(InvalidInput, match=r"row 1, step 0: a given uniform"):
        _run(arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"draft_tokens": torch.ones(2, 3)}, "int64"),
        ({"draft_tokens": torch.ones(2, 2, dtype=torch.int64)}, r"\[B, K \+ 1, V\]"),
        ({"target_probs": torch.ones(2, 4, 4, dtype=torch.float16)}, "dtype"),
        ({"draft_probs": torch.ones(2, 3, 5)}, r"\[2, 3, 4\]"),
        ({"draft_probs": torch.ones(2, 3, 4, dtype=torch.float64)}, "one dtype"),
        ({"seeds": torch.zeros(2)}, "seeds must be int64"),
        ({"positions": torch.zeros(3, dtype=torch.int64)}, "positions must be int64"),
        ({"uniforms": torch.zeros(2, 3, dtype=torch.float64)}, "uniforms must be float32"),
        ({"rule": "rejektion"}, "Did you mean 'rejection'"),
        ({"rule": "coupled"}, "leave them out"),
        ({"backend": "trition"}, "Did you mean 'triton'"),
    ],
)
def test_arguments_that_do_not_fit(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        _run(_arguments() | change)


def test_logits_refusals() -> None:
    """A row of −inf alone is no distribution; a temperature is a positive number."""
    zero = torch.zeros(1, dtype=torch.int64)
    drafts, logits = torch.zeros(1, 0, dtype=torch.int64), torch.full((1, 1, 4), -INF)
    with pytest.raises(EngineFailure, match="row 0, step 0"):
        verify_chain_logits(drafts, None, logits, temperature=1.0, seeds=zero, positions=zero)
    for bad in (0.0, -1.0, NAN, INF):
        with pytest.raises(InvalidInput, match="above 0"):
            verify_chain_logits(drafts, None, logits, temperature=bad, seeds=zero, positions=zero)
    with pytest.raises(InvalidInput, match="float32"):
        verify_chain_logits(drafts, None, logits, temperature=torch.ones(2), seeds=zero, positions=zero)


def test_logits_are_the_probabilities_of_their_softmax() -> None:
    """The from-logits form in float64 gives the verdict of the probabilities, by every rule."""
    generator = torch.Generator().manual_seed(4)
    target = torch.randn(99, 4, 9, generator=generator, dtype=torch.float64)
    draft = torch.randn(99, 3, 9, generator=generator, dtype=torch.float64)
    target[:, :, 5] = -INF
    temperature = torch.linspace(0.3, 2.0, 99)
    drafts = torch.randint(5, (99, 3), generator=generator)
    numbers = {"seeds": torch.arange(99), "positions": torch.arange(99) * 5}
    wide = temperature.double()[:, None, None]
    for rule in ("rejection", "block", "coupled"):
        found = verify_chain_logits(drafts, draft, target, temperature=temperature, rule=rule, **numbers)
        right = verify_chain(drafts, (draft / wide).softmax(-1), (target / wide).softmax(-1), rule=rule, **numbers)
        assert torch.equal(found.tokens, right.tokens)
        assert 0 < int(found.accepted.sum()) < 297
