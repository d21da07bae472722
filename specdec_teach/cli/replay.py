"""`specdec-teach replay`: show a saved trace as a table, or write it as a page that plays without a server.

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
    parser.add_argument("--cycle", type=int, metavar="N", help="show the table of one cycle only")
    parser.add_argument("--table", action="store_true", help="print the table also when --html is given")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the page, print the table, or both."""
    trace = Trace.load(args.trace)
    if args.html is not None:
        print(f"wrote {trace.to_html(args.html)}; open it in any browser")
    if args.html is None or args.table or args.cycle is not None:
        print((trace if args.cycle is None else _one(trace, args.cycle)).to_table())
    return 0


def _one(trace: Trace, index: int) -> Trace:
    kept = tuple(cycle for cycle in trace.cycles if cycle.index == index)
    if not kept:
        known = [cycle.index for cycle in trace.cycles]
        allowed = f"{known[0]} to {known[-1]}" if known else "none: the trace holds no cycle"
        raise InvalidInput(f"this trace has no cycle {index}; give --cycle one of {allowed}")
    return replace(trace, cycles=kept)
