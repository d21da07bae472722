"""`specdec-teach check`: prove the engine on the embedded pair, or on a pair of your own.

Invariant: the status is 0 only if every check held, 1 if one failed, 2 if the pair or the settings cannot be used.
It prints what `specdec_teach.checking` finds; it checks nothing itself.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec_kernels.errors import InvalidInput
from specdec_teach.cli import asked

if TYPE_CHECKING:
    from rich.table import Table

    from specdec_teach.checking import Report, Row

__all__ = ["add", "run"]

_SHOWN = 12


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "check",
        help="prove the engine: caches, laws, ends",
        description="Compare both caches with fresh prefills after every kind of cycle, in every layout, and the law "
        "of the text with the target's own. The status is 1 when something is wrong.",
        allow_abbrev=False,
    )
    asked.add_pair(parser)
    asked.add_drafter(parser)
    parser.add_argument("--cache", default="contiguous", help="the layout that the texts use (%(default)s)")
    parser.add_argument("--verify", default="rejection", help="rejection, block or coupled (%(default)s)")
    asked.add_gamma(parser)
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write every row as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Check, print a table of the groups, and every failure below it."""
    from rich.console import Console

    import specdec_teach as sd
    from specdec_teach.checking import Report
    from specdec_teach.checking import run as rows_of

    if args.json is not None and not args.json.absolute().parent.is_dir():
        raise InvalidInput(f"--json {args.json}: there is no folder {args.json.absolute().parent}; make it first")
    began = time.perf_counter()
    pair = asked.pair(args)
    engine = sd.Engine(
        pair.target,
        drafter=asked.drafter(args, pair),
        tokenizer=pair.tokenizer,
        gamma=args.gamma,
        cache=args.cache,
        verify=args.verify,
    )
    console = Console(highlight=False)
    report = Report.of(list(_announced(rows_of(engine), console)))
    console.print(_table(report))
    failures = report.failures
    for row in failures[:_SHOWN]:
        console.print(f"✗ {row.group}: {row.case}: {row.detail}", markup=False, soft_wrap=True)
    if len(failures) > _SHOWN:
        console.print(f"  … and {len(failures) - _SHOWN} more; --json PATH writes them all")
    if args.json is not None:
        console.print(f"wrote {report.save(args.json)}", markup=False, soft_wrap=True)
    seconds = time.perf_counter() - began
    verdict = "All of it holds" if report.ok else f"{len(failures)} of {len(report.rows)} checks failed"
    console.print(f"{verdict}: {len(report.rows)} checks in {seconds:.0f} s.")
    return int(not report.ok)


def _announced(rows: Iterator[Row], console: Any) -> Iterator[Row]:
    """Say what is being looked at, where somebody watches."""
    with console.status("checking") as status:
        for row in rows:
            status.update(f"{row.group}: {row.case}")
            yield row


def _table(report: Report) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for name, side in (("", "left"), ("group", "left"), ("checks", "right"), ("failed", "right"), ("worst Δ", "right")):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    for line in report.summary():
        worst = "" if line.worst is None else f"{line.worst:.1e}"
        table.add_row("✗" if line.failed else "✓", line.group, str(line.rows), str(line.failed), worst)
    return table
