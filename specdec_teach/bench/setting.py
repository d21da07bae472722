"""What a run of the benchmark was asked for, and the engines and descriptions that follow from it.

Invariant: every engine of a run is made here, so all of them decode alike. It does not know what is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from specdec_teach.bench.machine import describe
from specdec_teach.bench.race import Pace
from specdec_teach.bench.records import SCHEMA_VERSION, Check, Count, Curve, Fare, Meta, Race, Report
from specdec_teach.drafters.base import Drafter
from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.engine import Engine
from specdec_teach.lineup import two_tokenizers
from specdec_teach.pairs import Pair, load_pair
from specdec_teach.sampling import Sampling

__all__ = ["SMALL", "Options", "Say", "load", "new_engine", "report", "sampling"]

SMALL = 1_000_000_000
"""Below so many parameters a target can be had twice, in two dtypes."""

Say = Callable[[str], None]
"""Tell somebody what is being done."""


@final
@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for; None is the default of whoever it concerns. `quick`: less of everything."""

    target: str | None = None
    draft: str | None = None
    dtype: str | None = None
    decoder: str = "auto"
    rounds: int | None = None
    quick: bool = False
    tokenizers: str = "same"

    def pace(self, budget: float) -> Pace:
        """Return how many rounds to run: those asked for, or as many as fit into `budget` seconds."""
        return Pace(self.rounds, warm_up=1, budget=budget / 8 if self.quick else budget)


def load(options: Options) -> Pair:
    """Return the pair that was asked for."""
    return load_pair(options.target, options.draft, dtype=options.dtype, tokenizers=options.tokenizers)


def new_engine(options: Options, pair: Pair, *, drafter: Drafter | None = None) -> Engine:
    """Return an engine over ids; with `drafter`, or the pair's own draft model where it has one.

    It has no tokenizer, as its peers have none: no candidate pays for text.
    """
    if drafter is None and pair.draft is not None:
        drafter = ModelDrafter(pair.draft, decoder=options.decoder, **two_tokenizers(pair))
    return Engine(pair.target, drafter=drafter, decoder=options.decoder)


def sampling(temperature: float, seed: int) -> Sampling:
    """Return the settings of a request that nothing ends before its length."""
    return Sampling(temperature=temperature, seed=seed, eos_token_id=None)


def report(
    suite: str,
    options: Options,
    pair: Pair | None,
    races: list[Race],
    *,
    tokens: int = 0,
    curves: list[Curve] | None = None,
    counts: list[Count] | None = None,
    checks: list[Check] | None = None,
    notes: list[str] | None = None,
    fares: list[Fare] | None = None,
) -> Report:
    """Return what was found, with the machine and the settings it was found with."""
    engine = None if pair is None else new_engine(options, pair)
    draft = None if engine is None or engine.drafter is None else engine.drafter.model_name
    meta = Meta(
        schema_version=SCHEMA_VERSION,
        suite=suite,
        target=None if engine is None else engine.target_runner.name,
        draft=draft,
        dtype="float32" if engine is None else engine.target_runner.dtype,
        decoder="none" if engine is None else engine.target_runner.decoder,
        rounds=min((len(race.rounds) for race in races), default=0),
        warm_up=options.pace(0.0).warm_up,
        tokens=tokens,
        quick=options.quick,
    )
    parts = (tuple(races), tuple(curves or ()), tuple(counts or ()), tuple(checks or ()), tuple(notes or ()))
    return Report(meta, describe(), *parts, tuple(fares or ()))
