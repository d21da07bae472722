"""The engine's own arithmetic and the kernels' references: one law, and under coupled noise the same tokens."""

from __future__ import annotations

import pytest
import torch

import specdec_teach as sd
from specdec_kernels import verify_chain
from specdec_teach.drafters.base import Proposal
from specdec_teach.noise import CounterNoise, CoupledNoise
from specdec_teach.rules import rule_of
from specdec_teach.rules.kernel import ByKernel

from ..checks import P4, Q4, chi_square_of_long_runs, flags_and_counts, logs, tabular


def rows(generator: torch.Generator, count: int, width: int) -> torch.Tensor:
    """Random distributions `[count, V]`, some entries 0."""
    raw = torch.rand(count, width, generator=generator) ** 3
    raw[raw < 0.05] = 0.0
    raw[:, 0] += 0.1
    return raw / raw.sum(-1, keepdim=True)


def test_coupled_verdicts_are_the_same() -> None:
    """200 random cycles: same drafts accepted, same token drawn."""
    generator, rule, accepted = torch.Generator().manual_seed(1), rule_of("coupled"), 0
    for position in range(200):
        p_RV, noise = rows(generator, 4, 50), CoupledNoise(99)
        drafts = [noise.draw(0, position + i, rows(generator, 1, 50)[0] + 4 * p_RV[i]) for i in range(3)]  # type: ignore[arg-type]
        ours = rule.judge(Proposal(tuple(drafts)), p_RV, noise, position)
        theirs = verify_chain(
            torch.tensor([drafts]),
            None,
            p_RV[None],
            seeds=torch.tensor([99]),
            positions=torch.tensor([position]),
            rule="coupled",
        )
        assert theirs.accepted.tolist() == [ours.accepted]
        assert theirs.tokens[0, ours.accepted].item() == ours.token
        accepted += ours.accepted
    assert accepted > 200


def test_rejection_and_block_accept_the_same_for_the_same_numbers() -> None:
    """The numbers that judge are injected, so both sides must keep the same drafts."""
    generator = torch.Generator().manual_seed(2)
    for number in range(200):
        p_RV, q_KV = rows(generator, 4, 20), rows(generator, 3, 20)
        drafts = [int(torch.multinomial(row, 1, generator=generator)) for row in q_KV]
        for name in ("rejection", "block"):
            ours = rule_of(name).judge(Proposal(tuple(drafts), q_KV), p_RV, CounterNoise(5), number)
            used = torch.tensor([[0.5 if u is None else u for u in (*ours.uniforms, *[None] * 3)][:3]])
            theirs = verify_chain(
                torch.tensor([drafts]),
                q_KV[None],
                p_RV[None],
                seeds=torch.tensor([5]),
                positions=torch.tensor([number]),
                uniforms=used.float(),
                rule=name,
            )
            assert theirs.accepted.tolist() == [ours.accepted], (name, number)


def test_an_engine_judged_by_the_reference_follows_the_law() -> None:
    """`ByKernel` with the torch reference behind it: i.i.d. tokens of a constant target, and honest traces."""
    engine = tabular(logs(P4), logs(Q4), 3)
    engine.rule = ByKernel(rule_of("rejection"), "torch")
    assert chi_square_of_long_runs(engine, P4, length=60) > 1e-3
    result = engine.generate([0], sd.Sampling(seed=1), max_new_tokens=60)
    flags_and_counts(result)
    assert result.trace is not None
    assert any(cycle.last_kind == "correction" for cycle in result.trace.cycles)


def test_the_kernel_without_a_gpu_or_interpreter_is_refused() -> None:
    """One line that says what to do; a lossy rule stays with torch."""
    target = sd.testing.tiny_llama()
    with pytest.raises(sd.InvalidInput, match="TRITON_INTERPRET=1"):
        sd.Engine(target, backend="triton")
    with pytest.raises(sd.InvalidInput, match="Did you mean 'triton'"):
        sd.Engine(target, backend="tritn")
    assert sd.Engine(target, verify="typical").rule.name == "typical"
