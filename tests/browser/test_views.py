"""Every view at every width, by keys alone, in large type and before axe: what no view may lack.

The audits of tests/browser/audit.py look at whole pages; here is what they are asked about, and that they can see.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.audit import by_keys, fits
from tests.browser.axe import violations
from tests.browser.contrast import CONTRAST
from tests.browser.views import FORMS, PAGES, ROOT, VIEWS, open_view, root_of

WIDTHS = {320: 14, 760: 14, 1280: 14, 1920: 17, 2560: 23, 3840: 31}
"""The widths in pixels and the size of the type at each."""
SIZE = "e => parseFloat(getComputedStyle(e).fontSize)"
WALKED = f"""(root, keys) => keys.map((key) => {{
  if (key) root.dispatchEvent(new KeyboardEvent("keydown", {{key, bubbles: true}}));
  return [...({CONTRAST})(root), key];
}}).sort(([a], [b]) => a - b)[0]"""
"""The text that reads worst after any of some keys."""


@pytest.mark.parametrize("kind", PAGES)
def test_every_width_holds_everything(browser: Any, recorded: Any, tmp_path: Path, kind: str) -> None:
    page, root = open_view(browser, tmp_path, kind, viewport={"width": 320, "height": 1200}), root_of(kind)
    recorded.watch(page)
    for width, size in WIDTHS.items() if kind in ("player", "compare", "timeline") else ((320, 14), (1280, 14)):
        page.set_viewport_size({"width": width, "height": 1200})
        page.wait_for_function(f"() => document.documentElement.clientWidth <= {width}")
        page.focus(root)
        for large in (False, True):
            assert page.eval_on_selector(root, SIZE) == pytest.approx(size * (1.6 if large else 1), abs=0.01)
            steps = ["ArrowRight"] * (14 if width == 320 else 4)
            assert fits(page, root, "Home", *steps, "End", "ArrowLeft") == [], (width, large)
            page.keyboard.press("p")
    assert recorded.errors == []
    page.close()


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ("root.querySelector('.narration').style.width = '400px'", "the page is"),
        ("root.querySelector('.narration').style.fontSize = '11px'", "has 11px"),
        ("root.querySelector('.facts').style.cssText = 'width:2em;overflow:hidden;white-space:nowrap'", "is cut"),
        ("root.querySelector('.narration').style.marginTop = '-1em'", "lies on"),
    ],
)
def test_the_audit_of_widths_sees(browser: Any, tmp_path: Path, harm: str, said: str) -> None:
    page = open_view(browser, tmp_path, "player", viewport={"width": 320, "height": 900})
    page.eval_on_selector(ROOT, f"root => {{ {harm} }}")
    assert any(said in complaint for complaint in fits(page, ROOT))
    page.close()


WALKS = [(kind, 320) for kind in (*VIEWS, "timeline, crowd", "tree, wide")] + [("player", 1280), ("timeline", 1280)]


@pytest.mark.parametrize(("kind", "width"), WALKS)
def test_keys_reach_everything_and_are_never_trapped(browser: Any, tmp_path: Path, kind: str, width: int) -> None:
    page, root = open_view(browser, tmp_path, kind, viewport={"width": width, "height": 900}), root_of(kind)
    page.focus(root)
    for key in ("End", "ArrowLeft"):
        page.keyboard.press(key)
    assert by_keys(page, root) == []
    page.focus(root)
    page.keyboard.press("?")
    assert page.is_visible(f"{root} .keys")
    assert page.inner_text(f"{root} .keys dt:last-of-type") == "Esc"
    page.keyboard.press("Escape")
    assert not page.is_visible(f"{root} .keys")
    assert page.evaluate("root => document.querySelector(root).contains(document.activeElement)", root)
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement === document.body")
    page.close()


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ("root.querySelector('.next').tabIndex = -1", "no stop at button.icon next"),
        ("root.querySelector('.next').style.outline = 'none'", "no ring on Next step"),
        ("root.querySelector('.narration').style.cursor = 'pointer'", "mouse only: p.narration"),
        ("root.querySelector('.scrub').onkeydown = (e) => e.stopPropagation()", "Escape does not leave"),
        ("root.querySelector('.scrub').onkeydown = (e) => e.preventDefault()", "the focus never leaves"),
        ("const box = root.querySelector('.side'); box.style.cssText = 'overflow:auto;height:20px';"
         "box.onkeydown = (e) => { if (/Arrow/.test(e.key)) e.preventDefault(); }", "no arrow scrolls"),
    ],
)  # fmt: skip
def test_the_audit_of_keys_sees(browser: Any, tmp_path: Path, harm: str, said: str) -> None:
    page = open_view(browser, tmp_path, "player")
    page.eval_on_selector(ROOT, f"root => {{ {harm} }}")
    assert any(said in complaint for complaint in by_keys(page, ROOT, most=25))
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", VIEWS)
def test_axe_finds_nothing(browser: Any, tmp_path: Path, kind: str, scheme: Any) -> None:
    page = open_view(browser, tmp_path, kind, color_scheme=scheme, viewport={"width": 1280, "height": 900})
    states = [[""], ["ArrowRight"] * 9, ["End", "ArrowLeft"], ["?"], ["p"]]
    if scheme == "dark" or kind in FORMS:  # what differs are colours; a form has no steps
        states = [states[1], ["?"], ["p"]]
    for keys in states:
        page.focus(root_of(kind))
        for key in filter(None, keys):
            page.keyboard.press(key)
        assert violations(page) == [], keys
    for key in ("p", "?"):
        page.keyboard.press(key)
    page.set_viewport_size({"width": 320, "height": 900})
    assert violations(page) == []
    page.close()


def test_axe_would_find_something(browser: Any, tmp_path: Path) -> None:
    page = open_view(browser, tmp_path, "player")
    page.evaluate("document.querySelector('.next').removeAttribute('aria-label')")
    page.evaluate("document.querySelector('.next').removeAttribute('title')")
    assert [line.split(":")[0] for line in violations(page)] == ["button-name"]
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", VIEWS)
def test_every_text_reads_in_every_step(browser: Any, tmp_path: Path, kind: str, scheme: Any) -> None:
    page, root = open_view(browser, tmp_path, kind, color_scheme=scheme), root_of(kind)
    assert page.eval_on_selector(root, "e => e.dataset.theme") == scheme
    for large in (False, True):
        keys = ["Home", *["ArrowRight"] * 16, "End", "ArrowLeft"]
        worst, where, key = page.eval_on_selector(root, WALKED, keys[:1] if kind in FORMS else keys)
        assert worst >= 4.5, (large, where, key)
        page.focus(root)
        page.keyboard.press("p")
    page.close()


@pytest.mark.parametrize("kind", ["live", "hunt"])
def test_a_form_whose_kernel_is_gone_says_so_and_does_nothing_bad(
    browser: Any, recorded: Any, tmp_path: Path, kind: str
) -> None:
    page = open_view(browser, tmp_path, kind)
    recorded.watch(page)
    page.clock.install()
    form, status = page.locator(".specdec-console"), page.locator(".specdec-console .status")
    before = page.get_attribute(f"{ROOT}[data-step]", "data-step")
    form.locator("button.run").click()
    page.clock.run_for(19_000)
    assert "no answer" not in status.inner_text()
    page.clock.run_for(2_000)
    assert status.inner_text().startswith("no answer from the kernel yet: if it was restarted, run this cell again")
    assert page.get_attribute(f"{ROOT}[data-step]", "data-step") == before
    assert recorded.errors == []
    page.close()
