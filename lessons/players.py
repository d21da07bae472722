"""Write one page for the key moment of each lesson, and a page that lists them: nothing to install, no network.

    python -m lessons.players pages

Invariant: every page is a run of the real engine on the embedded pair with fixed seeds, made when it is asked for; what
the list says to look for is about that run. It does not know how a page plays.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Protocol, final

import specdec_teach as sd
from specdec_kernels.errors import EngineFailure, InvalidInput
from specdec_teach.drafters.base import Drafter
from specdec_teach.pairs import Pair
from specdec_teach.trace import Trace
from specdec_widgets.page import lab_to_html, write

__all__ = ["MOMENTS", "Moment", "main", "write_all"]

PROMPT, STORY = "Once upon a time", sd.Sampling(temperature=0.8, seed=7)


class Page(Protocol):
    """What can be written as a page."""

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write it and return the path."""


@final
@dataclass(frozen=True, slots=True)
class Moment:
    """The key moment of a lesson: `name` is the file's, `look` says what to do and see, `make` runs the engine."""

    name: str
    title: str
    look: str
    make: Callable[[Pair], Page]


@final
class _Lab:
    """The acceptance lab over two laws of three tokens."""

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write it and return the path."""
        return lab_to_html([0.6, 0.3, 0.1], [0.2, 0.5, 0.3], path, labels=["by", "the", "fox"])


def _run(
    pair: Pair, sampling: sd.Sampling = STORY, *, tokens: int = 32, gamma: int = 4, verify: str = "rejection",
    cache: str = "contiguous", reject_at: int | None = None, drafter: Drafter | None = None, speculate: bool = True,
) -> Trace:  # fmt: skip
    assert pair.draft is not None
    engine = sd.Engine(
        pair.target, drafter=drafter or sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=gamma,
        verify=verify, cache=cache,
    )  # fmt: skip
    result = engine.generate(PROMPT, sampling, max_new_tokens=tokens, reject_at=reject_at, speculate=speculate)
    assert result.trace is not None
    return result.trace


def _scheduled(pair: Pair) -> Page:
    assert pair.draft is not None
    engine = sd.Engine(
        pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4, cache="paged"
    )
    scheduler = sd.Scheduler(engine, max_batch=2, blocks=40)
    for name, prompt, cap in (("long", PROMPT, 40), ("short", "One day", 8), ("next", "The fox", 12)):
        scheduler.submit(prompt, sd.Sampling(temperature=0.0), max_new_tokens=cap, name=name)
    scheduler.run()
    return scheduler.timeline()


def _looked_up(pair: Pair) -> Page:
    return _run(pair).compare(_run(pair, drafter=sd.drafters_for(pair)["ngram"]), ("draft model", "n-grams"))


def _tree(pair: Pair) -> Page:
    assert pair.draft is not None
    return _run(pair, drafter=sd.TreeDrafter(sd.ModelDrafter(pair.draft), (2, 2, 1)), gamma=3)


def _broken(pair: Pair) -> Page:
    assert pair.draft is not None
    engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4)
    greedy = sd.Sampling(temperature=0.0)
    broken = sd.faults.inject(engine, "engine_f").generate(PROMPT, greedy, max_new_tokens=48).trace
    assert broken is not None
    return _run(pair, greedy, tokens=48).compare(broken, ("honest", "engine_f"))


MOMENTS = (
    Moment("00", "One rejection, forced", "R goes to the third draft of a cycle; → shows correction and rewind.",
           lambda pair: _run(pair, reject_at=3)),
    Moment("01", "One forward, one token", "Two runs on one clock: count the target forwards of each.",
           lambda pair: _run(pair).compare(_run(pair, speculate=False), ("speculative", "plain"))),
    Moment("02", "Draft, then verify", "→ through one cycle: drafts come one by one, and the target sees all at once.",
           _run),
    Moment("03", "Accept or correct", "Drag a bar of q above p: accepted and corrected together stay p.",
           lambda pair: _Lab()),
    Moment("04", "Why the text does not change", "R, then the bars: the correction is drawn only where p is above q.",
           lambda pair: _run(pair, sd.Sampling(temperature=1.2, seed=3))),
    Moment("05", "Two pointers go back", "R, then → to the rewind: the slots stay there, and nobody can reach them.",
           lambda pair: _run(pair, sd.Sampling(temperature=1.0, seed=5))),
    Moment("06", "Blocks", "Shift → by cycles: watch blocks being taken, published and given back.",
           lambda pair: _run(pair, cache="paged")),
    Moment("07", "What the verify kernel computes", "One cycle under the block rule: the longest prefix that stands.",
           lambda pair: _run(pair, verify="block")),
    Moment("08", "Two drafters", "The draft model beside n-grams of the text: who proposes more, and who is right?",
           _looked_up),
    Moment("09", "A tree of drafts", "→ in a cycle: siblings are tried in turn, and one path stays.", _tree),
    Moment("10", "γ = 2 beside γ = 6", "Longer drafts: more tokens for a cycle, and more of them thrown away.",
           lambda pair: _run(pair, gamma=2).compare(_run(pair, gamma=6), ("γ = 2", "γ = 6"))),
    Moment("11", "Several requests", "→ by steps: a request ends, and the next one takes its place.", _scheduled),
    Moment("12", "Honest beside broken", "Both are greedy. Go to the first difference: what happened just before?",
           _broken),
    Moment("13", "Not lossless", "A rule that only bounds p: every cycle is marked, and nothing is drawn for the test.",
           lambda pair: _run(pair, verify="typical")),
)  # fmt: skip


def write_all(folder: Path) -> list[Path]:
    """Write the page of every moment and index.html into `folder`, which is made, and return the paths, index first."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"cannot make {folder}: {error.strerror}; choose a folder that is yours") from None
    pair = sd.load_pair()
    made = [moment.make(pair).to_html(folder / f"{moment.name}.html") for moment in MOMENTS]
    return [write(_index(), folder / "index.html"), *made]


def _index() -> str:
    rows = "\n".join(
        f'<li><a href="{moment.name}.html">{moment.name} · {escape(moment.title)}</a><br>{escape(moment.look)}</li>'
        for moment in MOMENTS
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Speculative decoding, moment by moment</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ max-width: 44rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }}
ul {{ padding: 0; list-style: none; }}
li {{ margin: 0 0 1rem; }}
</style>
</head>
<body>
<main>
<h1>Speculative decoding, moment by moment</h1>
<p>Each page plays a run of a real engine. → and ← step, R goes to the next rejection, P is for a projector, ? lists all
keys.</p>
<ul>
{rows}
</ul>
</main>
</body>
</html>
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages; 1 and one line when they cannot be written."""
    parser = argparse.ArgumentParser(prog="python -m lessons.players", description="Write pages that need no install.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path("pages"), help="where to (default: pages)")
    try:
        paths = write_all(parser.parse_args(arguments).folder)
    except (InvalidInput, EngineFailure) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"wrote {len(paths)} pages; open {paths[0]} in any browser")
    return 0


if __name__ == "__main__":
    sys.exit(main())
