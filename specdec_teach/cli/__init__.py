"""The command line: `specdec-teach lab | demo | check | replay | bench | fetch | doctor`.

Invariant: bad input ends with status 2 and one line that says what to do; Ctrl-C ends with status 130 and no traceback.
It parses and dispatches; it does not know what a command does, and `--help` loads neither torch nor JupyterLab.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from specdec_kernels.errors import InvalidInput, SpecDecError
from specdec_teach.cli import bench, check, demo, doctor, fetch, lab, replay

__all__ = ["main"]

_COMMANDS = (lab, demo, check, replay, bench, fetch, doctor)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line instead of a screen of usage."""

    def error(self, message: str) -> NoReturn:
        """End with status 2."""
        self.exit(2, f"{self.prog}: {message}; `{self.prog} --help` lists what is allowed\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; `argv` defaults to the process's own arguments."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):  # a stream that somebody replaced may not be reconfigurable
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        status = _dispatch(argv)
        sys.stdout.flush()
        return status
    except SystemExit as stop:  # argparse has already printed
        return stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader went away, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ModuleNotFoundError as error:
        return _complain(f"{error.name} is not installed; `specdec-teach doctor` says what is missing", 1)
    except SpecDecError as error:
        return _complain(str(error), 2 if isinstance(error, InvalidInput) else 1)


def _dispatch(argv: Sequence[str] | None) -> int:
    parser = _Parser(
        prog="specdec-teach",
        description="Speculative decoding with a real engine: lessons, a demo in the terminal, and saved runs.",
        epilog="`specdec-teach COMMAND --help` says more about one command.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True)
    for command in _COMMANDS:
        command.add(commands)
    args, rest = parser.parse_known_args(argv)
    if args.command == "lab":
        args.jupyter = [item for item in rest if item != "--"]
    elif rest:
        parser.error(f"{args.command} does not know {' '.join(rest)}")
    return int(args.run(args))


def _complain(message: str, status: int) -> int:
    print(f"specdec-teach: {' '.join(message.split())}", file=sys.stderr)
    return status
