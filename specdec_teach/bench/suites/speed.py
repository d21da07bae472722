"""Plain and speculative decoding, ours and transformers', in one race for each way of sampling.

Invariant: in a race all candidates have the same pair, prompts, sampling and number of tokens, and those that draft are
compared at the same γ; with γ as the planner and the rule of thumb choose it, our own drafts race against the fixed
ones. Before anything is timed, their greedy texts are held against each other, in
float32 as well where the race is in another dtype and the models (below 10⁹ parameters) can be had twice.
It does not know how anybody decodes.
"""

from __future__ import annotations

from dataclasses import replace

from specdec_teach.bench import flashspec, ours, peers, race
from specdec_teach.bench.records import Candidate, Check, Count, Race, Report
from specdec_teach.bench.setting import SMALL, Options, Say, load, new_engine, report
from specdec_teach.bench.task import COPY, STORIES, Decode, Task, agreement, ids_of, work
from specdec_teach.drafters.ngram import NgramDrafter
from specdec_teach.engine import Engine
from specdec_teach.pairs import Pair

__all__ = ["run"]

_LONGEST = 3
_TEMPERATURE = 0.8
_ONE = "others that draft with a model were left out: they are asked here with one tokenizer alone"
_Entries = dict[Candidate, Decode]


def run(options: Options, say: Say) -> Report:
    """Race the pair that `options` name; without a draft model, n-gram drafts on a text that invites copying."""
    pair = load(options)
    tokens = 16 if options.quick else 64
    gammas = (4,) if options.quick else (2, 4, 6, 8)
    skipped = flashspec.missing() if pair.draft_tokenizer is None else _ONE
    drafter = NgramDrafter(longest=_LONGEST) if pair.draft is None else None
    texts = (COPY,) if drafter else STORIES[: 1 if options.quick else None]
    before = "copying, " if drafter else ""
    settings = {f"{before}greedy": 0.0, f"{before}T={_TEMPERATURE}": _TEMPERATURE}
    prompts = [ids_of(pair.tokenizer, text) for text in texts]
    engine = new_engine(options, pair, drafter=drafter)

    def entries(pair: Pair, engine: Engine, heat: float) -> _Entries:
        task = Task(tokens, heat)
        if drafter is not None:
            return _with_lookup(engine, pair, task, gammas)
        return _with_draft(engine, pair, task, gammas, not skipped)

    def agree(pair: Pair, engine: Engine) -> Check:
        dtype = engine.target_runner.dtype
        return agreement(f"greedy texts, {dtype}", entries(pair, engine, 0.0), prompts, dtype, "plain")

    notes = [skipped] if skipped and drafter is None else []
    say("do all greedy texts agree?")
    checks = [agree(pair, engine)]
    if engine.target_runner.dtype != "float32" and pair.target.num_parameters() < SMALL:
        wide = load(replace(options, dtype="float32"))
        checks.insert(0, agree(wide, new_engine(options, wide, drafter=drafter)))
        del wide
    races: list[Race] = []
    counts: list[Count] = []
    for name, heat in settings.items():
        rivals = entries(pair, engine, heat)
        say(f"{name}: {len(rivals)} candidates take turns")
        works = {one: work(decode, prompts) for one, decode in rivals.items()}
        races.append(race.run(name, "token", works, _against(rivals), options.pace(40.0)))
        counts += [ours.counted(name, engine, prompts, Task(tokens, heat), gamma) for gamma in (*gammas, *ours.PLANNED)]
    return report("speed", options, pair, races, tokens=tokens, counts=counts, checks=checks, notes=notes)


def _ours(engine: Engine, task: Task, gammas: tuple[int, ...], drafter: str) -> _Entries:
    """Return our engine, plain, at every γ, and with γ planned."""
    paces: list[int | str] = [0, *gammas, *ours.PLANNED]
    return {ours.candidate(gamma, drafter): ours.decode(engine, task, gamma) for gamma in paces}


def _with_draft(engine: Engine, pair: Pair, task: Task, gammas: tuple[int, ...], others: bool) -> _Entries:
    """Return who can decode with the draft model, at every γ."""
    entries = _ours(engine, task, gammas, "speculative")
    entries[peers.plain_candidate()] = peers.plain(pair.target, task)
    for gamma in gammas if pair.draft_tokenizer is None else ():
        entries[peers.assisted_candidate(gamma)] = peers.assisted(pair.target, pair.draft, task, gamma)
    if others:
        entries[flashspec.candidate(4)] = flashspec.decode(pair, task, 4)
    return entries


def _with_lookup(engine: Engine, pair: Pair, task: Task, gammas: tuple[int, ...]) -> _Entries:
    """Return who can look drafts up in the text."""
    entries = _ours(engine, task, gammas, "n-gram")
    entries[peers.plain_candidate()] = peers.plain(pair.target, task)
    for gamma in gammas:
        entries[peers.lookup_candidate(gamma, _LONGEST)] = peers.lookup(pair.target, task, gamma, _LONGEST)
    return entries


def _against(entries: _Entries) -> dict[str, tuple[str, ...]]:
    """Return who is compared with whom.

    All that draft with plain decoding, a planned γ with every fixed one, and peers with what does the same at their γ.
    """
    mine = [one for one in entries if one.source == "ours"]
    plain, *drafting = mine
    fixed = [one for one in drafting if one.gamma is not None]
    planned = tuple(one.name for one in drafting if one.gamma is None)
    pairs = {plain.name: tuple(one.name for one in drafting), **{one.name: planned for one in fixed}}
    for peer in entries:
        if peer.source != "ours":
            pairs[peer.name] = tuple(one.name for one in (plain, *fixed) if one.gamma == peer.gamma)
    return pairs
