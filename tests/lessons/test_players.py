"""Pages of the key moments: one for each lesson, runs that show what the list says, small, and without the outside."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lessons.players import MOMENTS, main, write_all

LESSONS = Path(__file__).parents[2] / "lessons"
SHELL = 400_000


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("players") / "pages"
    index, *made = write_all(folder)
    assert index.name == "index.html"
    assert [path.stem for path in made] == [moment.name for moment in MOMENTS]
    return {path.stem: path.read_text(encoding="utf-8") for path in (index, *made)}


def told(page: str) -> dict[str, object]:
    """The record that a page carries."""
    found: dict[str, object] = json.loads(
        re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.S)[0]
    )
    return found


def test_every_lesson_has_its_moment(pages: dict[str, str]) -> None:
    assert [moment.name for moment in MOMENTS] == sorted(path.name[:2] for path in LESSONS.glob("[0-9][0-9]*.ipynb"))
    linked = re.findall(r'href="([^"]+)"', pages["index"])
    assert linked == [f"{moment.name}.html" for moment in MOMENTS]


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.name)
def test_a_page_is_small_and_asks_nothing_of_the_outside(pages: dict[str, str], moment: object) -> None:
    page = pages[moment.name]  # type: ignore[attr-defined]
    record = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.S)
    assert len(record) == 1
    assert len((page).encode()) - len(record[0].encode()) < SHELL
    assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", page)


def test_runs_show_what_the_list_says(pages: dict[str, str]) -> None:
    cycles = {name: told(page).get("cycles", []) for name, page in pages.items() if name not in ("index", "03")}
    assert all(c["accepted"] == 2 for c in cycles["00"] if len(c["proposed"]) >= 3)  # type: ignore[attr-defined]
    for name in ("02", "04", "05"):
        assert any(c["last_kind"] == "correction" for c in cycles[name]), name  # type: ignore[attr-defined]
    assert any(c["blocks"] for c in cycles["06"])  # type: ignore[attr-defined]
    assert all(c["parents"] for c in cycles["09"] if c["proposed"])  # type: ignore[attr-defined]
    assert told(pages["13"])["meta"]["lossless"] is False  # type: ignore[index]


def test_a_folder_that_cannot_be_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main([str(tmp_path / "file" / "pages")]) == 1
    assert "choose a folder that is yours" in capsys.readouterr().err
