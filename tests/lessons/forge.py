"""A process that has imported what every lesson imports, and forks a kernel from it whenever it is asked to.

Invariant: a kernel that is forked here differs from one that begins afresh in one thing: torch, transformers and the
engine's modules lie in memory already. It has a session, environment, working directory, path and threads of its own.
No file is opened and nothing is drawn before the fork. It does not know who asks, nor what a notebook does.

Each line on stdin is a request: {"argv": ..., "env": ..., "cwd": ...} is answered with a process id, {"ended": id} with
the process's return code, or null while it runs. The end of stdin ends this process; kernels notice that themselves.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
import threading

IMPORTED = ("ipykernel.kernelapp", "specdec_teach.hf", "specdec_teach.labs", "specdec_widgets")


def main() -> None:
    """Import, then serve requests."""
    del sys.path[0]  # this folder
    for name in IMPORTED:
        importlib.import_module(name)
    assert threading.active_count() == 1, threading.enumerate()
    assert "matplotlib" not in sys.modules, "it reads MPLBACKEND, which a kernel sets first"
    for line in sys.stdin:
        asked = json.loads(line)
        if "ended" in asked:
            print(json.dumps(ended(asked["ended"])), flush=True)
        elif os.fork() == 0:
            become(**asked)
            break


def ended(pid: int) -> int | None:
    """Return how a kernel ended, None while it runs."""
    done, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if done else None


def become(argv: list[str], env: dict[str, str], cwd: str) -> None:
    """Be the kernel that `python -m ipykernel_launcher ...` would be."""
    os.setsid()  # before anybody hears of it: who ends a kernel ends its session
    print(os.getpid(), flush=True)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.close(nothing)
    os.environ.clear()
    os.environ.update(env | {"JPY_PARENT_PID": str(os.getppid())})
    os.chdir(cwd)
    sys.path.insert(0, cwd)
    sys.argv = argv
    runpy.run_module("ipykernel_launcher", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
