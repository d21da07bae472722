"""Plain and speculative decoding, ours and transformers', in one race for each way of sampling.

Invariant: in a race all candidates have the same pair, prompts, sampling and number of tokens, and those that draft are
compared at the same γ. Before anything is timed, their greedy texts are held against each other.
It does not know how anybody decodes.
"""

from __future__ import annotations

from specdec_teach.bench import flashspec, ours, peers, race
from specdec_teach.bench.records import Candidate, Check, Race, Report
from specdec_teach.bench.setting import Options, Say, load, new_engine, report
from specdec_teach.bench.task import COPY, STORIES, Decode, Task, agreement, ids_of, work
from specdec_teach.drafters.ngram import NgramDrafter
from specdec_teach.pairs import Pair

__all__ = ["run"]

_LONGEST = 3
_TEMPERATURE = 0.8
_Entries = dict[Candidate, Decode]


def run(options: Options, say: Say) -> Report:
    """Race the pair that `options` name; without a draft model, n-gram drafts alone."""
    pair = load(options)
    tokens = 16 if options.quick else 40
    prompts = [ids_of(pair.tokenizer, text) for text in (STORIES[:1] if options.quick else STORIES)]
    gammas = (4,) if options.quick else (2, 4, 6)
    skipped = flashspec.missing()
    notes = [skipped] if skipped and pair.draft is not None else []
    races: list[Race] = []
    checks: list[Check] = []

    def hold(name: str, entries: _Entries, texts: list[list[int]]) -> None:
        say(f"{name}: do all greedy texts agree?")
        checks.append(agreement(name, entries, texts, str(pair.target.dtype).removeprefix("torch."), "plain"))

    def go(name: str, entries: _Entries, texts: list[list[int]], budget: float) -> None:
        say(f"{name}: {len(entries)} candidates take turns")
        works = {one: work(decode, texts) for one, decode in entries.items()}
        races.append(race.run(name, "token", works, _against(entries), options.pace(budget)))

    if pair.draft is not None:
        hold("stories", _with_draft(options, pair, Task(tokens, 0.0), gammas, not skipped), prompts)
        for name, heat in (("greedy", 0.0), (f"T={_TEMPERATURE}", _TEMPERATURE)):
            go(name, _with_draft(options, pair, Task(tokens, heat), gammas, not skipped), prompts, 36.0)
    copied = [ids_of(pair.tokenizer, COPY)]
    looked_up = _with_lookup(options, pair, Task(2 * tokens, 0.0), (4,) if options.quick else (4, 8))
    hold("copying", looked_up, copied)
    go("copying, greedy", looked_up, copied, 12.0)
    return report("speed", options, pair, races, tokens=tokens, checks=checks, notes=notes)


def _with_draft(options: Options, pair: Pair, task: Task, gammas: tuple[int, ...], others: bool) -> _Entries:
    """Return who can decode with the draft model, at every γ."""
    engine = new_engine(options, pair)
    entries = {ours.candidate(gamma): ours.decode(engine, task, gamma) for gamma in (0, *gammas)}
    entries[peers.plain_candidate()] = peers.plain(pair.target, task)
    for gamma in gammas:
        entries[peers.assisted_candidate(gamma)] = peers.assisted(pair.target, pair.draft, task, gamma)
    if others:
        entries[flashspec.candidate(4)] = flashspec.decode(pair, task, 4)
    return entries


def _with_lookup(options: Options, pair: Pair, task: Task, gammas: tuple[int, ...]) -> _Entries:
    """Return who can look drafts up in the text."""
    engine = new_engine(options, pair, drafter=NgramDrafter(longest=_LONGEST))
    entries = {ours.candidate(gamma, "n-gram"): ours.decode(engine, task, gamma) for gamma in (0, *gammas)}
    entries[peers.plain_candidate()] = peers.plain(pair.target, task)
    for gamma in gammas:
        entries[peers.lookup_candidate(gamma, _LONGEST)] = peers.lookup(pair.target, task, gamma, _LONGEST)
    return entries


def _against(entries: _Entries) -> dict[str, tuple[str, ...]]:
    """Return who is compared with whom: with plain decoding, and with the peer that does the same at the same γ."""
    mine = [one for one in entries if one.source == "ours"]
    pairs = {"plain": tuple(one.name for one in mine if one.gamma)}
    for peer in entries:
        if peer.source != "ours":
            pairs[peer.name] = tuple(one.name for one in mine if one.gamma == peer.gamma)
    return pairs
