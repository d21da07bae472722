"""Judges of lesson 03: the greedy rule, the sampling rule, its correction and overlap, one-hot and processed drafts.

Invariant: what is right comes from the engine, its policy or its exact law, never from a list of answers.
It does not know the lesson's text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Items
from typing import Any

import torch

from specdec_kernels import rejection
from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.drafters.scripted import ScriptedDrafter
from specdec_teach.engine import Engine
from specdec_teach.exercises.kit import NotYet, ask, exercise
from specdec_teach.exercises.laws import engine_with, first_token, model_of
from specdec_teach.policy import processed
from specdec_teach.sampling import Sampling
from specdec_teach.testing import TabularLM

__all__: list[str] = []

_TEXTBOOK = ([0.6, 0.3, 0.1], [0.2, 0.5, 0.3])
_FOUR = ([0.4, 0.3, 0.2, 0.1], [0.1, 0.15, 0.25, 0.5])
_FILTERED = ([0.4, 0.3, 0.2, 0.1], [0.1, 0.35, 0.3, 0.25])


def _say(law: Items[float]) -> str:
    return "[" + ", ".join(f"{chance:.3f}".rstrip("0").rstrip(".") for chance in law) + "]"


def _row(law: Items[float]) -> torch.Tensor:
    return torch.tensor(law, dtype=torch.float64)


def _close(found: Items[float], right: Items[float]) -> bool:
    return len(found) == len(right) and all(abs(a - b) < 1e-9 for a, b in zip(found, right, strict=True))


def _numbers(answer: Any, width: int, call: str) -> list[float]:
    """Return an answer as `width` finite numbers."""
    found = [float(number) for number in answer]
    if len(found) != width:
        raise NotYet(f"{call} should have {width} numbers, one for each token, not {len(found)}")
    if not all(map(math.isfinite, found)):
        raise NotYet(f"{call} holds {next(number for number in found if not math.isfinite(number))}")
    return found


@exercise("03.1")
def _greedy(answer: Any) -> str:
    told: Items[tuple[list[list[float]], list[int]]] = (
        ([[0, 2, 1], [5, 0, 0]], [1]),
        ([[0, 2, 1], [5, 0, 0]], [2]),
        ([[1, 3, 3], [0, 0, 1]], [2]),
        ([[0, 1, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]], [1, 2, 1]),
    )
    for rows, drafts in told:
        right = _engine_says(rows, drafts)
        found = [int(token) for token in ask(answer, [list(row) for row in rows], list(drafts))]
        if found == right:
            continue
        why = ""
        if found == right[:-1]:
            why = ": one token always follows the drafts that stand"
        elif rows[0].count(max(rows[0])) > 1:
            why = ": two tokens share the top, and then the lowest id counts as the favourite"
        elif found[: len(right)] == right:
            why = ": nothing may follow a correction"
        elif len(found) >= len(right):
            why = f": draft {len(right)} is not its row's favourite, so it falls and nothing behind it is judged"
        raise NotYet(f"greedy_tokens({rows}, {drafts}) should be {right}, not {found}{why}")
    return "the engine's own tokens, ties included"


def _engine_says(rows: list[list[float]], drafts: list[int]) -> list[int]:
    """Return what the engine emits in one greedy cycle over these rows."""

    def answer(prefix: tuple[int, ...]) -> torch.Tensor:
        return torch.tensor(rows[min(len(prefix), len(rows)) - 1], dtype=torch.float64)

    engine = Engine(TabularLM(answer, vocab=len(rows[0])), drafter=ScriptedDrafter(drafts), gamma=len(drafts))
    return list(next(engine.stream([0], Sampling.greedy(), max_new_tokens=len(drafts) + 1)).emitted)


@exercise("03.2")
def _accepts(answer: Any) -> str:
    told = (
        (0.9, 0.3, 0.2, "the target likes it more than the draft model does, so it always stands"),
        (0.5, 0.3, 0.5, "p < q makes it uncertain, and this u is on the good side"),
        (0.7, 0.3, 0.5, "p < q makes it uncertain, and this u is on the bad side"),
        (0.5, 0.2, 0.4, "u·q equals p here, and the test is strict"),
        (0.1, 0.0, 0.5, "the target never says this token"),
        (0.5, 0.0, 0.0, "the target never says this token, and 0 < 0 is false"),
        (0.5, 0.2, 0.0, "q may be reported as 0 after rounding; the test must not divide by it"),
    )
    for u, p, q, why in told:
        right = rejection.accepts(u, p, q)
        found = bool(ask(answer, u, p, q))
        if found != right:
            raise NotYet(f"accepts(u={u}, p={p}, q={q}) should be {right}: {why}")
    return "u·q < p, strictly, and nothing is divided"


@exercise("03.3")
def _correction(answer: Any) -> str:
    for p, q in (_TEXTBOOK, _FOUR, ([0.5, 0.5], [0.5, 0.5])):
        rest_V, mass = rejection.residual(_row(p), _row(q), torch.tensor(0))
        empty = float(mass) <= 0.0
        right = p if empty else (rest_V / mass).tolist()
        call = f"correction({p}, {q})"
        found = _numbers(ask(answer, list(p), list(q)), len(p), call)
        if _close(found, right):
            continue
        why = ""
        if empty:
            why = ": p and q are equal, nothing is left over, and then p itself serves"
        elif min(found) < 0:
            why = ": a probability below 0 cannot be drawn; tokens that q offered enough of get 0"
        elif _close(found, rest_V.tolist()):
            why = f": these are the right parts and they sum to {sum(found):.3g}; scale them to 1"
        elif _close(found, p):
            why = ": this is p again, as if the draft had never been tried"
        elif all(number > 0 for number in found):
            why = ": a token that q offered enough of gets 0"
        raise NotYet(f"{call} should be {_say(right)}, not {_say(found)}{why}")
    for p, q in (_TEXTBOOK, _FOUR):
        drafter = ModelDrafter(model_of(q))
        engine = engine_with(
            model_of(p),
            drafter,
            lambda p, q, d: rejection.accept_probability(p[d], q[d]),
            lambda p, q, d: answer(list(p), list(q)),
        )
        law = first_token(engine)
        if not _close(law, p):
            raise NotYet(f"with your correction the engine emits {_say(law)} where the target says {_say(p)}")
    return "with your correction the engine emits exactly p"


@exercise("03.4")
def _overlap(answer: Any) -> str:
    for p, q in (_TEXTBOOK, _FOUR, ([0.6, 0.3, 0.1], [0.0, 1.0, 0.0]), ([0.5, 0.5], [0.5, 0.5])):
        engine = Engine(model_of(p), drafter=ModelDrafter(model_of(q)), gamma=1)
        right = next(engine.stream([0], Sampling(seed=1), max_new_tokens=2)).decisions[0].alpha
        assert right is not None
        found = float(ask(answer, list(p), list(q)))
        if abs(found - right) < 1e-9:
            continue
        pairs = list(zip(p, q, strict=True))
        why = ""
        if abs(found - sum(a * b for a, b in pairs)) < 1e-9:
            why = ": that is how often two separate draws agree"
        elif abs(found - 1 + sum(abs(a - b) for a, b in pairs)) < 1e-9:
            why = ": what one token has too much, others have too little, so that sum counts every difference twice"
        elif abs(found - sum(max(a, b) for a, b in pairs)) < 1e-9:
            why = ": that is what either has, not what both have"
        elif abs(found - sum(min(1.0, a / b) for a, b in pairs if b) / len(p)) < 1e-9:
            why = ": tokens are not drafted equally often; weigh each min(1, p/q) with q"
        raise NotYet(f"overlap({p}, {q}) should be {right:.6g}, not {found:.6g}{why}")
    return "Σ min(p, q), as in every decision of the trace"


@exercise("03.5")
def _reported(answer: Any) -> str:
    for p, q in (_TEXTBOOK, ([0.2, 0.5, 0.3], [0.4, 0.4, 0.2])):
        engine = Engine(model_of(p), drafter=ModelDrafter(model_of(q), mode="argmax"), gamma=1)
        token = next(engine.stream([0], Sampling(seed=1), max_new_tokens=2)).proposed[0]
        assert token is not None
        right = [float(other == token) for other in range(len(q))]
        call = f"reported({q})"
        found = _numbers(ask(answer, list(q)), len(q), call)
        if _close(found, right):
            continue
        if min(found) < 0 or abs(sum(found) - 1) > 1e-9:
            raise NotYet(f"{call} should be probabilities that sum to 1, not {_say(found)}")
        law = first_token(Engine(model_of(p), drafter=ScriptedDrafter([token] * 3, q=found), gamma=1))
        if _close(law, p):
            raise NotYet(f"{call} should be {_say(right)}, not {_say(found)}: the drafter proposes {token} every time")
        raise NotYet(
            f"{call} should be {_say(right)}: the drafter proposes {token} every time. With {_say(found)} the engine "
            f"emits {_say(law)} where the target says {_say(p)}"
        )
    return "all on the token that is proposed, and the engine emits exactly p"


@exercise("03.6")
def _both(answer: Any) -> str:
    for k, (p, q) in ((2, _FILTERED), (3, _FOUR), (4, _FOUR)):
        sampling, call = Sampling(top_k=k), f"both({p}, {q}, {k})"
        right = [processed(_row(law)[None].log(), sampling)[0].tolist() for law in (p, q)]
        pair = list(ask(answer, list(p), list(q), k))
        if len(pair) != 2:
            raise NotYet(f"{call} should give two distributions, the target's and the draft's, not {len(pair)}")
        found = [_numbers(law, len(p), call) for law in pair]
        if all(map(_close, found, right)):
            continue
        law, wanted = _law_with(p, q, found, sampling), right[0]
        who = "p" if not _close(found[0], right[0]) else "q"
        told = f"{call}: {who} should be {_say(right['pq'.index(who)])}, not {_say(found['pq'.index(who)])}."
        if _close(law, wanted):
            raise NotYet(f"{told} Scale what is kept to sum to 1")
        raise NotYet(f"{told} With yours the engine emits {_say(law)} where the target says {_say(wanted)}")
    return "the same filter on both sides, and the engine emits exactly the processed p"


def _law_with(p: list[float], q: list[float], found: list[list[float]], sampling: Sampling) -> list[float]:
    """Return what is emitted when drafts are judged with the distributions `found`."""
    judged_p, judged_q = ([max(number, 0.0) for number in law] for law in found)
    rest = [max(a - b, 0.0) for a, b in zip(judged_p, judged_q, strict=True)]
    rest = rest if sum(rest) > 0 else judged_p if sum(judged_p) > 0 else [1.0] * len(p)
    engine = engine_with(
        model_of(p),
        ModelDrafter(model_of(q)),
        lambda _p, _q, d: rejection.accept_probability(judged_p[d], judged_q[d]),
        lambda _p, _q, _d: rest,
    )
    return first_token(engine, sampling)
