"""Reports made by hand, for the tests of what is done with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specdec_teach.bench.figures import compare
from specdec_teach.bench.records import (
    SCHEMA_VERSION,
    Candidate,
    Check,
    Count,
    Curve,
    Fare,
    Machine,
    Meta,
    Point,
    Race,
    Report,
    Round,
)

MACHINE = Machine("a processor", "Linux x86_64", 2, 1, 0.5, "3.11.7", "2.13.0", "5.23.0")
META = Meta(SCHEMA_VERSION, "speed", "target", "draft", "float32", "auto", 3, 1, 8, False)
CANDIDATES = (
    Candidate("plain", "ours"),
    Candidate("fast", "ours", "gamma=4", 4),
    Candidate("guest", "flashspec", "gamma=4", 4, optional=True),
)


def rounds(seconds: Mapping[str, Sequence[float]], units: int = 1) -> tuple[Round, ...]:
    """Rounds in which each candidate took these seconds."""
    return tuple(
        Round(dict(zip(seconds, each, strict=True)), dict.fromkeys(seconds, units))
        for each in zip(*seconds.values(), strict=True)
    )


def race(fast: float = 1.0, guest: float | None = 4.0, tolerance: float = 0.15) -> Race:
    """A race in which plain takes 2 seconds, and `fast` and `guest` what is given."""
    given = {"plain": [2.0, 2.0, 2.0], "fast": [fast] * 3} | ({} if guest is None else {"guest": [guest] * 3})
    found = rounds(given)
    pairs = [compare(found, "fast", "plain", tolerance)]
    pairs += [] if guest is None else [compare(found, "fast", "guest", tolerance)]
    return Race("greedy", "token", CANDIDATES[: len(given)], found, tuple(pairs))


def report(*races: Race, **changes: Any) -> Report:
    """A report with every kind of record in it."""
    curve = Curve("growth", "tokens", "ms", {"plain": (Point(1, 2, 1, 3), Point(10, 4, 3, 5))}, log=True)
    parts: dict[str, Any] = {
        "meta": META,
        "machine": MACHINE,
        "races": races or (race(),),
        "curves": (curve,),
        "counts": (Count("cache", {"operations": 0}),),
        "checks": (Check("stories", True, "the same"),),
        "notes": ("nothing was left out",),
        "fares": (
            Fare("greedy", "ngram", 4, None, 1.0, 0.01, 3.5, 0.9),
            Fare("greedy", "model", 4, 0.5, 2.5, 0.2, 900.0, 1.8),
        ),
    }
    return Report(**{**parts, **changes})
