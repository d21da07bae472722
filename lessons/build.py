"""Build lessons/NN_name.ipynb from lessons/src/NN_name.py: read, execute, store in one canonical form.

jupytext reads the source, nbclient executes it; what is ours is the canonical form, and the student's form: what stands
between `# BEGIN SOLUTION` and `# END SOLUTION` becomes three dots, and the whole source is built as well, into
lessons/solutions/. Invariant: two builds of one source are the same bytes, and the notebook holds nothing that differs
from run to run. It does not know what a lesson teaches.

    python -m lessons.build            every lesson
    python -m lessons.build 00 03      those lessons
    python -m lessons.build --check    build nothing; status 1 when a notebook is missing or older than its source
    python -m lessons.build --metadata execute nothing; store the metadata of cells again (tags, slides)
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jupytext
import nbclient
import nbformat

from lessons.slides import roles

__all__ = [
    "ADDRESS",
    "NOTEBOOKS",
    "SOLUTIONS",
    "SOURCES",
    "BuildError",
    "build",
    "canonical",
    "main",
    "notebook_of",
    "read_source",
    "relabel",
    "solution_of",
    "stale",
    "strip",
]

NOTEBOOKS = Path(__file__).resolve().parent
SOURCES = NOTEBOOKS / "src"
SOLUTIONS = NOTEBOOKS / "solutions"
ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
"""What a memory address looks like in an output."""

_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
_LANGUAGE = {"file_extension": ".py", "mimetype": "text/x-python", "name": "python", "pygments_lexer": "ipython3"}
_OWN_METADATA = "lesson"
_SECONDS = 300
_SOLUTION = re.compile(r"^([ \t]*)# BEGIN SOLUTION\n(.*?)\n[ \t]*# END SOLUTION[ \t]*$", re.DOTALL | re.MULTILINE)
_MARKER = re.compile(r"^[ \t]*# (?:BEGIN|END) SOLUTION[ \t]*\n?", re.MULTILINE)


class BuildError(Exception):
    """A lesson that cannot be stored: a cell fails, writes to stderr, or prints something that differs each time."""


def strip(source: str) -> str:
    r"""Return the student's form of a cell: each marked solution becomes three dots, or `name = ...` for an assignment.

    >>> strip("def f(x):\n    # BEGIN SOLUTION\n    return x\n    # END SOLUTION")
    'def f(x):\n    ...'
    >>> strip("# BEGIN SOLUTION\nanswer = 3\n# END SOLUTION\ncheck('00.demo', answer)")
    "answer = ...\ncheck('00.demo', answer)"
    """

    def dots(found: re.Match[str]) -> str:
        indent, body = found[1], found[2].strip()
        name = re.match(r"(\w+)\s*=[^=]", body)
        return f"{indent}{name[1]} = ..." if name else f"{indent}..."

    return _SOLUTION.sub(dots, source)


def read_source(path: Path, *, solved: bool = False) -> Any:
    """Return the source as a notebook without outputs: fixed metadata, cell ids from position and content.

    `solved`: with the solutions and without their markers, else in the student's form.
    """
    read = jupytext.read(path, fmt="py:percent")
    own = read.metadata.get(_OWN_METADATA)
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": _KERNEL, "language_info": _LANGUAGE})
    if own is not None:
        notebook.metadata[_OWN_METADATA] = own
    slides = roles((cell.cell_type, cell.source) for cell in read.cells)
    for index, (cell, role) in enumerate(zip(read.cells, slides, strict=True)):
        make: Any = nbformat.v4.new_code_cell if cell.cell_type == "code" else nbformat.v4.new_markdown_cell
        cell.source = _MARKER.sub("", cell.source) if solved else strip(cell.source)
        mark = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:8]
        metadata: dict[str, Any] = {"tags": list(cell.metadata["tags"])} if cell.metadata.get("tags") else {}
        if role is not None:
            metadata["slideshow"] = {"slide_type": role}
        notebook.cells.append(make(cell.source, id=f"c{index:02d}-{mark}", metadata=metadata))
    return notebook


def canonical(notebook: Any, name: str) -> str:
    """Return an executed notebook as the text of its file; BuildError when an output cannot be stored.

    Execution counts become 1, 2, 3 …, so that nbval compares every cell; stream pieces are joined, since the kernel
    splits them by the clock; widget views go, since their models are gone when the notebook is opened.
    """
    number = 0
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        number += 1
        cell.execution_count = number
        cell.metadata.pop("execution", None)
        cell.outputs = [_output(output, number, f"{name}, code cell {number}") for output in _joined(cell.outputs)]
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = _LANGUAGE  # the kernel wrote its exact version there
    nbformat.validate(notebook)
    return _text(notebook)


def _text(notebook: Any) -> str:
    text = nbformat.writes(notebook, version=4)
    return json.dumps(json.loads(text), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _joined(outputs: Iterable[Any]) -> list[Any]:
    kept: list[Any] = []
    for output in outputs:
        if kept and output.output_type == "stream" == kept[-1].output_type and output.name == kept[-1].name:
            kept[-1].text += output.text
        else:
            kept.append(output)
    return kept


def _output(output: Any, number: int, where: str) -> Any:
    if output.output_type == "stream" and output.name != "stdout":
        raise BuildError(f"{where} writes to {output.name}: {output.text.strip()[:200]!r}; remove the cause")
    if output.output_type == "execute_result":
        output.execution_count = number
    if _WIDGET_VIEW in output.get("data", {}):
        del output.data[_WIDGET_VIEW]
        if "text/html" not in output.data:
            raise BuildError(f"{where} shows a widget without a still; give it a text/html representation")
    for text in (output.get("text", ""), *(value for value in output.get("data", {}).values())):
        if isinstance(text, str) and (found := ADDRESS.search(text)):
            raise BuildError(f"{where} prints the address {found[0]}, which differs each time; print a value instead")
    return output


def build(source: Path, target: Path, *, solved: bool = False) -> None:
    """Execute one source in an empty folder and write its notebook to `target`."""
    notebook = read_source(source, solved=solved)
    with tempfile.TemporaryDirectory() as folder:
        client = nbclient.NotebookClient(
            notebook, timeout=_SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}}
        )
        try:
            client.execute(env={**os.environ, "SPECDEC_TEACH_PROGRESS": "off"})
        except nbclient.exceptions.CellExecutionError as error:
            raise BuildError(f"{source.name} fails:\n{error}") from None
    target.parent.mkdir(exist_ok=True)
    _write(target, canonical(notebook, source.name))


def relabel(source: Path, target: Path, *, solved: bool = False) -> None:
    """Store the metadata of an executed notebook again, without executing it; BuildError when its cells are older."""
    wanted = read_source(source, solved=solved)
    stored = nbformat.read(target, as_version=4) if target.exists() else None
    if stored is None or [cell[:3] for cell in _cells(stored)] != [cell[:3] for cell in _cells(wanted)]:
        raise BuildError(f"{target.name} is older than its source; run `make lessons ARGS={source.name[:2]}`")
    for cell, new in zip(stored.cells, wanted.cells, strict=True):
        cell.metadata = new.metadata
    stored.metadata = wanted.metadata
    _write(target, _text(stored))


def _write(target: Path, text: str) -> None:
    part = target.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(target)


def notebook_of(source: Path) -> Path:
    """Return where the notebook of a source lies."""
    return NOTEBOOKS / f"{source.stem}.ipynb"


def solution_of(source: Path) -> Path | None:
    """Return where the solved notebook of a source lies, None for a lesson without marked solutions."""
    marked = _SOLUTION.search(source.read_text(encoding="utf-8"))
    return SOLUTIONS / f"{source.stem}.ipynb" if marked else None


def stale(source: Path) -> bool:
    """Return whether a notebook of `source` is missing or its cells are not those of the source."""
    solved = solution_of(source)
    return _behind(source, notebook_of(source), False) or (solved is not None and _behind(source, solved, True))


def _behind(source: Path, target: Path, solved: bool) -> bool:
    if not target.exists():
        return True
    stored = nbformat.read(target, as_version=4)
    wanted = read_source(source, solved=solved)
    return _cells(stored) != _cells(wanted) or stored.metadata != wanted.metadata


def _cells(notebook: Any) -> list[tuple[Any, ...]]:
    return [(cell.id, cell.cell_type, cell.source, dict(cell.metadata)) for cell in notebook.cells]


def main(argv: Sequence[str] | None = None) -> int:
    """Build the lessons named by their numbers, or all of them."""
    parser = argparse.ArgumentParser(
        prog="python -m lessons.build", description="Build the notebooks from lessons/src."
    )
    parser.add_argument("numbers", nargs="*", metavar="NN", help="which lessons; all when none is named")
    parser.add_argument("--check", action="store_true", help="build nothing; say which notebooks are out of step")
    parser.add_argument("--metadata", action="store_true", help="execute nothing; store the metadata of cells again")
    args = parser.parse_args(argv)
    every = sorted(SOURCES.glob("[0-9][0-9]_*.py"))
    wanted = [path for path in every if not args.numbers or path.name[:2] in args.numbers]
    if unknown := set(args.numbers) - {path.name[:2] for path in wanted}:
        parser.error(f"no lesson {', '.join(sorted(unknown))}; there are {', '.join(p.name[:2] for p in every)}")
    if args.check:
        behind = [path.stem for path in wanted if stale(path)]
        print(f"out of step, run `make lessons`: {', '.join(behind)}" if behind else "every notebook is in step")
        return int(bool(behind))
    store = relabel if args.metadata else build
    for path in wanted:
        try:
            store(path, notebook_of(path))
            if (solved := solution_of(path)) is not None:
                store(path, solved, solved=True)
            print(f"{'relabelled' if args.metadata else 'built'} lessons/{notebook_of(path).name}", flush=True)
        except BuildError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
