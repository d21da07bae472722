"""Sources of random choices under which the engine writes a given text: as if chance had wanted it so.

An exact rule leaves the text to the target, so the target can write it first; then every plan for γ writes the same.
Invariant: what a drafter draws, it draws as often as it would in a run that happens to write this text. A drafter that
draws nothing is not told anything. They do not know models, and how a text came about.
Source: Leviathan et al. 2023, algorithm 1, read from the token that was emitted back to the draft.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from specdec_kernels.philox import uniform
from specdec_teach.noise import StreamId, pick
from specdec_teach.policy import fit_width
from specdec_teach.sequence import Sequence

if TYPE_CHECKING:
    from specdec_teach.stream import Stream

__all__ = ["Given", "Told", "law"]


@final
class Told:
    """Each draft is the text's token, and every draft falls: a cycle commits the text's next token and no other.

    So a record shows p and q of the text's own tokens behind each place. `text`: prompt and what follows.
    """

    __slots__ = ("_sequence", "_text")

    def __init__(self, sequence: Sequence, text: Items[int]) -> None:
        self._sequence, self._text = sequence, text

    def draw(self, stream: StreamId, number: int, weights_V: Tensor) -> int:
        """See `Noise.draw`."""
        ahead = number - self._sequence.number if stream is StreamId.DRAFT else 0
        return self._text[len(self._sequence.tokens) + ahead]

    def accepts(self, number: int, p: float, q: float) -> tuple[bool, float | None]:
        """See `Noise.accepts`."""
        return False, 1.0


@final
class Given:
    """Drafts of a chain as they are where the text has x: x with chance min(1, q(x)/p(x)), and stands; else it falls.

    One that falls is drawn from (q − p)₊, and u is as it is where a draft stands or falls. Whether it stands is decided
    by a number that belongs to its position, so two plans that both draft there, with the same q, see the same. `text`:
    prompt and what follows. `p_NV`: the target's probabilities for what follows.
    """

    __slots__ = ("_p_NV", "_seed", "_sequence", "_stood", "_text")

    def __init__(self, sequence: Sequence, text: Items[int], p_NV: Tensor, seed: int) -> None:
        self._sequence, self._text, self._p_NV, self._seed = sequence, text, p_NV, seed
        self._stood = 0

    def draw(self, stream: StreamId, number: int, weights_V: Tensor) -> int:
        """See `Noise.draw`."""
        here = len(self._sequence.tokens)
        if stream is not StreamId.DRAFT:
            token, self._stood = self._text[here + self._stood], 0
            return token
        ahead = number - self._sequence.number
        token, u = self._text[here + ahead], uniform(self._seed, StreamId.DRAFT, here + ahead)
        if ahead != self._stood:  # behind a draft that falls: drawn as ever
            return pick(weights_V, u)
        p_V = self._p_NV[here + ahead - self._sequence.prompt_length]
        if uniform(self._seed, StreamId.ACCEPT, here + ahead) * float(p_V[token]) < float(weights_V[token]):
            self._stood += 1
            return token
        return pick((weights_V - p_V).clamp_min(0.0), u)

    def accepts(self, number: int, p: float, q: float) -> tuple[bool, float | None]:
        """See `Noise.accepts`."""
        ahead, edge = number - self._sequence.number, min(1.0, p / q)
        part, stands = uniform(self._seed, StreamId.TOKEN, len(self._sequence.tokens) + ahead), ahead < self._stood
        return stands, part * edge if stands else edge + part * (1.0 - edge)


def law(stream: Stream, text: Items[int]) -> Tensor:
    """Return p `[N, V]` of the tokens of `text`, as they are sampled from. `stream`: at the start of its request."""
    one, runner = stream.sequence, stream.engine.target_runner
    whole = [*one.tokens, *text]
    with torch.inference_mode():
        logits_NV = runner.forward(runner.new_cache(len(whole)), whole[:-1], keep=len(text))
        return one.policy.rows(fit_width(logits_NV, one.vocab), one.tokens, text[:-1])
