"""Drafts of one sequence while a model makes them, one after the other, under the request's own settings.

Invariant: a draft is drawn from the very distribution that is reported for it, or reported as certain. It does not know
where the logits come from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor

from specdec_kernels.errors import EngineFailure
from specdec_teach.drafters.base import Proposal
from specdec_teach.noise import StreamId
from specdec_teach.policy import fit_width, processed
from specdec_teach.sequence import Sequence

__all__ = ["Chain"]


@final
@dataclass(slots=True, eq=False)
class Chain:
    """At most `count` drafts of `sequence`; `certain`: take the likeliest token each time. `rows`: the q of each.

    `confidence`: the probability that the model gave each draft, kept where the sequence has patience to spend.
    """

    sequence: Sequence
    count: int
    certain: bool = False
    tokens: list[int] = field(default_factory=list)
    rows: list[Tensor] = field(default_factory=list)
    confidence: list[float] = field(default_factory=list)

    @property
    def text(self) -> list[int]:
        """The committed tokens and the drafts so far."""
        return self.sequence.tokens + self.tokens

    def take(self, logits_1V: Tensor) -> bool:
        """Draw the next draft from the logits `[1, V]` behind `text`; return whether there is another to come.

        None is drawn where the request's bans leave the draft nothing to say. EngineFailure when the logits are not
        numbers. The sequence's patience sees no more than the drafts made so far.
        """
        sequence, row = self.sequence, len(self.tokens)
        logits_1V = sequence.policy.scores(fit_width(logits_1V, sequence.vocab), sequence.tokens + self.tokens, ())
        top = float(logits_1V.amax())
        if top == -math.inf:
            return False
        if self.certain or sequence.sampling.greedy_now:
            if not math.isfinite(top):
                raise self._not_numbers()
            token = int(logits_1V.argmax())
        else:
            q_1V = processed(logits_1V, sequence.sampling)
            token = sequence.noise.draw(StreamId.DRAFT, sequence.number + row, q_1V[0])
            if token >= sequence.vocab or math.isnan(float(q_1V[0, token])):
                raise self._not_numbers()
            self.rows.append(q_1V)
        self.tokens.append(token)
        more, patience = len(self.tokens) < self.count, sequence.patience
        if patience is None:
            return more
        law_1V = self.rows[-1] if self.rows else logits_1V.float().softmax(-1)
        self.confidence.append(float(law_1V[0, token]))
        return more and patience.goes_on(self.confidence)

    def proposal(self) -> Proposal:
        """Return the drafts made so far."""
        q_KV = torch.cat(self.rows) if self.rows else None
        return Proposal(tuple(self.tokens), q_KV, confidence=tuple(self.confidence))

    def _not_numbers(self) -> EngineFailure:
        return EngineFailure(
            f"the draft model's logits for draft {len(self.tokens) + 1} after {len(self.sequence.tokens)} tokens are "
            "not numbers; check its weights and dtype (float16 overflows on a CPU), or run without a drafter"
        )
