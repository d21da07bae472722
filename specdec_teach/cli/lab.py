"""`specdec-teach lab`: bring the lessons into the learner's folder and open JupyterLab on the first one.

Invariant: arguments meant for JupyterLab reach it unchanged and in order; what is set here gives way to them. The
server asks nobody for news or updates, so that a lesson needs no network. It does not know what a lesson says.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from specdec_kernels.errors import EngineFailure
from specdec_teach.cli import lessons

__all__ = ["add", "command", "run"]


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "lab",
        help="open the lessons in JupyterLab",
        usage="specdec-teach lab [--folder DIR] [arguments of jupyter lab]",
        description="Copy the lessons to a folder of yours and open JupyterLab on the first one. Lessons that you "
        "edited are never overwritten. Everything else that you give goes to jupyter lab as it is, "
        "for example: specdec-teach lab --no-browser --port 9999",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("specdec-lessons"), metavar="DIR", help="your folder (%(default)s)"
    )
    parser.set_defaults(run=run)


def command(folder: Path, first: str, passed: Sequence[str]) -> list[str]:
    """Return the command that serves `folder` and opens the lesson `first`; `passed` comes last and wins.

    >>> command(Path("/tmp/mine"), "00_start_here.ipynb", ["--port", "9999"])[-3:]
    ['--LabApp.default_url=/lab/tree/00_start_here.ipynb', '--port', '9999']
    """
    ours = {
        "--LabApp.news_url": "None",
        "--LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager": "readonly",
        "--ServerApp.root_dir": str(folder.resolve()),
        "--LabApp.default_url": f"/lab/tree/{first}",
    }
    given = {item.partition("=")[0] for item in passed}
    kept = [f"{name}={value}" for name, value in ours.items() if name not in given]
    return [sys.executable, "-m", "jupyterlab", *kept, *passed]


def run(args: argparse.Namespace) -> int:
    """Copy, say what changed, and become JupyterLab."""
    if find_spec("jupyterlab") is None:
        raise EngineFailure("jupyterlab is not installed; run `pip install jupyterlab`, or `make lab` in a checkout")
    source = lessons.shipped()
    for line in lessons.update(source, args.folder):
        print(f"  {line}")
    first = min(path.name for path in source.glob("[0-9][0-9]_*.ipynb"))
    print(f"Your lessons are in {args.folder}/ and open on {first}. Ctrl-C twice stops the server.")
    if _is_root() and "--allow-root" not in args.jupyter:
        print("You are root, which JupyterLab refuses by default: add --allow-root if that is meant.")
    sys.stdout.flush()
    words = command(args.folder, first, args.jupyter)
    os.execv(words[0], words)


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0
