"""What a drafter costs that is not asked: γ = 0 against an engine that has no drafter at all.

A unit is a token. Invariant: both say the same tokens, one forward of the target for each. It does not know how a cycle
goes.
"""

from __future__ import annotations

from specdec_teach.bench import race
from specdec_teach.bench.race import Done, Work
from specdec_teach.bench.records import Candidate, Report
from specdec_teach.bench.setting import Options, Say, load, new_engine, report, sampling
from specdec_teach.bench.task import STORIES, ids_of
from specdec_teach.drafters.ngram import NgramDrafter
from specdec_teach.engine import Engine

__all__ = ["run"]

_CLOSE = 0.03


def run(options: Options, say: Say) -> Report:
    """Race the two engines, greedy and sampled."""
    pair = load(options)
    tokens = 16 if options.quick else 96
    idle = new_engine(options, pair, drafter=NgramDrafter() if pair.draft is None else None)
    plain = idle.variant(drafter=None)
    ids = ids_of(pair.tokenizer, STORIES[0])

    def way(engine: Engine, heat: float) -> Work:
        def act(seed: int) -> Done:
            result = engine.generate(ids, sampling(heat, seed), max_new_tokens=tokens, gamma=0, trace=False)
            return Done(result.stats.emitted)

        return act

    races = []
    for name, heat in (("greedy", 0.0), ("T=0.8", 0.8)):
        say(f"idle: {name}")
        entries = {
            Candidate("no drafter", "ours", "drafter=None"): way(plain, heat),
            Candidate("γ=0", "ours", "gamma=0, with a drafter", 0): way(idle, heat),
        }
        against = {"no drafter": ("γ=0",)}
        races.append(race.run(name, "token", entries, against, options.pace(20.0), tolerance=_CLOSE))
    return report("idle", options, pair, races, tokens=tokens)
