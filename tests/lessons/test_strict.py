"""nbval, as `make notebooks` calls it, accepts what the builder stores and notices a changed text or still."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from nbformat import write
from nbformat.v4 import new_code_cell, new_notebook, new_output

from lessons.build import build

ROOT = Path(__file__).resolve().parents[2]
INI = Path(__file__).with_name("nbval.ini")
OPTIONS = ["-q", "-c", str(INI), "--nbval", "--nbval-current-env", "--nbval-cell-timeout=120"]
SOURCE = """# %%
from IPython.display import HTML
print("sum", 40 + 2)

# %%
HTML("<b>a still</b>")
"""


@pytest.mark.filterwarnings("default")  # jupyter's own, when a kernel starts
def test_nbval_compares_text_and_html(tmp_path: Path) -> None:
    source, notebook = tmp_path / "42_sum.py", tmp_path / "42_sum.ipynb"
    source.write_text(SOURCE)
    build(source, notebook)
    assert "2 passed" in _nbval(notebook)

    stored = json.loads(notebook.read_text())
    first, second = (cell["outputs"][0] for cell in stored["cells"])
    first["text"] = ["sum 43\n"]
    second["data"]["text/html"] = ["<b>another still</b>"]
    notebook.write_text(json.dumps(stored))
    assert "2 failed" in _nbval(notebook)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_kernels_are_forked_but_where_a_lesson_chooses_tritons_mode(tmp_path: Path) -> None:
    """A kernel that begins afresh has not imported torch; a forked one has, and that is noticed when it is asked."""
    asked = """import sys\nprint("torch" in sys.modules)"""
    notebooks = [tmp_path / "43_forked.ipynb", tmp_path / "44_afresh.ipynb"]
    for notebook, source in zip(notebooks, (asked, asked + "  # TRITON_INTERPRET"), strict=True):
        cell = new_code_cell(source, execution_count=1, outputs=[new_output("stream", text="False\n")])
        write(new_notebook(cells=[cell]), notebook)
    said = _nbval(*notebooks, options=["-n", "1", "-p", "tests.lessons.kernels"], folder=ROOT)
    assert "1 failed, 1 passed" in said
    assert "43_forked.ipynb::Cell 0" in said


def _nbval(*notebooks: Path, options: list[str] | None = None, folder: Path | None = None) -> str:
    root = notebooks[0].parent
    words = [sys.executable, "-m", "pytest", *OPTIONS, *(options or []), "--rootdir", str(root), *map(str, notebooks)]
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder or root).stdout
