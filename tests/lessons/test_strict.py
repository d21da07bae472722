"""nbval, as `make notebooks` calls it, accepts what the builder stores and notices a changed text or still."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lessons.build import build

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


def _nbval(notebook: Path) -> str:
    words = [sys.executable, "-m", "pytest", *OPTIONS, "--rootdir", str(notebook.parent), str(notebook)]
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=notebook.parent).stdout
