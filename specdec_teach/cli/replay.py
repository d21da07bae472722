"""`specdec-teach replay`: show a saved trace as a table, or write it as a page, a still or a moving picture.

Invariant: it reads the trace alone, so it needs neither torch nor a model. It does not know how a view is drawn.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from specdec_kernels.errors import InvalidInput
from specdec_teach.trace import Trace

__all__ = ["add", "run"]


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "replay",
        help="show a saved run",
        description="Show a run that Trace.save wrote, without loading a model. The default is the table.",
        allow_abbrev=False,
    )
    parser.add_argument("trace", type=Path, metavar="TRACE", help="a file that Trace.save wrote")
    parser.add_argument("--html", type=Path, metavar="OUT", help="write one page that plays the run without a server")
    parser.add_argument("--svg", type=Path, metavar="OUT", help="write the still of one cycle as SVG")
    parser.add_argument("--png", type=Path, metavar="OUT", help="write the still of one cycle as PNG")
    parser.add_argument("--gif", type=Path, metavar="OUT", help="write some cycles as a moving picture")
    parser.add_argument("--compare", type=Path, metavar="TRACE", help="a second run, for --html: both on one clock")
    parser.add_argument("--cycle", type=int, metavar="N", help="the cycle of the still, or of the table")
    parser.add_argument(
        "--last", type=int, metavar="N", help="the last cycle of the moving picture (it starts at --cycle)"
    )
    parser.add_argument("--table", action="store_true", help="print the table also when a file is written")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write what was asked for, print the table, or both."""
    if args.compare is not None and args.html is None:
        raise InvalidInput("--compare needs a page to write to; add --html OUT")
    if args.last is not None and args.gif is None:
        raise InvalidInput("--last is for a moving picture; add --gif OUT")
    trace = Trace.load(args.trace)
    kept = [cycle.index for cycle in trace.cycles] or [0]
    first = kept[0] if args.cycle is None else args.cycle
    if args.html is not None:
        shown = trace if args.compare is None else trace.compare(Trace.load(args.compare))
        print(f"wrote {shown.to_html(args.html)}; open it in any browser")
    if args.svg is not None:
        print(f"wrote {_write(trace.to_svg(first), args.svg)}")
    if args.png is not None:
        print(f"wrote {trace.to_png(args.png, first)}")
    if args.gif is not None:
        last = min(first + 2, kept[-1]) if args.last is None else args.last
        print(f"wrote {trace.to_gif(args.gif, first, last)}")
    drawn = args.svg or args.png or args.gif
    if args.table or not (args.html or drawn) or (args.cycle is not None and not drawn):
        print((trace if args.cycle is None else _one(trace, args.cycle)).to_table())
    return 0


def _write(text: str, path: Path) -> Path:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}; choose a folder that exists and is yours") from None
    return path


def _one(trace: Trace, index: int) -> Trace:
    kept = tuple(cycle for cycle in trace.cycles if cycle.index == index)
    if not kept:
        known = [cycle.index for cycle in trace.cycles]
        allowed = f"{known[0]} to {known[-1]}" if known else "none: the trace holds no cycle"
        raise InvalidInput(f"this trace has no cycle {index}; give --cycle one of {allowed}")
    return replace(trace, cycles=kept)
