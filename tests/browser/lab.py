"""A real JupyterLab for the browser tests, started by `specdec-teach lab` on a free port.

Invariant: the learner's folder, the settings and the kernels' files live in a temporary folder, and the server ends
with the tests. It does not know what a notebook holds.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

__all__ = ["RUN_ALL", "SECONDS", "Server", "notebook", "opened", "served"]

SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none"},  # every output is in the document
    "apputils-extension/notification": {"fetchNews": "false"},
}
SECONDS = 120
OURS = (sys.executable, "-m", "specdec_teach.cli")

RUN_ALL = """async () => {
  await jupyterapp.restored;
  const panel = jupyterapp.shell.currentWidget;
  await panel.context.ready;
  await panel.sessionContext.ready;
  await jupyterapp.commands.execute("notebook:run-all-cells");
  return panel.content.model.sharedModel.toJSON().cells.filter(cell => cell.cell_type === "code");
}"""


@dataclass(frozen=True)
class Server:
    """A running JupyterLab."""

    address: str
    token: str
    folder: Path


def served(home: Path, program: Sequence[str] = OURS, environment: Mapping[str, str] = os.environ) -> Iterator[Server]:
    """Yield a running server whose files lie in `home`, started by `program`: this checkout's command, or another."""
    settings = home / "settings" / "@jupyterlab"
    for name, values in SETTINGS.items():
        path = settings / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Server(f"http://127.0.0.1:{port}", secrets.token_hex(8), home / "lessons")
    folders = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    words = [*program, "lab", "--folder", str(server.folder), "--no-browser"]
    words += [
        f"--port={port}",
        "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={server.token}",
        "--allow-root",
    ]
    words += ["--expose-app-in-browser"]
    log = home / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            words,
            env={**environment, **{key: str(home / name) for key, name in folders.items()}},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait(server, process, log)
            yield server
        finally:
            process.terminate()
            process.wait(30)


def _wait(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(SECONDS * 2):
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"{server.address}/api/status?token={server.token}", timeout=5):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.5)
    pytest.fail(log.read_text())


def notebook(server: Server, name: str, *sources: str) -> None:
    """Write a notebook of code cells into the learner's folder."""
    cells = [
        {"cell_type": "code", "id": f"cell{i}", "metadata": {}, "source": s, "outputs": [], "execution_count": None}
        for i, s in enumerate(sources)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    text = json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5})
    (server.folder / name).write_text(text, encoding="utf-8")


def opened(server: Server, page: Any, name: str) -> None:
    """Open a notebook of the learner's folder and wait for its kernel."""
    page.set_default_timeout(SECONDS * 1000)
    page.goto(f"{server.address}/doc/tree/{name}?reset&token={server.token}")
    page.wait_for_function("() => window.jupyterapp?.shell?.currentWidget?.sessionContext")
