"""Lesson 11, "Serving": its judges, a crowded scheduler to predict, and a target that recites a text.

Invariant: every truth is asked of the engine's own parts (the scheduler, `Ending`, `Limits`, the rows that a processor
sees), never of a list of answers. It does not know the notebook.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import Any, final

import torch
from torch import Tensor

from specdec_teach.drafters.scripted import ScriptedDrafter
from specdec_teach.ending import Ending
from specdec_teach.engine import Engine
from specdec_teach.exercises.kit import NotYet, ask, exercise
from specdec_teach.limits import Limits
from specdec_teach.sampling import Sampling
from specdec_teach.scheduler import Scheduler
from specdec_teach.testing import TabularLM
from specdec_teach.text import TextStream

__all__ = ["crowd", "recites", "states"]

_STATES = ("cycle", "prefill", "preempted", "waiting")


def crowd(steps: int = 0) -> Scheduler:
    """Return a scheduler of 7 blocks of 4 tokens after `steps` steps: requests a, b, c, d, no drafts, 3 places.

    >>> [request.name for request in crowd().live]
    ['a', 'b', 'c', 'd']
    """
    scheduler = Scheduler(Engine(TabularLM(torch.eye(5)), block_size=4), max_batch=3, blocks=7)
    for token, (name, prompt, cap) in enumerate((("a", 5, 10), ("b", 6, 9), ("c", 12, 4), ("d", 2, 3))):
        scheduler.submit([token] * prompt, Sampling.greedy(), max_new_tokens=cap, name=name)
    for _ in range(steps):
        scheduler.step()
    return scheduler


def states(scheduler: Scheduler) -> dict[str, str]:
    """Run one step and return what each request did in it.

    >>> states(crowd())["a"]
    'prefill'
    """
    scheduler.step()
    timeline = scheduler.timeline()
    return {timeline.names[row.request]: row.state for row in timeline.steps[-1].rows}


def recites(ids: Items[int], *, after: int, vocab: int) -> TabularLM:
    """Return a model that says `ids` one by one behind a prompt of `after` tokens, then token 0.

    >>> Engine(recites([3, 1], after=1, vocab=4)).generate([2], Sampling.greedy(), max_new_tokens=3).tokens
    (3, 1, 0)
    """

    def answer(prefix: tuple[int, ...]) -> Tensor:
        at = len(prefix) - after
        token = ids[at] if 0 <= at < len(ids) else 0
        return 30.0 * torch.nn.functional.one_hot(torch.tensor(token), vocab).double()

    return TabularLM(answer, vocab=vocab)


@exercise("11.1")
def _next_step(answer: Any) -> str:
    said = dict(answer)
    found = states(crowd(9))
    if set(said) != set(found):
        raise NotYet(f"say what each of {', '.join(found)} does; the answer names {', '.join(map(str, said))}")
    for name, state in said.items():
        if state not in _STATES:
            raise NotYet(f"{name} cannot do {state!r}; the words are {', '.join(_STATES)}")
    whys = {
        "a": "it needs a fourth block, and the oldest never gives way: somebody younger does",
        "b": "a needs a fourth block and none is free; of those that run, b is the youngest",
        "c": "nobody is let in before this step: not one block was free when it began",
        "d": "d is behind c in the queue, and nobody overtakes",
    }
    for name, state in found.items():
        if said[name] != state:
            raise NotYet(f"{name} is {said[name]!r} in your answer: {whys[name]}")
    return "the youngest gives way, and nobody overtakes"


@exercise("11.2")
def _counts(answer: Any) -> str:
    drafts, eos = [3, 4, 5, 6, 7], 5
    engine = Engine(recites([3, 4, 5, 6, 2], after=1, vocab=8), drafter=ScriptedDrafter(drafts), gamma=len(drafts))
    stats = engine.generate([1], Sampling(temperature=0.0, eos_token_id=eos), max_new_tokens=20).stats
    emitted, accepted, cut = stats.emitted, stats.accepted, stats.stop_cut
    said = tuple(answer)
    if len(said) != 4:
        raise NotYet(f"four answers are wanted (emitted, accepted, stop_cut, finish_reason), not {len(said)}")
    if str(said[3]) != "eos":
        raise NotYet(f"the text ends with an end token, so the reason is 'eos', not {said[3]!r}")
    if int(said[0]) != emitted:
        raise NotYet(
            f"{said[0]} tokens are too {'many' if said[0] > emitted else 'few'}: the end token is the last kept"
        )
    if int(said[1]) != accepted:
        raise NotYet(f"accepted counts the drafts that were kept, the end token too: not {said[1]}")
    if int(said[2]) != cut:
        raise NotYet(
            f"drafts behind the end, whatever their verdict, are cut: {len(drafts)} − {accepted}, not {said[2]}"
        )
    return f"{emitted} emitted, {accepted} accepted, {cut} cut; the acceptance rate is {stats.acceptance_rate:.0%}"


@exercise("11.3")
def _cut(answer: Any) -> str:
    told = (
        ([4, 7, 2], 9, 10),
        ([4, 9, 2], 9, 10),
        ([9, 4, 9], 9, 10),
        ([4, 7, 2], 9, 3),
        ([4, 7, 9], 9, 3),
        ([4, 7, 9], 9, 2),
        ([4], 9, 1),
    )
    for block, eos, remaining in told:
        within = block[:remaining]
        fed = Ending(frozenset({eos}), (), TextStream(None)).feed(within)
        reason = fed.reason or Limits(0, remaining, None, None).finished(fed.kept)
        call = f"cut({block}, eos={eos}, remaining={remaining})"
        given = ask(answer, list(block), eos, remaining)
        if not isinstance(given, (tuple, list)) or len(given) != 2:
            raise NotYet(f"{call} returns two things, the kept tokens and the reason, not {given!r}")
        kept, why = given
        right = within[: fed.kept]
        if list(kept) != right:
            note = "the end token itself is kept, nothing behind it" if fed.reason else "no more than remain"
            raise NotYet(f"{call} keeps {right}, not {list(kept)}: {note}")
        if why != reason:
            note = "an end token in the last place is still an end" if reason == "eos" else ""
            note = note or ("nothing has ended here" if reason is None else "the limit was reached first")
            raise NotYet(f"{call} ends by {reason!r}, not {why!r}: {note}")
    return "the first end in token order, as the engine's own Ending says"


@final
class _Words:
    """A tokenizer whose tokens are given pieces of text."""

    def __init__(self, words: Items[str]) -> None:
        self._words = words

    def decode(self, token_ids: Items[int]) -> str:
        """Return the pieces, joined."""
        return "".join(self._words[token] for token in token_ids)

    def convert_ids_to_tokens(self, ids: Items[int]) -> list[str | None]:
        """Return the pieces."""
        return [self._words[token] for token in ids]


@exercise("11.4")
def _show(answer: Any) -> str:
    told = (
        ("END", ["one ", "two"]),
        ("END", ["one E", "ND two"]),
        ("END", ["an E", "mpty box"]),
        ("END", ["xENDy"]),
        ("END", ["E", "N", "D"]),
        ("aab", ["a", "a", "a", "b"]),
        ("END", ["END", "END"]),
    )
    for stop, pieces in told:
        ending = Ending(frozenset(), (stop,), TextStream(_Words(pieces)))
        held = ""
        for token, piece in enumerate(pieces):
            fed = ending.feed([token])
            right = (fed.piece, fed.after.held, fed.reason is not None)
            call = f"show({held!r}, {piece!r}, stop={stop!r})"
            found = tuple(ask(answer, held, piece, stop))
            if found != right:
                raise NotYet(f"{call} should be {right}, not {found}: {_why_not_shown(found, right)}")
            ending, held = fed.after, right[1]
            if right[2]:
                break
    return "the pieces are the engine's own, and no stop string leaks"


def _why_not_shown(found: tuple[Any, ...], right: tuple[str, str, bool]) -> str:
    shown, held, ended = right
    if len(found) != 3 or not all(isinstance(part, str) for part in found[:2]):
        return "wanted are what to show, what to hold back, and whether the text has ended"
    if ended:
        return "the stop string is complete: show what stands before it, hold nothing, and end"
    if found[2]:
        return "no stop string is complete here"
    if len(found[0]) > len(shown):
        return f"{held!r} could still begin the stop string"
    if len(found[1]) > len(held):
        return "no more is held back than what could begin the stop string"
    return "what turned out harmless is shown as soon as that is known"


@final
class _Spy:
    """A processor that changes nothing and writes down every prefix it is asked about."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        """Return the logits as they are."""
        self.seen.append(ids[0].tolist())
        return logits


@exercise("11.5")
def _rows(answer: Any) -> str:
    told: tuple[tuple[list[int], list[int]], ...] = (([1, 2], [3]), ([1, 2], [3, 4, 5]), ([7], []), ([5, 5], [5, 5]))
    for committed, drafts in told:
        spy = _Spy()
        engine = Engine(TabularLM(torch.eye(8)), drafter=ScriptedDrafter(drafts), gamma=len(drafts))
        next(engine.stream(committed, Sampling(temperature=0.0, processors=(spy,)), max_new_tokens=20))
        call = f"rows({committed}, {drafts})"
        found = [list(row) for row in ask(answer, list(committed), list(drafts))]
        if len(found) != len(spy.seen):
            raise NotYet(f"{call} has {len(spy.seen)} rows, one more than drafts, not {len(found)}")
        for index, (row, right) in enumerate(zip(found, spy.seen, strict=True)):
            if row == right:
                continue
            why = "the drafts before it are missing" if len(row) < len(right) else "it must not see what it is to judge"
            raise NotYet(f"{call}: row {index} sees {right}, not {row}; {why}")
    return "this is what the engine's rows see, drafts that will be rejected too"
