"""What the planner loses to the best fixed γ, told apart from luck: given texts, priced by what cycles cost here.

Two runs at different γ draw different texts, and some texts are easier to foresee than others: over a few hundred
tokens that alone moves a speed by 5 %. So the target draws the texts, once; each drafter says at every position of them
what it would have drafted, its costs are measured as the planner measures them, and every γ, the planner and the rule
of thumb replay the same texts. Within a text easy and hard stretches stay in their order, which is what a planner has
to follow. Drafters that draw are then raced in earnest: the engine runs, with nothing but its choices arranged so that
every candidate writes the same texts.
Invariant: a round goes through every text once. Trees are left out: a shallower one is another tree.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from time import perf_counter

from specdec_teach.bench import race
from specdec_teach.bench.ours import candidate
from specdec_teach.bench.race import Done, Work
from specdec_teach.bench.records import Candidate, Check, Race, Report
from specdec_teach.bench.replay import Place, recorded, replayed
from specdec_teach.bench.setting import Options, Say, load, new_engine, report, sampling
from specdec_teach.bench.task import KINDS, ids_of
from specdec_teach.bench.telling import Given, law
from specdec_teach.costs import Costs
from specdec_teach.drafters.base import Branching
from specdec_teach.engine import Engine
from specdec_teach.lineup import drafters_for
from specdec_teach.pacing import Fixed, Heuristic, Planning
from specdec_teach.pairs import Pair
from specdec_teach.planner import MOST, Planner

__all__ = ["run"]

_HEAT, _CLOSE, _SLOWER = 0.8, 0.95, 0.97
_GAMMAS = (1, 2, 4, 8)
_Told = list[tuple[list[int], list[int]]]
_Texts = list[tuple[Place, ...]]


def run(options: Options, say: Say) -> Report:
    """Record and replay every drafter that makes chains."""
    pair = load(options)
    tokens, seeds = (16, 2) if options.quick else (96, 8)
    say("the target draws the texts")
    told = {kind: _told(new_engine(options, pair), pair, kind, tokens + MOST + 1, seeds) for kind in KINDS}
    races: list[Race] = []
    checks: list[Check] = []
    for name, drafter in drafters_for(pair).items():
        if isinstance(drafter, Branching):
            continue
        say(f"{name}: told the texts, then replayed")
        engine = new_engine(options, pair, drafter=drafter)
        costs, chance = engine.costs(), Random(0)
        for kind, texts in told.items():
            how = sampling(_HEAT, 0)
            places = [recorded(engine, ids, text, how, MOST, chance) for ids, text in texts]
            races.append(_race(f"{name}, {kind}", places, costs, tokens, options))
            checks.append(_close(races[-1]))
            if any(0.0 < chance < 1.0 for text in places for place in text for chance in place.standing):
                say(f"{name}, {kind}: the engine writes some of them again")
                races.append(
                    _earnest(f"{name}, {kind}, in earnest", engine, texts[:: seeds // min(seeds, 4)], tokens, options)
                )
                checks.append(_close(races[-1]))
    notes = [
        f"replayed: {seeds} texts for each prompt, T = {_HEAT}; costs measured, nothing else timed",
        f"in earnest: on {min(seeds, 4)} of them, which every candidate writes; all timed",
    ]
    return report("planner", options, pair, races, tokens=tokens, checks=checks, notes=notes)


def _told(engine: Engine, pair: Pair, kind: str, tokens: int, seeds: int) -> _Told:
    """Return prompts and what the target says to them."""
    prompts = [ids_of(pair.tokenizer, text) for text in KINDS[kind]]
    found = []
    for ids in prompts:
        for seed in range(seeds):
            said = engine.generate(ids, sampling(_HEAT, seed), max_new_tokens=tokens, speculate=False, trace=False)
            found.append((ids, list(said.tokens)))
    return found


def _race(name: str, texts: _Texts, costs: Costs, tokens: int, options: Options) -> Race:
    """Return the race of plain decoding, every fixed γ, the planner and the rule of thumb."""
    plans: dict[Candidate, Planning] = {candidate(gamma, "drafts"): Fixed(gamma) for gamma in range(MOST + 1)}
    auto, thumb = candidate("auto", "drafts"), candidate("heuristic", "drafts")
    plans |= {auto: Planner(costs), thumb: Heuristic(most=MOST)}

    def work(planning: Planning) -> Work:
        def act(seed: int) -> Done:
            done = [replayed(text, planning, costs, tokens, Random(1000 * seed + at)) for at, text in enumerate(texts)]
            return Done(sum(made for made, _ in done), sum(seconds for _, seconds in done))

        return act

    pace = replace(options.pace(0.0), rounds=options.rounds or (2 if options.quick else 15))
    entries = {one: work(planning) for one, planning in plans.items()}
    plain, *fixed = (one.name for one in plans if one not in (auto, thumb))
    against = {plain: (auto.name, thumb.name), **dict.fromkeys(fixed, (auto.name,))}
    return race.run(name, "token", entries, against, pace, tolerance=0.05)


def _earnest(name: str, engine: Engine, texts: _Told, tokens: int, options: Options) -> Race:
    """Return the race of the engine itself, writing given texts plainly, at some fixed γ and as it is planned."""
    how = sampling(_HEAT, 0)
    laws = [law(engine.open(ids, how, max_new_tokens=len(text), trace=False), text) for ids, text in texts]

    def work(gamma: int | str) -> Work:
        def act(seed: int) -> Done:
            spent = 0.0
            for at, ((ids, text), p_NV) in enumerate(zip(texts, laws, strict=True)):
                begun = perf_counter()
                stream = engine.open(ids, how, max_new_tokens=tokens, gamma=gamma, speculate=gamma != 0, trace=False)
                stream.sequence.noise = Given(stream.sequence, [*ids, *text], p_NV, 1000 * seed + at)
                while stream.step():
                    pass
                spent += perf_counter() - begun
                assert stream.sequence.new_tokens == text[:tokens], "whoever is given a text writes it"
            return Done(tokens * len(texts), spent)

        return act

    entries = {candidate(gamma, "drafts"): work(gamma) for gamma in (0, *_GAMMAS, "auto")}
    auto = candidate("auto", "drafts").name
    against = {one.name: (auto,) for one in entries if one.name != auto}
    return race.run(name, "token", entries, against, options.pace(20.0), tolerance=0.1)


def _close(found: Race) -> Check:
    """Return whether the planner is within 5 % of the best fixed γ, and no more than 3 % slower than plain."""
    auto = candidate("auto", "drafts").name
    ratios = {one.baseline: one.ratio for one in found.comparisons if one.candidate == auto}
    hardest = min(ratios, key=lambda base: ratios[base])
    plain = ratios[candidate(0).name]
    detail = f"{ratios[hardest]:.3f} × {hardest}, the best fixed; {plain:.3f} × plain"
    return Check(f"auto, {found.name}", ratios[hardest] >= _CLOSE and plain >= _SLOWER, detail)
