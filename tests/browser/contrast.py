"""How well text reads in a browser: a function for a page to run.

Invariant: it looks at every text that is drawn below a node. It does not know what the page shows.
"""

from __future__ import annotations

# [ink, text] of every text below a node that is drawn in the ink of a meaning. A heading and tokens taken over are left
# out: the one has an ink of its own for all it says, the others stand behind a drawn sign.
INKED = """root => {
  const probe = root.appendChild(document.createElement("i")), inks = {};
  for (const name of ["green", "red", "blue", "purple", "amber"]) {
    probe.style.color = `var(--${name}-ink)`;
    inks[getComputedStyle(probe).color] = name;
  }
  probe.remove();
  const found = [];
  for (const node of root.querySelectorAll("*")) {
    const own = [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
    if (!own || node.closest(".stage, .adopted") || !node.checkVisibility({visibilityProperty: true})) continue;
    const style = getComputedStyle(node), ink = inks[node.namespaceURI.endsWith("svg") ? style.fill : style.color];
    if (ink) found.push([ink, node.textContent.trim()]);
  }
  return found;
}"""

# The least contrast (WCAG) between a text and what lies behind it, over every text drawn below a node.
CONTRAST = """root => {
  const pen = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const mixed = colours => {
    for (const colour of ["white", ...colours]) { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); }
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const part = value => (value /= 255) <= .04045 ? value / 12.92 : ((value + .055) / 1.055) ** 2.4;
  const light = rgb => .2126 * part(rgb[0]) + .7152 * part(rgb[1]) + .0722 * part(rgb[2]);
  const behind = node => node ? [...behind(node.parentElement), getComputedStyle(node).backgroundColor] : [];
  let worst = [99, ""];
  for (const node of root.querySelectorAll("*")) {
    const own = [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
    if (!own || !node.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    if (node.namespaceURI.endsWith("svg") || node.closest("select, .u")) continue; // .u hangs below its line
    const ground = behind(node), [a, b] = [[...ground, getComputedStyle(node).color], ground].map(c => light(mixed(c)));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < worst[0]) worst = [ratio, node.className + ": " + node.textContent.trim().slice(0, 40)];
  }
  return worst;
}"""
