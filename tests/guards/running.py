"""Another Python process for the guards: what it prints, or the reason why it failed. It does not know what it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["python"]


def python(
    *words: str, cwd: Path, program: Path | str = sys.executable, only: Mapping[str, str] | None = None, **more: str
) -> str:
    """Run `program` in `cwd` and return what it prints; its environment is `only`, or this one, and `more` in both."""
    environment = {**(os.environ if only is None else only), **more}
    done = subprocess.run(
        [str(program), *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=1800
    )
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n")
    done.check_returncode()
    return done.stdout
