"""The learner's folder of lessons: shipped notebooks are copied in, and a learner's edit is never overwritten.

A lesson counts as edited when the source of a cell differs from what was copied; running it changes outputs only and is
no edit. Invariant: a file whose sources the learner changed is left as it is, byte for byte; a newer version of it goes
beside it under another name, once. It does not know JupyterLab or what a lesson says.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

from specdec_kernels.errors import EngineFailure, InvalidInput

__all__ = ["RECORD", "fingerprint", "shipped", "update"]

RECORD = ".lessons.json"
"""The file in the learner's folder that remembers which version of each lesson was copied."""

_VIEW = "application/vnd.jupyter.widget-view+json"
_PACKAGE = Path(__file__).resolve().parents[1]


def shipped() -> Path:
    """Return the folder of the shipped notebooks: inside an installed package, or lessons/ of a checkout."""
    for folder in (_PACKAGE / "_lessons", _PACKAGE.parent / "lessons"):
        if any(folder.glob("[0-9][0-9]_*.ipynb")):
            return folder
    raise EngineFailure("the installed specdec-teach holds no lessons; install it again with `pip install .`")


def fingerprint(path: Path) -> str:
    """Return a hash of what a person wrote in a notebook: cell types, sources and attachments, not outputs."""
    raw = path.read_bytes()
    try:
        cells = [
            (cell["cell_type"], "".join(cell["source"]), cell.get("attachments")) for cell in json.loads(raw)["cells"]
        ]
    except (ValueError, KeyError, TypeError):  # not a notebook any more: every byte counts
        return hashlib.sha256(raw).hexdigest()
    return hashlib.sha256(json.dumps(cells, sort_keys=True).encode()).hexdigest()


def update(source: Path, folder: Path) -> list[str]:
    """Bring the notebooks of `source` into `folder` and return a line for everything that changed there.

    A lesson that is missing is copied, one that was not edited is replaced by a newer version, and beside one that was
    edited a newer version is laid as NAME.new.ipynb. InvalidInput when `folder` is `source` or cannot be written.
    """
    if folder.resolve() == source.resolve():
        raise InvalidInput(f"{folder} holds the original lessons; give --folder another name, such as my-lessons")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        record = _read_record(folder)
        said = [line for path in sorted(source.glob("[0-9][0-9]_*.ipynb")) for line in _bring(path, folder, record)]
        for path in sorted(folder.glob("*.ipynb")):
            _show_stills(path)
        (folder / RECORD).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidInput(
            f"cannot use {folder} for the lessons: {error.strerror}; give --folder one of yours"
        ) from None
    return said


def _bring(path: Path, folder: Path, record: dict[str, str]) -> list[str]:
    mine, newest, known = folder / path.name, fingerprint(path), record.get(path.name)
    found = fingerprint(mine) if mine.exists() else None
    if found is None:
        line = f"copied {mine.name}"
    elif newest in (known, found):
        record[path.name] = newest
        return []
    elif found == known:
        line = f"updated {mine.name} to the newer version (you had not edited yours)"
    else:
        record[path.name] = newest
        mine = _beside(mine, record)
        line = f"kept your {path.name}; the newer version lies beside it as {mine.name}"
    _copy(path, mine)
    record[mine.name] = newest
    return [line]


def _show_stills(path: Path) -> None:
    """Drop the views of widgets that died with their kernel, where a still of them is stored as well.

    A front end that finds both shows the view, which is then an error in place of the picture. Nothing else changes.
    """
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        shown = [output["data"] for cell in notebook["cells"] for output in cell.get("outputs", ()) if "data" in output]
    except (ValueError, KeyError, TypeError):
        return
    dead = [data for data in shown if _VIEW in data and "text/html" in data]
    if dead:
        for data in dead:
            del data[_VIEW]
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        part.replace(path)


def _beside(mine: Path, record: dict[str, str]) -> Path:
    """Return where a newer version goes: the first name that is free or holds one that nobody edited."""
    number = 1
    while True:
        name = f"{mine.stem}.new{'' if number == 1 else number}.ipynb"
        path = mine.with_name(name)
        if not path.exists() or fingerprint(path) == record.get(name):
            return path
        number += 1


def _copy(source: Path, target: Path) -> None:
    part = target.with_name(target.name + ".part")
    shutil.copyfile(source, part)
    part.replace(target)


def _read_record(folder: Path) -> dict[str, str]:
    try:
        plain = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return {str(name): str(mark) for name, mark in plain.items()}
    except (FileNotFoundError, ValueError, AttributeError):
        return {}
