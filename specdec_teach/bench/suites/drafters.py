"""Every drafter that a pair has, against plain decoding: on stories, on text that invites copying, and on lists.

For each kind of prompt, every drafter first finds its best γ in rounds that are not reported; then all take turns with
plain decoding, each at its best γ and at the one that is planned for it. Every round has texts of its own, and they are
many because texts differ more than drafters do. What is slower than plain stays in the report.
Last comes what a look-up costs behind a long text, without any model.
Invariant: in a race all have the same target, prompts, sampling and number of tokens. It does not know how anybody
drafts.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass, field, replace
from statistics import mean
from typing import final

import torch

from specdec_teach.bench import ours, race
from specdec_teach.bench.figures import per_unit
from specdec_teach.bench.race import Done, Pace, Work
from specdec_teach.bench.records import Candidate, Check, Fare, Race, Report
from specdec_teach.bench.setting import SMALL, Options, Say, load, new_engine, report, sampling
from specdec_teach.bench.task import KINDS, Task, agreement, ids_of
from specdec_teach.caches import new_cache
from specdec_teach.drafters.base import Drafter
from specdec_teach.drafters.ngram import NgramDrafter
from specdec_teach.drafters.retrieval import RetrievalDrafter
from specdec_teach.engine import Engine
from specdec_teach.lineup import drafters_for
from specdec_teach.noise import GreedyNoise
from specdec_teach.pairs import Pair
from specdec_teach.policy import Policy
from specdec_teach.result import Stats
from specdec_teach.sequence import Sequence

__all__ = ["run"]

_GAMMAS = (2, 4, 8)
_HEAT = 0.8
_EARLIER = 1_000
_BUDGET, _ROUNDS, _PILOTS = 150.0, 24, 6
_LONG, _DRAFTS, _TURNS = 32_768, 8, 20
_Prompts = Items[list[int]]


def run(options: Options, say: Say) -> Report:
    """Race the drafters of the pair that `options` name."""
    pair = load(options)
    task = Task(12 if options.quick else 96, _HEAT)
    gammas = _GAMMAS[:2] if options.quick else _GAMMAS
    kinds = {kind: [ids_of(pair.tokenizer, text) for text in texts] for kind, texts in KINDS.items()}
    engines = _engines(options, pair)
    notes = [f"γ: the quickest of {', '.join(map(str, gammas))} in rounds of their own, for each kind of prompt"]
    notes += _stocked(engines, kinds, task)
    say("do all greedy texts agree?")
    wide = _wide(options, pair)
    checks = [_agree(kind, prompts, wide, task) for kind, prompts in kinds.items()]
    del wide
    races: list[Race] = []
    fares: list[Fare] = []
    for kind, prompts in kinds.items():
        say(f"{kind}: {len(engines)} drafters look for their γ")
        best = _best(engines, prompts, task, gammas, options)
        entries: dict[tuple[str, int | str], _Entry] = {
            (name, gamma): _Entry(engine, gamma, prompts, task)
            for name, engine in engines.items()
            for gamma in (best[name], "auto")
        }
        plain = _Entry(next(iter(engines.values())), 0, prompts, task)
        say(f"{kind}: they take turns")
        works: dict[Candidate, Work] = {ours.candidate(0): plain.act}
        works |= {ours.candidate(gamma, name): one.act for (name, gamma), one in entries.items()}
        against = {"plain": tuple(ours.candidate(gamma, name).name for name, gamma in entries)}
        for name, gamma in best.items():
            against[ours.candidate(gamma, name).name] = (ours.candidate("auto", name).name,)
        pace = replace(options.pace(_BUDGET), most=_ROUNDS)
        races.append(race.run(kind, "token", works, against, pace, tolerance=0.25))
        fares += [one.fare(name, races[-1]) for (name, _), one in entries.items()]
    say("looking up behind a long text")
    races.append(race.run(f"looking up behind {_LONG:,} tokens", "proposal", _long(), {}, options.pace(4.0)))
    return report("drafters", options, pair, races, tokens=task.tokens, checks=checks, notes=notes, fares=fares)


def _long() -> dict[Candidate, Work]:
    """Return the work of lookup drafters, alone, behind (or among) a long text of many tokens, and of one repeated."""
    texts = {"many tokens": [at * at % 251 for at in range(_LONG)], "one token": [7] * _LONG}
    works: dict[Candidate, Work] = {}
    for kind, text in texts.items():
        for drafter in (NgramDrafter(), RetrievalDrafter([text])):
            works[Candidate(f"{drafter.name}, {kind}", "ours", f"{_DRAFTS} drafts")] = _looking(drafter, text)
    return works


def _looking(drafter: Drafter, text: list[int]) -> Work:
    sequence = Sequence(text, Policy(sampling(0.0, 0)), GreedyNoise(), new_cache("contiguous", len(text)), _LONG)
    drafter.reset(sequence, len(text))

    def act(seed: int) -> Done:
        for _ in range(_TURNS):
            drafter.propose([sequence], [_DRAFTS])
        return Done(_TURNS)

    return act


@final
@dataclass(slots=True)
class _Entry:
    """One drafter at one γ (0: plain decoding) or a planned one, and what its requests came to."""

    engine: Engine
    gamma: int | str
    prompts: _Prompts
    task: Task
    stats: list[Stats] = field(default_factory=list)

    def act(self, seed: int) -> Done:
        """Run every prompt once; a unit is a new token."""
        tokens = 0
        for ids in self.prompts:
            how = sampling(self.task.temperature, seed)
            result = self.engine.generate(
                ids, how, max_new_tokens=self.task.tokens, gamma=self.gamma, speculate=self.gamma != 0, trace=False
            )
            tokens += len(result.tokens)
            self.stats.append(result.stats)
        return Done(tokens)

    def fare(self, name: str, found: Race) -> Fare:
        """Return how the drafter fared in a race."""
        total = {part: sum(getattr(one, part) for one in self.stats) for part in ("drafted", "accepted", "stop_cut")}
        cycles, emitted = (sum(getattr(one, part) for one in self.stats) for part in ("cycles", "emitted"))
        spent = {
            part: sum(getattr(one.seconds, part) for one in self.stats)
            for part in ("draft", "target", "verify", "other")
        }
        judged = total["drafted"] - total["stop_cut"]
        own = ours.candidate(self.gamma, name).name
        ratio = next(one.ratio for one in found.comparisons if (one.candidate, one.baseline) == (own, "plain"))
        return Fare(
            race=found.name,
            drafter=name,
            gamma=None if isinstance(self.gamma, str) else self.gamma,
            alpha=total["accepted"] / judged if judged else None,
            tokens_per_forward=emitted / cycles,
            draft_share=spent["draft"] / sum(spent.values()),
            microseconds=1e6 * spent["draft"] / cycles,
            ratio=ratio,
        )


def _best(
    engines: dict[str, Engine], prompts: _Prompts, task: Task, gammas: Items[int], options: Options
) -> dict[str, int]:
    """Return for each drafter the γ that it was quickest at."""
    entries = {
        ours.candidate(gamma, name): _Entry(engine, gamma, prompts, task).act
        for name, engine in engines.items()
        for gamma in gammas
    }
    pilot = race.run("γ", "token", entries, {}, Pace(1 if options.quick else _PILOTS, warm_up=1))

    def seconds(name: str, gamma: int) -> float:
        """Return the mean of a token over all rounds: the best round is the one with the luckiest texts."""
        return mean(per_unit(pilot.rounds, ours.candidate(gamma, name).name))

    return {name: min(gammas, key=lambda gamma: seconds(name, gamma)) for name in engines}


def _wide(options: Options, pair: Pair) -> dict[str, Engine]:
    """Return engines in float32, where wide and narrow forwards say the same, if the target can be had twice."""
    if pair.target.dtype != torch.float32 and pair.target.num_parameters() < SMALL:
        pair = load(replace(options, dtype="float32"))
    return _engines(options, pair)


def _engines(options: Options, pair: Pair) -> dict[str, Engine]:
    return {name: new_engine(options, pair, drafter=one) for name, one in drafters_for(pair).items()}


def _agree(kind: str, prompts: _Prompts, engines: dict[str, Engine], task: Task) -> Check:
    """Return whether every drafter leaves the greedy text alone."""
    cold = Task(task.tokens, 0.0)
    entries = {Candidate(name, "ours"): ours.decode(one, cold, 4) for name, one in engines.items()}
    one = next(iter(engines.values()))
    entries[Candidate("plain", "ours")] = ours.decode(one, cold, 0)
    return agreement(f"greedy texts, {kind}", entries, prompts, one.target_runner.dtype, "plain")


def _stocked(engines: dict[str, Engine], kinds: dict[str, list[list[int]]], task: Task) -> list[str]:
    """Give a retrieval drafter without texts what the target says to the same prompts under other seeds."""
    notes = []
    for engine in engines.values():
        drafter = engine.drafter
        if isinstance(drafter, RetrievalDrafter) and not drafter.held:
            for number, ids in enumerate(ids for prompts in kinds.values() for ids in prompts):
                how = sampling(task.temperature, _EARLIER + number)
                drafter.remember(engine.generate(ids, how, max_new_tokens=task.tokens, speculate=False, trace=False))
            notes.append("retrieval: from what the target said to these prompts under other seeds")
    return notes
