"""What it costs to be watched: the same requests with nobody listening, with a trace, and with an observer as well.

A unit is a cycle. Invariant: all three run the same seeds, so they run the same cycles. It does not know what a record
holds.
"""

from __future__ import annotations

from typing import final

from specdec_teach.bench import race
from specdec_teach.bench.race import Done, Work
from specdec_teach.bench.records import Candidate, Report
from specdec_teach.bench.setting import Options, Say, load, new_engine, report, sampling
from specdec_teach.bench.task import STORIES, ids_of
from specdec_teach.drafters.ngram import NgramDrafter
from specdec_teach.engine import Engine

__all__ = ["run"]


@final
class Listener:
    """Counts events, as cheaply as an observer can."""

    def __init__(self) -> None:
        self.heard = 0

    def on_event(self, event: object) -> None:
        """See `events.Observer`."""
        self.heard += 1


def run(options: Options, say: Say) -> Report:
    """Race the three ways."""
    pair = load(options)
    tokens = 24 if options.quick else 96
    drafter = NgramDrafter() if pair.draft is None else None
    silent, heard = (new_engine(options, pair, drafter=drafter) for _ in range(2))
    heard.observers.append(Listener())
    ids = ids_of(pair.tokenizer, STORIES[0])

    def way(engine: Engine, trace: bool) -> Work:
        def act(seed: int) -> Done:
            result = engine.generate(ids, sampling(0.8, seed), max_new_tokens=tokens, trace=trace)
            return Done(result.stats.cycles)

        return act

    entries = {
        Candidate("nobody listens", "ours", "trace=False"): way(silent, False),
        Candidate("trace kept", "ours", "trace=True"): way(silent, True),
        Candidate("trace and observer", "ours", "trace=True, one observer"): way(heard, True),
    }
    say("recorder: three ways take turns")
    against = {"nobody listens": ("trace kept", "trace and observer")}
    races = [race.run("recorder", "cycle", entries, against, _many(options), tolerance=0.05)]
    return report("recorder", options, pair, races, tokens=tokens)


def _many(options: Options) -> race.Pace:
    """Return a pace of 15 rounds: what is looked for is small beside what a machine does by itself."""
    if options.rounds is None and not options.quick:
        return race.Pace(15, warm_up=2)
    return race.Pace(options.rounds, warm_up=2, budget=5.0)
