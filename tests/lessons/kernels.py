"""A pytest plugin for nbval with several workers: each one has a forge for its kernels, and a loopback address.

Most of what a kernel does before its first cell is to import torch and transformers, the same in every lesson: a kernel
is forked from a process, the forge, that has done it. The outputs to compare with were stored from kernels that began
afresh, so whatever a fork changed would show. Lessons that choose Triton's mode begin afresh here too: it is chosen
before Triton is imported.

A kernel takes the ports that its manager found free a moment before. Two managers can find the same ones, and then two
notebooks talk to one kernel. Linux answers on all of 127.0.0.0/8, so that no two workers need share an address.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast, final

import pytest

FORGE = Path(__file__).with_name("forge.py")


def pytest_configure(config: pytest.Config) -> None:
    """Give nbval a kernel manager with this worker's address, and kernels from this worker's forge."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not worker.startswith("gw") or sys.platform != "linux":
        return

    import nbval.kernel
    from jupyter_client import localinterfaces
    from jupyter_client.manager import KernelManager
    from jupyter_client.provisioning import local_provisioner
    from traitlets import Unicode

    address = f"127.0.0.{2 + int(worker.removeprefix('gw'))}"
    localinterfaces.is_local_ip("127.0.0.1")  # fills the list once
    localinterfaces.LOCAL_IPS.append(address)

    class OfWorker(KernelManager):
        ip = Unicode(address)

    nbval.kernel.KernelManager = OfWorker
    forge = Forge(local_provisioner.launch_kernel)
    local_provisioner.launch_kernel = forge.launch
    config.pluginmanager.register(forge, "forge")


@final
class Forge:
    """Starts the kernels of one worker: `launch` stands where jupyter_client starts a process."""

    def __init__(self, afresh: Any) -> None:
        self._afresh, self._notebook, self._process = afresh, "", None

    @pytest.hookimpl(tryfirst=True)  # the kernel starts in the setup of a notebook's first cell
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Note whose kernel is asked for next."""
        self._notebook = str(item.path)

    def pytest_unconfigure(self) -> None:
        """End the forge; its kernels have ended by now."""
        if self._process is not None:
            self._process.communicate()

    def launch(self, cmd: list[str], *, env: dict[str, str], cwd: str, **streams: Any) -> Any:
        """Start a kernel with what it has in memory, unless its notebook must begin with nothing."""
        if "TRITON_INTERPRET" in Path(self._notebook).read_text(encoding="utf-8"):
            return self._afresh(cmd, env=env, cwd=cwd, **streams)
        assert cmd[1:3] == ["-m", "ipykernel_launcher"], cmd
        return Forked(self, self.ask({"argv": cmd[2:], "env": env, "cwd": cwd}))

    def ask(self, request: dict[str, Any]) -> Any:
        """Return the forge's answer; the first request starts it."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, str(FORGE)], text=True, start_new_session=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
        cast(IO[str], self._process.stdin).write(json.dumps(request) + "\n")
        cast(IO[str], self._process.stdin).flush()
        return json.loads(cast(IO[str], self._process.stdout).readline())


@final
class Forked:
    """What jupyter_client wants of a process, for one that is the forge's child."""

    stdin = stdout = stderr = None

    def __init__(self, forge: Forge, pid: int) -> None:
        self.pid, self.returncode, self._forge = pid, None, forge

    def poll(self) -> int | None:
        """Return the code, None while it runs."""
        if self.returncode is None:
            self.returncode = self._forge.ask({"ended": self.pid})
        return self.returncode

    def wait(self) -> int:
        """Return the code when it has ended."""
        while (code := self.poll()) is None:
            time.sleep(0.05)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)
