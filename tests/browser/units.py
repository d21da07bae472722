"""Which browser tests stay together when several workers share them out.

Invariant: all that needs JupyterLab runs in one worker, so that there is one server; tests of a file that makes what is
dear for all of them stay together; any other test goes where there is time for it. What is large comes first. It does
not know what a test does.
"""

from __future__ import annotations

from typing import final

from xdist.scheduler import LoadScopeScheduling

__all__ = ["JUPYTER", "Units"]

JUPYTER = ("test_lab.py", "test_lessons.py", "test_live.py", "test_notebook.py", "test_show.py")
TOGETHER = {"test_keys.py": "players"} | dict.fromkeys(JUPYTER, "JupyterLab")


@final
class Units(LoadScopeScheduling):  # type: ignore[misc]
    """Shares out units of tests; xdist asks `_split_scope` which unit a test belongs to."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0].rpartition("/")[2]
        return TOGETHER.get(file, nodeid)
