"""What a check found: one row for each thing that was looked at, and the report that holds them.

Invariant: plain data; a report is fine only if every row is. It does not know what was checked, or how.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import final

from specdec_kernels.errors import InvalidInput

__all__ = ["STOPPED", "TIE", "Report", "Row", "Summary"]

STOPPED = "stopped: "
TIE = "tie band: "


@final
@dataclass(frozen=True, slots=True)
class Row:
    """One thing that was looked at.

    `worst`: the largest difference that was met, relative to numbers above 1 (None where nothing was measured); it is
    inf where an answer was no number. `detail`: what is wrong, or what there is to say about a row that is fine.
    """

    group: str
    case: str
    ok: bool
    worst: float | None = None
    detail: str = ""


@final
@dataclass(frozen=True, slots=True)
class Summary:
    """The rows of a group: how many there are, how many failed, and the largest difference."""

    group: str
    rows: int
    failed: int
    worst: float | None


@final
@dataclass(frozen=True, slots=True)
class Report:
    """What `sd.check` found.

    >>> Report.of([Row("law", "T = 1", True, 1e-15)]).ok
    True
    """

    ok: bool
    rows: tuple[Row, ...]

    @classmethod
    def of(cls, rows: list[Row]) -> Report:
        """Return the report of these rows; one without rows proves nothing and is not fine."""
        return cls(bool(rows) and all(row.ok for row in rows), tuple(rows))

    @property
    def failures(self) -> tuple[Row, ...]:
        """The rows that failed."""
        return tuple(row for row in self.rows if not row.ok)

    def summary(self) -> tuple[Summary, ...]:
        """Return one line for each group, in the order in which the groups first came."""
        lines = []
        for group in dict.fromkeys(row.group for row in self.rows):
            rows = [row for row in self.rows if row.group == group]
            measured = [row.worst for row in rows if row.worst is not None]
            lines.append(Summary(group, len(rows), sum(not row.ok for row in rows), max(measured, default=None)))
        return tuple(lines)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the report as JSON and return where; InvalidInput where that cannot be written."""
        rows = [asdict(row) for row in self.rows]
        for row in rows:
            if row["worst"] is not None and not math.isfinite(row["worst"]):
                row["worst"] = "inf"
        text = json.dumps({"ok": self.ok, "rows": rows}, ensure_ascii=False, indent=1, allow_nan=False)
        target = Path(path)
        try:
            target.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise InvalidInput(
                f"the report cannot be written to {target}: {error.strerror}; give another path"
            ) from None
        return target
