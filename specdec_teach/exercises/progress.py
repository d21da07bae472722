"""What a learner has done so far, in one small file of their own, and the report they can keep of it.

The file is `SPECDEC_TEACH_PROGRESS`, or progress.json in the user's data folder; the word off keeps none. Solved
notebooks and runs by pytest leave it alone. Invariant: what a cell prints never depends on it, and nothing that goes
wrong with it reaches a cell: `report` says what went wrong. Nothing is sent anywhere. It does not know any lesson.
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from filelock import FileLock, Timeout

from specdec_kernels.errors import EngineFailure, InvalidInput

__all__ = ["Line", "Report", "forget", "note", "place", "read"]

_VERSION = 1
_PATIENCE = 1.0
_trouble: list[str] = []


def place() -> Path | None:
    """Return the file in which progress is kept, None where none is kept."""
    given = os.environ.get("SPECDEC_TEACH_PROGRESS", "")
    if given.lower() == "off" or (not given and _not_a_learner()):
        return None
    if given:
        return Path(given).expanduser()
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "specdec-teach" / "progress.json"


def _not_a_learner() -> bool:
    """Whether pytest runs this, or a notebook that shows the solutions (Jupyter names the notebook of a kernel)."""
    return "PYTEST_VERSION" in os.environ or "solutions" in Path(os.environ.get("JPY_SESSION_NAME", "")).parts


def note(kind: str, name: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Let `change` alter what is kept for `name` among the "exercises" or "predictions"; never raises.

    Two notebooks may do so at once: each waits for the other, and the file is replaced as a whole.
    """
    path = place()
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock", timeout=_PATIENCE):
            kept = _load(path)
            change(kept[kind].setdefault(name, {}))
            part = path.with_name(path.name + ".part")
            part.write_text(json.dumps(kept, indent=1, sort_keys=True), encoding="utf-8")
            part.replace(path)
    except Timeout:
        _trouble[:] = [f"another notebook holds {path}.lock; if none is open, delete that file"]
    except OSError as error:
        _trouble[:] = [f"{path} cannot be written ({error.strerror}); name another file in SPECDEC_TEACH_PROGRESS"]


def _load(path: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Return what a file holds; one that makes no sense is set aside, and a new one begun."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["version"] == _VERSION and all(
            isinstance(entry, dict) for kind in ("exercises", "predictions") for entry in found[kind].values()
        ):
            return found  # type: ignore[no-any-return]
        problem = f"is of version {found['version']!r}, and this one reads {_VERSION}"
    except FileNotFoundError:
        return _empty()
    except (ValueError, KeyError, TypeError, AttributeError):
        problem = "is not what this program writes"
    aside = path.with_name(path.name + ".old")
    path.replace(aside)
    _trouble[:] = [f"{path} {problem}; it was kept as {aside}, and a new one begun"]
    return _empty()


def _empty() -> dict[str, Any]:
    return {"version": _VERSION, "exercises": {}, "predictions": {}}


def forget() -> None:
    """Begin again: the file is kept beside itself under another name, and the next answer starts a new one."""
    path = place()
    if path is not None and path.exists():
        path.replace(path.with_name(path.name + ".old"))
    _trouble.clear()


@final
@dataclass(frozen=True, slots=True)
class Line:
    """One lesson: how many exercises it has, how many were tried and are right, and its predictions."""

    lesson: str
    exercises: int
    tried: int
    right: int
    predicted: int
    foreseen: int


@final
@dataclass(frozen=True, slots=True)
class Report:
    """What has been done, one line a lesson. `open`: exercises that were tried and are not right yet.

    `notes`: what went wrong with the file. In a notebook it shows itself as a table.
    """

    lines: tuple[Line, ...]
    open: tuple[str, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        rows = [("lesson", "exercises right", "tried", "predictions right"), *self._rows()]
        widths = [max(len(row[at]) for row in rows) for at in range(4)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n\n".join(["\n".join(lines), *self._sentences()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in self._rows())
        head = "".join(f"<th scope='col'>{name}</th>" for name in _HEAD)
        said = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self._sentences())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table>{said}"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the report and return its path: .html is a page, .md a table; InvalidInput for anything else.

        EngineFailure where the file cannot be written.
        """
        target = Path(path).expanduser()
        if target.suffix == ".html":
            text = _PAGE.format(body=self._repr_html_())
        elif target.suffix == ".md":
            rows = [_HEAD, ("---",) * 4, *self._rows()]
            text = "\n".join([*(f"| {' | '.join(row)} |" for row in rows), "", *self._sentences(), ""])
        else:
            raise InvalidInput(f"a report is a page (.html) or a table (.md); {target.name} is neither")
        try:
            target.write_text(text, encoding="utf-8")
        except OSError as error:
            raise EngineFailure(f"{target} cannot be written: {error.strerror}; give another path") from None
        return target

    def _rows(self) -> list[tuple[str, str, str, str]]:
        rows = [
            (line.lesson, f"{line.right} of {line.exercises}", str(line.tried), f"{line.foreseen} of {line.predicted}")
            for line in self.lines
        ]
        total = [sum(getattr(line, part) for line in self.lines) for part in Line.__slots__[1:]]
        return [*rows, ("all", f"{total[2]} of {total[0]}", str(total[1]), f"{total[4]} of {total[3]}")]

    def _sentences(self) -> list[str]:
        tried = f"Tried and not right yet: {', '.join(self.open)}." if self.open else ""
        return [sentence for sentence in (tried, *self.notes) if sentence]


_HEAD = ("lesson", "exercises right", "tried", "predictions right")
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>My speculative decoding course</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 42rem; margin: 2rem auto; padding: 0 1rem }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8886 }}
tr:last-child td {{ font-weight: 600 }}
</style>
<h1>My speculative decoding course</h1>
{body}
</html>
"""


def read(exercises: Mapping[str, int]) -> Report:
    """Return the report; `exercises`: how many each lesson has."""
    path = place()
    kept = _empty()
    notes = (
        [] if path is not None else ["No progress is kept here: SPECDEC_TEACH_PROGRESS is off, or this is a solution."]
    )
    if path is not None:
        try:
            kept = _load(path)
        except OSError as error:
            notes.append(f"{path} cannot be read: {error.strerror}.")
    lines = []
    for lesson, count in sorted(exercises.items()):
        tried = [entry for name, entry in kept["exercises"].items() if name.partition(".")[0] == lesson]
        guesses = [entry for name, entry in kept["predictions"].items() if name.partition(".")[0] == lesson]
        right = sum(entry.get("status") == "right" for entry in tried)
        foreseen = sum(entry.get("right") is True for entry in guesses)
        lines.append(Line(lesson, count, len(tried), right, len(guesses), foreseen))
    unfinished = sorted(name for name, entry in kept["exercises"].items() if entry.get("status") == "wrong")
    return Report(tuple(lines), tuple(unfinished), (*notes, *(f"Note: {one}." for one in _trouble)))
