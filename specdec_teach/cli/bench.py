"""`specdec-teach bench`: measure decoding on this machine, ours and others', and say how sure the figures are.

Invariant: what cannot be used (a name, a folder, a stored report) is refused before anything is measured; figures go to
standard output, progress to standard error. It does not know how anything is measured.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec_kernels.errors import InvalidInput
from specdec_teach.cli import asked

if TYPE_CHECKING:
    from specdec_teach.bench.records import Report

__all__ = ["SUITES", "add", "run"]

SUITES = {
    "speed": "plain and speculative decoding, ours and others' (the default)",
    "drafters": "everybody who can draft for the pair, on three kinds of text",
    "rollback": "what a rejection costs, by context length and by how much is rejected",
    "planner": "what γ=\"auto\" loses to the best fixed γ, on given texts: replayed, and raced",
    "idle": "what a drafter costs at γ = 0, against an engine without one",
    "recorder": "what a trace and an observer cost",
    "verify": "what it costs to judge drafts over a vocabulary of 152k",
    "shares": "how much of a cycle lies outside the two models",
    "growth": "how costs grow with context, γ, batch and vocabulary",
}


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "bench",
        help="measure decoding on this machine",
        description="Run candidates in turn on the same work and print ratios of medians with their spread. Suites: "
        + "; ".join(f"{name}: {what}" for name, what in SUITES.items())
        + ". Figures hold for this machine; ratios are what to compare.",
        allow_abbrev=False,
    )
    parser.add_argument("suite", nargs="?", default="speed", choices=tuple(SUITES), metavar="SUITE", help="%(choices)s")
    asked.add_pair(parser)
    parser.add_argument(
        "--dtype", default="auto", metavar="NAME", help="of both models, as for load_pair (%(default)s)"
    )
    parser.add_argument("--decoder", default="auto", metavar="NAME", help="as for Engine (%(default)s)")
    parser.add_argument("--threads", type=int, metavar="N", help="of torch (as many as it takes by itself)")
    parser.add_argument(
        "--rounds", type=int, metavar="N", help="how often each candidate has its turn (what time allows)"
    )
    parser.add_argument("--quick", action="store_true", help="less of everything: a look, not a measurement")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the report")
    parser.add_argument(
        "--chart",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="draw it: .png, .svg or .html; repeatable",
    )
    parser.add_argument("--gate", type=Path, metavar="FILE", help="end with 1 if a ratio fell below a stored report's")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure, print, write, and hold against the gate."""
    for name in ("threads", "rounds"):
        if (value := getattr(args, name)) is not None and value < 1:
            raise InvalidInput(f"--{name} {value}; give a whole number, 1 or more")
    _can_write(args.json, *args.chart)
    from specdec_teach.bench import chart, gate
    from specdec_teach.bench.machine import threads
    from specdec_teach.bench.setting import Options
    from specdec_teach.bench.suites import find

    for path in args.chart:
        chart.check(path)
    stored = None if args.gate is None else gate.admits(args.gate, args.suite, args.quick)
    options = Options(args.target, args.draft, args.dtype, args.decoder, args.rounds, args.quick, args.tokenizers)
    with threads(args.threads):
        found = find(args.suite)(options, _say)
        _show(found)
    if args.json is not None:
        _say(f"wrote {found.save(args.json)}")
    for path in args.chart:
        _say(f"wrote {chart.write(found, path)}")
    fallen = [] if stored is None else gate.falls(found, stored)
    for fall in fallen:
        print(f"✗ {fall}")
    if stored is not None and not fallen:
        print(f"No ratio fell by more than its tolerance below {args.gate}.")
    return int(bool(fallen))


def _can_write(*paths: Path | None) -> None:
    for path in paths:
        if path is not None and not path.parent.is_dir():
            raise InvalidInput(f"cannot write {path}: there is no folder {path.parent}; make it first")
        if path is not None and path.is_dir():
            raise InvalidInput(f"cannot write {path}: it is a folder; give a file name")


def _show(report: Report) -> None:
    from rich.console import Console

    from specdec_teach.bench.table import tables

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    for part in tables(report):
        console.print(part)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
