"""Slides: roles follow from the text, stand in every stored lesson, and are renewed without executing anything."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from lessons.build import BuildError, canonical, read_source, relabel
from lessons.slides import roles

HEADING, TEXT, HINTS = ("markdown", "so\n\n## B"), ("markdown", "so"), ("markdown", "<details>a</details>")
ASKS, TRUTH, CHECK = ("code", 'a = 1\npredict("a.p1", a, f)'), ("code", "print(a)"), ("code", 'check("a.1", f)')

SOURCE = """# ---
# jupyter:
#   lesson:
#     minutes: 5
#     outputs: 2
# ---

# %% [markdown]
# # 42 · A title

# %% tags=["setup"]
quiet = 1
"""


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        ([("markdown", "# A"), HEADING, ("markdown", "### C")], ["slide", "slide", "slide"]),
        ([HEADING, TRUTH, TEXT], ["slide", None, None]),
        ([HEADING, ASKS, TRUTH, TRUTH, TEXT, TRUTH], ["slide", "fragment", "fragment", "fragment", None, None]),
        ([TEXT, CHECK, TRUTH], [None, "fragment", None]),  # what follows a check shows no answer
        ([HINTS, ("markdown", "<details>a</details>\n\n## B")], ["skip", "slide"]),
        ([("markdown", "so\n\n## Honest limits\n\n## Can you?")], ["skip"]),
        ([("markdown", "```\n# no heading\n```"), ("code", "# no heading")], [None, None]),
    ],
)
def test_roles(cells: list[tuple[str, str]], wanted: list[str | None]) -> None:
    assert roles(cells) == wanted


def test_metadata_is_renewed_and_nothing_else(tmp_path: Path) -> None:
    source, target = tmp_path / "42_title.py", tmp_path / "42_title.ipynb"
    source.write_text(SOURCE)
    with pytest.raises(BuildError, match="older than its source"):
        relabel(source, target)

    notebook = read_source(source)
    notebook.cells[1].outputs = [nbformat.v4.new_output("stream", name="stdout", text="kept\n")]
    wanted = canonical(notebook, source.name)
    assert '"slide_type": "slide"' in wanted
    for cell in notebook.cells:
        cell.metadata = nbformat.NotebookNode()
    notebook.metadata.lesson.minutes = 6
    target.write_text(canonical(notebook, source.name))

    relabel(source, target)
    assert target.read_text() == wanted

    source.write_text(SOURCE.replace("quiet = 1", "quiet = 2"))
    with pytest.raises(BuildError, match="older than its source"):
        relabel(source, target)
    assert target.read_text() == wanted
