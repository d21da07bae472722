"""A benchmark's report as frozen records that go into JSON and come back equal.

Invariant: a ratio says how many times as fast a candidate was as its baseline: above 1 is faster, whatever is measured,
so a gate needs one rule. Seconds belong to one machine and moment; only ratios may be compared between runs.
It does not know how anything was timed, or how it is shown.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, final

from specdec_kernels.errors import InvalidInput
from specdec_teach.records import from_plain, read_json, to_plain, write_json

__all__ = [
    "SCHEMA_VERSION",
    "Candidate",
    "Check",
    "Comparison",
    "Count",
    "Curve",
    "Fare",
    "Machine",
    "Meta",
    "Point",
    "Race",
    "Report",
    "Round",
]

SCHEMA_VERSION = 1

Source = Literal["ours", "transformers", "flashspec", "torch"]


@final
@dataclass(frozen=True, slots=True)
class Machine:
    """What was measured on. `cores`: those that this process may use; `load`: processes that wanted one at the start.

    `load` is None where the system does not tell.
    """

    processor: str
    system: str
    cores: int
    threads: int
    load: float | None
    python: str
    torch: str
    transformers: str


@final
@dataclass(frozen=True, slots=True)
class Meta:
    """What was run: the suite, both models by name, their dtype, who decodes, and how much.

    `tokens`: new tokens of each prompt, or 0 where a suite generates no text. `draft` is None without a draft model.
    """

    schema_version: int
    suite: str
    target: str | None
    draft: str | None
    dtype: str
    decoder: str
    rounds: int
    warm_up: int
    tokens: int
    quick: bool


@final
@dataclass(frozen=True, slots=True)
class Candidate:
    """One of those that are compared. `detail`: the settings that matter; `optional`: not installed everywhere."""

    name: str
    source: Source
    detail: str = ""
    gamma: int | None = None
    optional: bool = False


@final
@dataclass(frozen=True, slots=True)
class Round:
    """One turn of all candidates: the seconds of each, and how many units of work (tokens, cycles) they paid for."""

    seconds: Mapping[str, float]
    units: Mapping[str, int]


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """How many times as fast `candidate` is as `baseline`.

    `ratio`: of the medians of seconds a unit; `low`, `high`: quartiles of the ratios of single rounds. `tolerance`: by
    what share the ratio may fall before a gate objects.
    """

    candidate: str
    baseline: str
    ratio: float
    low: float
    high: float
    tolerance: float

    @property
    def steady(self) -> bool:
        """Whether single rounds say the same as the medians, up to 2 %; else the machine changed in between."""
        return 0.98 * self.low <= self.ratio <= 1.02 * self.high


@final
@dataclass(frozen=True, slots=True)
class Race:
    """Candidates that took turns on the same work, all their rounds, and what is compared."""

    name: str
    unit: str
    candidates: tuple[Candidate, ...]
    rounds: tuple[Round, ...]
    comparisons: tuple[Comparison, ...]

    def candidate(self, name: str) -> Candidate:
        """Return the candidate of that name."""
        return next(one for one in self.candidates if one.name == name)


@final
@dataclass(frozen=True, slots=True)
class Check:
    """Something that was found true or not before anything was timed."""

    name: str
    holds: bool
    detail: str


@final
@dataclass(frozen=True, slots=True)
class Count:
    """What was counted rather than timed, so that it is the same on every machine."""

    name: str
    values: Mapping[str, int]


@final
@dataclass(frozen=True, slots=True)
class Fare:
    """How a drafter fared in a race at one γ (None: a planned one), over all its turns.

    `alpha`: drafts accepted of those that were judged, None where none was made. `tokens_per_forward`: of the target.
    `draft_share`: of the seconds of its cycles. `microseconds`: of drafting in a cycle. `ratio`: times as
    fast as plain.
    """

    race: str
    drafter: str
    gamma: int | None
    alpha: float | None
    tokens_per_forward: float
    draft_share: float
    microseconds: float
    ratio: float


@final
@dataclass(frozen=True, slots=True)
class Point:
    """One place of a curve: median and quartiles at `x`."""

    x: float
    median: float
    low: float
    high: float


@final
@dataclass(frozen=True, slots=True)
class Curve:
    """How something grows: for each series its points, in order of x. `log`: x grows by factors."""

    name: str
    x: str
    y: str
    series: Mapping[str, tuple[Point, ...]]
    log: bool = False


@final
@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a run of the benchmark found. `notes`: what was left out, and why."""

    meta: Meta
    machine: Machine
    races: tuple[Race, ...] = ()
    curves: tuple[Curve, ...] = ()
    counts: tuple[Count, ...] = ()
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
    fares: tuple[Fare, ...] = ()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the report as JSON and return the path; InvalidInput where that cannot be done."""
        return write_json(to_plain(self), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Report:
        """Read what `save` wrote; InvalidInput for a file that is missing, damaged or of another version."""
        plain = read_json(path)
        meta = plain.get("meta") if isinstance(plain, dict) else None
        if not isinstance(meta, dict) or "suite" not in meta:
            raise InvalidInput(f"{os.fspath(path)} is no report of a benchmark; give a file that --json wrote")
        return from_plain(cls, plain, SCHEMA_VERSION)
