"""An exact rule judged by `specdec_kernels.verify_chain`: on a GPU, or in Triton's interpreter.

The kernel decides; the rule itself then writes the verdict down from the kernel's numbers, so that a trace says the
same things whoever judged. Invariant: accepted drafts and the token are the kernel's. It does not know models or
caches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor

from specdec_kernels import backend as backends
from specdec_kernels import verify_chain
from specdec_kernels.errors import InvalidInput
from specdec_kernels.noise import acceptance_uniforms
from specdec_teach.drafters.base import Proposal
from specdec_teach.noise import CounterNoise, CoupledNoise, GreedyNoise, Noise, StreamId
from specdec_teach.rules.base import Rule, Verdict

__all__ = ["ByKernel", "judged_by"]


def judged_by(backend: str, rule: Rule, device: torch.device) -> Rule:
    """Return `rule`, or `rule` judged by the Triton kernel where `backend` wants it.

    "torch": the rule as it is. "auto": the kernel for exact rules on a GPU. "triton": the kernel; InvalidInput where it
    cannot run (no GPU and no interpreter), and for a rule that it does not know.
    """
    chosen = backends.choose(backend, torch.zeros(1, device=device))
    if chosen == "torch":
        return rule
    if not rule.lossless:
        if backend == "auto":
            return rule
        raise InvalidInput(f'the kernel does not know the rule {rule.name}; use backend="torch" for it')
    return ByKernel(rule, chosen)


@final
@dataclass(frozen=True, slots=True)
class ByKernel:
    """`rule`, decided by the kernel; a source of noise that is no plain one (enumeration, force) goes to the rule."""

    rule: Rule
    backend: Literal["torch", "triton"]

    @property
    def name(self) -> str:
        """See `Rule.name`."""
        return self.rule.name

    @property
    def lossless(self) -> bool:
        """See `Rule.lossless`."""
        return self.rule.lossless

    @property
    def by_number(self) -> bool:
        """See `Rule.by_number`."""
        return self.rule.by_number

    @property
    def by_position(self) -> bool:
        """See `Rule.by_position`."""
        return self.rule.by_position

    @property
    def branches(self) -> bool:
        """See `Rule.branches`; trees are judged by the rule itself."""
        return self.rule.branches

    def judge(self, proposal: Proposal, p_RV: Tensor, noise: Noise, first: int) -> Verdict:
        """See `Rule.judge`; one row of `verify_chain`."""
        if proposal.parents is not None or not isinstance(noise, (CounterNoise, CoupledNoise, GreedyNoise)):
            return self.rule.judge(proposal, p_RV, noise, first)
        seed = 0 if isinstance(noise, GreedyNoise) else noise.seed
        device = p_RV.device
        seeds_B = torch.tensor([seed - 2**64 if seed >= 2**63 else seed], dtype=torch.int64, device=device)
        numbers_B = torch.tensor([first], dtype=torch.int64, device=device)
        verdict = verify_chain(
            torch.tensor([proposal.tokens], dtype=torch.int64, device=device).reshape(1, len(proposal.tokens)),
            None if proposal.q_KV is None else proposal.q_KV[None].float().contiguous(),
            p_RV[None].float().contiguous(),
            seeds=seeds_B,
            positions=numbers_B,
            rule=self.rule.name,
            backend=self.backend,
        )
        accepted = int(verdict.accepted)
        tokens = verdict.tokens[0, : accepted + 1].tolist()
        uniforms: list[float | None] = [None] * len(proposal.tokens)
        if not isinstance(noise, GreedyNoise):
            uniforms = list(acceptance_uniforms(seeds_B, numbers_B, len(proposal.tokens))[0].tolist())
        return self.rule.judge(proposal, p_RV, _Replay(first, accepted, tokens, uniforms), first)


@final
@dataclass(frozen=True, slots=True)
class _Replay:
    """What the kernel decided, as a source of choices."""

    first: int
    accepted: int
    tokens: list[int]
    uniforms: list[float | None]

    def draw(self, stream: StreamId, number: int, weights_V: Tensor) -> int:
        return self.tokens[number - self.first]

    def accepts(self, number: int, p: float, q: float) -> tuple[bool, float | None]:
        return number - self.first < self.accepted, self.uniforms[number - self.first]
