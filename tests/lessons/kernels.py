"""A pytest plugin for nbval with several workers: each one's kernels listen on a loopback address of their own.

A kernel takes the ports that its manager found free a moment before. Two managers can find the same ones, and then two
notebooks talk to one kernel. Linux answers on all of 127.0.0.0/8, so that no two workers need share an address.
"""

from __future__ import annotations

import os
import sys


def pytest_configure() -> None:
    """Give nbval a kernel manager with this worker's address."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not worker.startswith("gw") or sys.platform != "linux":
        return

    import nbval.kernel
    from jupyter_client import localinterfaces
    from jupyter_client.manager import KernelManager
    from traitlets import Unicode

    address = f"127.0.0.{2 + int(worker.removeprefix('gw'))}"
    localinterfaces.is_local_ip("127.0.0.1")  # fills the list once
    localinterfaces.LOCAL_IPS.append(address)

    class OfWorker(KernelManager):
        ip = Unicode(address)

    nbval.kernel.KernelManager = OfWorker
