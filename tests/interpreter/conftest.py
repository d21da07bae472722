"""Set the interpreter's mode before Triton is imported, and refuse to run where that came too late."""

from __future__ import annotations

import os
import sys

import pytest

_LATE = "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1"
if not _LATE:
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(autouse=True, scope="session")
def _interpreter() -> None:
    """Every test here needs kernels that interpret."""
    if _LATE:
        pytest.fail("triton was imported before this folder could set TRITON_INTERPRET=1; run `make interpreter`")
    from specdec_kernels.backend import interprets

    assert interprets()
