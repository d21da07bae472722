"""The builder of lessons: two builds are the same bytes, and what differs from run to run is removed or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from lessons.build import BuildError, build, canonical, main, read_source

SOURCE = """# ---
# jupyter:
#   lesson:
#     minutes: 5
#     outputs: 2
# ---

# %% [markdown]
# # 42 · A title

# %% tags=["setup"]
import sys, time
for part in range(3):
    print("part", part)
    sys.stdout.flush()
    time.sleep(0.05)

# %%
quiet = 1

# %%
f"a result, {quiet}"
"""
WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "42_title.py"
    path.write_text(SOURCE)
    return path


def executed(*outputs: Any) -> Any:
    cell = nbformat.v4.new_code_cell(
        "1", id="c00", outputs=list(outputs), metadata={"execution": {"iopub.status.idle": "9"}}
    )
    return nbformat.v4.new_notebook(cells=[cell], metadata={"widgets": {"state": {}}})


def stream(text: str, name: str = "stdout") -> Any:
    return nbformat.v4.new_output("stream", name=name, text=text)


def shown(data: dict[str, Any], kind: str = "display_data") -> Any:
    return nbformat.v4.new_output(kind, data=data)


@pytest.mark.filterwarnings("default")  # jupyter's own, when a kernel starts
def test_two_builds_are_the_same_bytes(source: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.ipynb", tmp_path / "second.ipynb"
    build(source, first)
    build(source, second)
    assert first.read_bytes() == second.read_bytes()

    notebook = nbformat.read(first, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == [1, 2, 3]
    assert [cell.metadata for cell in code] == [{"tags": ["setup"]}, {}, {}]
    assert [output.text for output in code[0].outputs] == ["part 0\npart 1\npart 2\n"]
    assert code[2].outputs[0].data == {"text/plain": "'a result, 1'"}
    assert notebook.metadata == read_source(source).metadata
    assert notebook.metadata.lesson == {"minutes": 5, "outputs": 2}


@pytest.mark.filterwarnings("default")
def test_a_cell_that_fails_stores_nothing(tmp_path: Path) -> None:
    source = tmp_path / "42_fails.py"
    source.write_text("# %%\n1 / 0\n")
    with pytest.raises(BuildError, match="ZeroDivisionError"):
        build(source, tmp_path / "out.ipynb")
    assert not (tmp_path / "out.ipynb").exists()


def test_ids_tell_position_and_content(source: Path) -> None:
    ids = [cell.id for cell in read_source(source).cells]
    source.write_text(SOURCE.replace("quiet = 1", "quiet = 2"))
    changed = [cell.id for cell in read_source(source).cells]
    assert [old == new for old, new in zip(ids, changed, strict=True)] == [True, True, False, True]


def test_a_widget_leaves_its_still() -> None:
    text = canonical(
        executed(shown({WIDGET: {"model_id": "x"}, "text/html": "<img>", "text/plain": "Player"})), "lesson"
    )
    cell = nbformat.reads(text, as_version=4).cells[0]
    assert cell.outputs[0].data == {"text/html": "<img>", "text/plain": "Player"}
    assert cell.execution_count == 1
    assert cell.metadata == {}
    assert "widgets" not in text
    with pytest.raises(BuildError, match="without a still"):
        canonical(executed(shown({WIDGET: {}, "text/plain": "Player"})), "lesson")


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (stream("UserWarning: …", "stderr"), "writes to stderr"),
        (stream("<Thing at 0x7f3a2c1b>"), "0x7f3a2c1b"),
        (shown({"text/plain": "<Thing at 0x7f3a2c1b>"}, "execute_result"), "address"),
    ],
)
def test_what_cannot_be_stored_is_refused(output: Any, why: str) -> None:
    with pytest.raises(BuildError, match=why):
        canonical(executed(output), "lesson")


def test_an_unknown_number_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--check", "98"])
    assert "no lesson 98" in capsys.readouterr().err
