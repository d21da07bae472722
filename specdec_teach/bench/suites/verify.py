"""What it costs to judge drafts over a vocabulary of 152k, beside torch's softmax of the same γ + 1 rows.

One row, γ = 4, on the CPU; probabilities are given, as a cycle has them anyway. Both ways to judge are raced: the rule
that the engine uses, and the public entry of the kernels on torch. Cases differ in where the first
rejection falls, since only the row behind it is drawn from. Invariant: uniform numbers are chosen so that the case
happens, which is checked before anything is timed. It does not know models.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from specdec_kernels import verify_chain
from specdec_teach.bench import race
from specdec_teach.bench.race import Done, Work
from specdec_teach.bench.records import Candidate, Check, Race, Report
from specdec_teach.bench.setting import Options, Say, report
from specdec_teach.drafters.base import Proposal
from specdec_teach.noise import CounterNoise, ForcedNoise
from specdec_teach.rules.rejection import Rejection

__all__ = ["VOCAB", "race_over", "run"]

VOCAB = 151_936
GAMMA = 4
_TURNS = 20


def run(options: Options, say: Say) -> Report:
    """Race the verification against the softmax."""
    say(f"verify: V = {VOCAB}, γ = {GAMMA}, one row")
    found, checks = race_over(VOCAB, options.pace(40.0), 5 if options.quick else _TURNS)
    return report("verify", options, None, [found], checks=checks)


def race_over(vocab: int, pace: race.Pace, turns: int) -> tuple[Race, list[Check]]:
    """Return the race over a vocabulary of that size, `turns` calls in each round, and whether each case happened."""
    logits_RV, q_KV, drafts_K = _rows(vocab)
    p_RV = logits_RV.softmax(-1)
    softmax = Candidate("softmax", "torch", f"torch.softmax of {GAMMA + 1} rows")
    entries: dict[Candidate, Work] = {softmax: _repeat(lambda: torch.softmax(logits_RV, -1), turns)}
    checks = []
    for accepted in (0, 2, GAMMA):
        by_rule, by_chain = _by_rule(p_RV, q_KV, drafts_K, accepted), _by_chain(p_RV, q_KV, drafts_K, accepted)
        for name, act in ((f"rule, {accepted} accepted", by_rule), (f"verify_chain, {accepted} accepted", by_chain)):
            found = act()
            checks.append(Check(name, found == accepted, f"{found} accepted"))
            detail = "the engine's rule" if act is by_rule else "the public entry, on torch"
            entries[Candidate(name, "ours", detail, GAMMA)] = _repeat(act, turns)
    against = {"softmax": tuple(one.name for one in entries if one.source == "ours")}
    return race.run(f"verify, V = {vocab}", "call", entries, against, pace), checks


def _rows(vocab: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return target logits `[γ + 1, V]`, draft probabilities `[γ, V]` and drafts `[γ]` that q likes better than p."""
    source = torch.Generator().manual_seed(0)
    logits_RV = 3.0 * torch.randn(GAMMA + 1, vocab, generator=source)
    near_KV = logits_RV[:-1] + torch.randn(GAMMA, vocab, generator=source)
    p_KV, q_KV = logits_RV[:-1].softmax(-1), near_KV.softmax(-1)
    return logits_RV, q_KV, (q_KV - p_KV).argmax(-1)


def _by_rule(p_RV: Tensor, q_KV: Tensor, drafts_K: Tensor, accepted: int) -> Callable[[], int]:
    """Return the rule that the engine uses, judging with numbers that accept so many."""
    rule, proposal = Rejection(), Proposal(tuple(drafts_K.tolist()), q_KV)
    noise = ForcedNoise(CounterNoise(0), 0 if accepted == GAMMA else accepted + 1)
    return lambda: rule.judge(proposal, p_RV, noise, 0).accepted


def _by_chain(p_RV: Tensor, q_KV: Tensor, drafts_K: Tensor, accepted: int) -> Callable[[], int]:
    """Return the public entry of the kernels, here on torch, judging with numbers that accept so many."""
    uniforms = torch.full((1, GAMMA), 1e-6)
    uniforms[0, accepted:] = 1.0 - 1e-6
    number = torch.zeros(1, dtype=torch.int64)
    given = (drafts_K[None], q_KV[None], p_RV[None])
    return lambda: int(verify_chain(*given, seeds=number, positions=number, uniforms=uniforms).accepted[0])


def _repeat(act: Callable[[], object], turns: int) -> Work:
    """Return the work of a round: the same call, `turns` times, without autograd, as in a cycle."""

    @torch.inference_mode()
    def go(seed: int) -> Done:
        for _ in range(turns):
            act()
        return Done(turns)

    return go
