"""What a reader without a mouse, or with a narrow screen, meets in a view: functions that walk a page and complain.

Invariant: every complaint names the text or the control that it is about; a view that is in order gives an empty list.
It knows what the views leave to the keys (BY_KEY), not what they show.
"""

from __future__ import annotations

from typing import Any

from playwright.sync_api import TimeoutError

__all__ = ["by_keys", "fits"]

BY_KEY = "[data-pick], [data-pick] *, .scale, .scale *, .field, .field *"
"""What a click moves and keys move as well: a draft (1 to 9, or a step to its verdict), a step (arrows)."""

# Complaints about what is drawn below `root` after each of some keys: text that is small, cut, outside of the view, or
# on other text.
FITS = """(root, keys) => {
  const all = new Set();
  for (const key of keys) {
    if (key) root.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
    for (const complaint of LOOK) all.add(complaint);
  }
  return [...all];
}"""

LOOK = """(root => {
  const found = [], page = document.documentElement, edge = root.getBoundingClientRect(), texts = [];
  if (page.scrollWidth > innerWidth) found.push(`the page is ${page.scrollWidth} px wide, the window ${innerWidth}`);
  const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT), range = document.createRange();
  const whole = (node, text) => node.closest("[title]") || node.closest("[aria-label]:not([role=img], section)");
  for (let text; (text = walk.nextNode());) {
    const node = text.parentElement, said = text.data.trim().slice(0, 40);
    if (!said || node.closest(".unseen, option") || node.closest("svg") && !node.matches("text")) continue;
    if (!node.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const {fontSize} = getComputedStyle(node);
    if (parseFloat(fontSize) < 12 && !node.closest(".blank")) found.push(`“${said}” has ${fontSize}`);
    range.selectNodeContents(text);
    const box = range.getBoundingClientRect();
    let free = true;
    for (let at = node; at !== root.parentElement; at = at.parentElement) {
      const {overflowX, overflowY, contain} = getComputedStyle(at), frame = at.getBoundingClientRect();
      if (/auto|scroll/.test(overflowX + overflowY)) { free = false; break; } // it can be scrolled to
      const out = box.right > frame.right + 1 || box.left < frame.left - 1;
      if (out && /hidden|clip|content|paint/.test(overflowX + contain)) {
        if (!whole(node)) found.push(`“${said}” is cut`);
        free = false;
        break;
      }
    }
    if (!free) continue;
    if (box.right > edge.right + 1 || box.left < edge.left - 1) found.push(`“${said}” sticks out of the view`);
    if (node.closest(".keys")) continue; // the help lies on the view
    for (const line of range.getClientRects()) texts.push([node, said, line]);
  }
  const pen = new OffscreenCanvas(1, 1).getContext("2d");
  for (const list of root.querySelectorAll("select")) {
    if (!list.checkVisibility()) continue;
    const {font, paddingLeft, paddingRight} = getComputedStyle(list), [chosen] = list.selectedOptions;
    pen.font = font;
    const wide = pen.measureText(chosen?.text ?? "").width + parseFloat(paddingLeft) + parseFloat(paddingRight) + 16;
    if (wide > list.clientWidth + 1) found.push(`“${chosen.text}” is cut in its list`); // 16: the arrow
  }
  texts.sort((one, two) => one[2].top - two[2].top);
  texts.forEach(([node, said, a], i) => {
    for (let k = i + 1; k < texts.length && texts[k][2].top < a.bottom - 5; k++) {
      const [other, more, b] = texts[k];
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) <= 2) continue;
      if (Math.min(a.bottom, b.bottom) - b.top <= 5) continue;
      if (node.contains(other) || other.contains(node) || node.closest(".u") || other.closest(".u")) continue;
      found.push(`“${said}” lies on “${more}”`);
    }
  });
  return found;
})(root)"""

# The control that has the focus: null outside of `root`, else its name, which arrow should scroll it, whether a ring
# shows it; it is marked as seen.
STOP = """root => {
  const node = document.activeElement, {outlineStyle, outlineWidth} = getComputedStyle(node);
  if (!root.contains(node)) return null;
  node.dataset.seen = "";
  const name = node.getAttribute("aria-label") ?? node.labels?.[0]?.textContent ?? node.textContent;
  const {overflowX, overflowY} = getComputedStyle(node), may = (over) => /auto|scroll/.test(over);
  let free = may(overflowX) && node.scrollWidth > node.clientWidth + 1 ? "Right"
    : may(overflowY) && node.scrollHeight > node.clientHeight + 1 ? "Down" : "";
  if (node.matches(".pane, input, select, textarea")) free = ""; // steps move a pane
  const ring = outlineStyle === "auto" || outlineStyle !== "none" && parseFloat(outlineWidth) >= 1;
  return {name: name.slice(0, 40), free, ring};
}"""

# What a mouse reaches below `root` and the tabulator did not.
MISSED = """(root, known) => {
  const found = [];
  const name = (node) => `${node.tagName.toLowerCase()}.${node.className} “${node.textContent.slice(0, 30)}”`;
  const presses = "a, button, input, select, textarea, summary, label, [role=slider]";
  for (const node of root.querySelectorAll("*")) {
    if (!node.checkVisibility({visibilityProperty: true}) || node.disabled || node === root) continue;
    const {overflowX, overflowY, cursor} = getComputedStyle(node), seen = "seen" in node.dataset;
    const stop = node.matches(presses) && !node.matches("label") || node.tabIndex >= 0;
    if (stop && !seen) found.push("no stop at " + name(node));
    if (cursor === "pointer" && !node.closest(presses) && !node.matches(known)) found.push("mouse only: " + name(node));
    const wide = /auto|scroll/.test(overflowX) && node.scrollWidth > node.clientWidth + 1;
    const high = /auto|scroll/.test(overflowY) && node.scrollHeight > node.clientHeight + 1;
    if ((wide || high) && !seen && !node.querySelector("[data-seen]")) found.push("no key scrolls " + name(node));
  }
  return found;
}"""


# The stops that Escape does not leave.
LEFT = """root => [root, ...root.querySelectorAll("[data-seen]")].filter((node) => {
  node.focus();
  node.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape", bubbles: true}));
  return root.contains(document.activeElement);
}).map((node) => node.getAttribute("aria-label") ?? node.className)"""


def fits(page: Any, root: str, *keys: str) -> list[str]:
    """Return what is small, cut, outside or on top of another text, now and after each key to the view at `root`."""
    found: list[str] = page.eval_on_selector(root, FITS.replace("LOOK", LOOK), ["", *keys])
    return found


def scrolls(page: Any, arrow: str) -> bool:
    """Whether an arrow key moves what is inside of the part that has the focus, from its beginning."""
    page.evaluate("document.activeElement.scrollTo(0, 0)")
    page.keyboard.press("Arrow" + arrow)
    moved = "() => document.activeElement.scrollLeft + document.activeElement.scrollTop > 0"
    try:
        page.wait_for_function(moved, timeout=2000)
    except TimeoutError:
        return False
    return True


def by_keys(page: Any, root: str, most: int = 80) -> list[str]:
    """Walk the view by Tab and back, leave it by Escape from every stop; return what went wrong."""
    view, found, stops = page.locator(root).first, [], []
    view.focus()
    for _ in range(most):
        page.keyboard.press("Tab")
        stop = view.evaluate(STOP)
        if stop is None:
            break
        stops.append(stop["name"])
        if not stop["ring"]:
            found.append(f"no ring on {stop['name']}")
        if stop["free"] and not scrolls(page, stop["free"]):
            found.append(f"no arrow scrolls {stop['name']}")
    else:
        return [f"the focus never leaves: {stops}"]
    found += view.evaluate(MISSED, BY_KEY)
    view.focus()
    page.keyboard.press("Shift+Tab")
    if view.evaluate(STOP) is not None:
        found.append("Shift Tab does not leave the view")
    return found + [f"Escape does not leave {name}" for name in view.evaluate(LEFT)]
