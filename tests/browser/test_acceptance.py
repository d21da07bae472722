"""The acceptance lab in a real browser, on a page of its own and with a stand-in for the kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specdec_widgets.laws import corrected, distance, laws, stands
from specdec_widgets.page import lab_to_html
from specdec_widgets.words import num
from tests.browser.views import DRAWN

ROOT = ".specdec-lab"
P, Q = [0.6, 0.3, 0.1], [0.2, 0.5, 0.3]
VALUES = f"() => [...document.querySelectorAll('{ROOT} [role=slider]')].map(e => [e.dataset.which, +e.ariaValueNow])"


def open_lab(page: Any, tmp_path: Path, labels: list[str] | None = None, *, live: bool = False) -> None:
    path = lab_to_html(P, Q, tmp_path / "lab.html", labels=labels or ["by", "the", "fox"])
    if live:  # what a kernel would keep in the store
        text = path.read_text(encoding="utf-8")
        path.write_text(
            text.replace("can_rerun: false", "can_rerun: true, drawn: " + json.dumps(DRAWN)), encoding="utf-8"
        )
    page.goto(path.as_uri())
    page.wait_for_selector(ROOT)


def drawn_laws(page: Any) -> tuple[list[float], list[float]]:
    seen = page.evaluate(VALUES)
    return [v for which, v in seen if which == "p"], [v for which, v in seen if which == "q"]


def shows(page: Any) -> None:
    """Table and towers follow from the bars that are drawn."""
    p, q = drawn_laws(page)
    for key, law in laws(p, q).items():
        row = page.locator(f"tr.{key} .v").all_inner_texts()
        assert row == [num(x) for x in law], key
        assert page.inner_text(f"tr.{key} .share") == num(stands(p, q)[key]), key
        off = page.inner_text(f"tr.{key} .off")
        assert off.split()[1] == (num(distance(law, p)) if distance(law, p) > 5e-4 else "0")
    towers = page.eval_on_selector_all(".stack .gain", "e => e.map(x => x.getBoundingClientRect().height)")
    scale = page.eval_on_selector(".cols", "e => e.clientHeight")
    gained = corrected(p, q)
    if sum(gained) > 0.01:
        shares = [height / sum(towers) for height in towers]
        assert shares == pytest.approx([g / sum(gained) for g in gained], abs=3 / scale)


def test_bars_move_by_keys_and_everything_follows(page: Any, recorded: Any, tmp_path: Path) -> None:
    open_lab(page, tmp_path)
    shows(page)
    page.locator("[data-which=p][data-token='0']").focus()
    for _ in range(5):
        page.keyboard.press("ArrowDown")
    assert drawn_laws(page)[0] == pytest.approx([0.55, 0.3375, 0.1125], abs=1e-3)
    page.keyboard.press("Shift+ArrowUp")
    page.locator("[data-which=q][data-token='2']").focus()
    page.keyboard.press("Home")
    assert drawn_laws(page)[1] == pytest.approx([0.2 / 0.7, 0.5 / 0.7, 0], abs=1e-3)
    assert sum(drawn_laws(page)[0]) == pytest.approx(1, abs=2e-3)
    assert "α = " in page.inner_text(".narration")
    page.select_option(".preset", "four tokens")
    assert page.locator("[role=slider]").count() == 8
    shows(page)
    page.select_option(".preset", "the same")
    assert "every draft is accepted" in page.inner_text(".narration")
    page.click("text=swap p and q")
    assert recorded.errors == []
    assert all(url.startswith(("file:", "blob:", "data:")) for url in recorded.requests)


def test_bars_move_by_pointer(page: Any, recorded: Any, tmp_path: Path) -> None:
    open_lab(page, tmp_path)
    box = page.locator("[data-which=q][data-token='0']").bounding_box()
    x, base = box["x"] + box["width"] / 2, box["y"] + box["height"]
    page.mouse.move(x, base - 40)
    page.mouse.down()
    page.mouse.move(x, base - box["height"] / 2, steps=5)
    page.mouse.up()
    p, q = drawn_laws(page)
    assert p == P
    assert q[0] == pytest.approx(0.35, abs=0.02)  # half of the scale, which ends at .70
    assert sum(q) == pytest.approx(1, abs=2e-3)
    page.mouse.move(x, base - 10)
    assert drawn_laws(page)[1] == q
    shows(page)
    assert recorded.errors == []


def test_without_an_engine_it_says_so_and_with_one_it_shows_the_draws(page: Any, recorded: Any, tmp_path: Path) -> None:
    open_lab(page, tmp_path)
    assert not page.is_visible(".engine")
    assert "in a notebook" in page.inner_text(ROOT)
    open_lab(page, tmp_path, live=True)
    assert page.locator("tr.engine .v").all_inner_texts() == [num(c / 515) for c in DRAWN["counts"]]  # type: ignore[attr-defined]
    assert page.inner_text(".count").startswith("515 draws of the engine: off by ")
    assert page.locator(".curve .bias").count() == 4
    assert page.inner_text("tr.engine .share") == num(309 / 515)
    assert page.inner_text(".count").endswith("Of the drafts .60 stood; the rule accepts .60.")
    page.select_option("select.rule", "coupled")
    assert page.inner_text(".count").endswith("the rule accepts .58.")
    assert page.is_disabled("text=stop")
    assert recorded.errors == []


def test_reduced_motion_moves_nothing(browser: Any, tmp_path: Path) -> None:
    page = browser.new_page(reduced_motion="reduce")
    open_lab(page, tmp_path, live=True)
    moving = "e => e.filter(x => parseFloat(getComputedStyle(x).transitionDuration) > 0).length"
    assert page.eval_on_selector_all(f"{ROOT} *", moving) == 0
    page.close()


@pytest.mark.parametrize("labels", [["by", "the", "fox"], ["a", "b", "c", "d", "e"]], ids=len)
def test_in_a_narrow_window_a_rule_is_named_above_its_numbers(browser: Any, tmp_path: Path, labels: list[str]) -> None:
    law = [1 / len(labels)] * len(labels)
    path = lab_to_html(law, [*law[:-2], law[-1] / 2, law[-1] * 1.5], tmp_path / "lab.html", labels=labels)
    page = browser.new_page(viewport={"width": 320, "height": 900})
    page.goto(path.as_uri())
    page.wait_for_selector(ROOT)
    for row in page.locator(".rules tbody tr:visible").all():
        name, numbers = row.locator("th.name"), row.locator("td")
        title, boxes = name.bounding_box(), [cell.bounding_box() for cell in numbers.all()]
        assert len({box["y"] for box in boxes}) == 1
        assert title["y"] + title["height"] <= boxes[0]["y"] + 1
        assert name.evaluate("e => e.scrollHeight <= e.clientHeight + 1"), name.inner_text()
        assert title["height"] < 48, f"{name.inner_text()!r} takes more than two lines"
    heads = [cell.bounding_box()["x"] for cell in page.locator(".rules thead th:not(.name)").all()]
    cells = [cell.bounding_box()["x"] for cell in page.locator(".rules tr.exact td").all()]
    assert heads == pytest.approx(cells, abs=1)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()
