/**
 * The lanes of one run as elements: text, drafts, rows and both caches, the sentence below, and what scrolls them.
 *
 * Invariant: only the columns in sight are in the document, so a long run costs what a short one does; what is drawn
 * depends on (trace, step, selected position) alone. It knows no controls and no store.
 *
 * @typedef {import("./wire.js").Trace} Trace
 * @typedef {import("./steps.js").Index} Index
 * @typedef {import("./steps.js").Frame} Frame
 */

import { blocksSentence, GLYPH, percent } from "./words.js";
import { el, keyed, put, svg } from "./elements.js";
import { columnAt, focus, since } from "./steps.js";
import { blocksAt, extent, height, scene, scrollFor, Y } from "./lanes.js";
import { narrate } from "./narration.js";
import { drawItem, drawLine, NAMES } from "./drawing.js";

const SLOTS = { valid: "valid", provisional: "provisional: not committed", stale: "stale: unreachable", free: "free" };
const BESIDE = 8; // em drawn beyond both edges of the window

/** What the glyphs and the slots mean. */
export function legend() {
  const marks = Object.entries(GLYPH).map(([cls, glyph]) => el("span", "", el("span", "glyph " + cls, glyph), NAMES[cls] ?? cls));
  const slots = Object.entries(SLOTS).map(([cls, text]) => el("span", "", el("i", "cell " + cls), text));
  return el("div", "legend", ...slots, el("span", "marks", ...marks));
}

/** The lanes, the sentence and the line of blocks. @param {(j: number) => void} pick is told which draft was clicked */
export function board(root, pick) {
  let trace, m, frame, picked = null, aim = -1, apart = null;
  let unit = 14, wide = 900, left = 0; // px: one em, the window's width, how far it is scrolled
  const names = el("div", "names"), strip = el("div", "strip-lanes"), pane = el("div", "pane", strip);
  const lines = svg("svg", { class: "lines", "aria-hidden": "true" }), items = el("div", "items");
  pane.setAttribute("role", "img");
  pane.tabIndex = 0; // it scrolls
  strip.append(lines, items);
  const drawItems = keyed(items, () => el("div"), drawItem), drawLines = keyed(lines, () => svg("path", {}), drawLine);
  const lanes = el("div", "lanes", names, pane), words = el("p", "narration"), blockLine = el("p", "blocks");
  words.setAttribute("aria-live", "polite");
  items.addEventListener("click", (event) => {
    const chosen = event.target.closest("[data-pick]")?.dataset.pick;
    if (chosen) pick(+chosen);
  });
  pane.addEventListener("scroll", () => requestAnimationFrame(() => {
    left = pane.scrollLeft;
    if (m && root.isConnected) drawStrip();
  }), { passive: true });
  const sized = new ResizeObserver(() => { measure(); aim = -1; if (m) draw(frame, picked); });
  sized.observe(pane);

  /** Asked once for a size, since asking while drawing makes the browser lay everything out again. */
  function measure() {
    unit = parseFloat(getComputedStyle(root).fontSize) || 14;
    wide = pane.clientWidth || 900;
    left = pane.scrollLeft;
  }

  const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

  /** Show another run. `mark`: the position where it leaves another run, if any. */
  function load(nextTrace, nextIndex, mark = null) {
    trace = nextTrace;
    m = nextIndex;
    apart = mark;
    aim = -1;
    drawItems([]);
    drawLines([]);
    const total = m.edge.at(-1) + 11, tall = height(m);
    strip.style.width = total + "em";
    strip.style.height = tall + "em";
    const lane = (y, text, more = "") => {
      const name = el("span", "", text, el("em", "", more));
      name.style.top = y + "em";
      return name;
    };
    names.replaceChildren(
      lane(Y.ruler, "pos", "ition"), lane(Y.text + 0.4, "text"), lane(Y.drafts + 0.4, "drafts"), lane(Y.rows + 0.15, "rows"),
      lane(Y.target + 0.2, "target", " KV"), ...(m.hasDraft ? [lane(Y.draft + 0.2, "draft", " KV")] : []),
    );
    names.style.height = tall + "em";
    measure();
  }

  /** Draw a step. `chosen`: the draft that the reader picked; `quiet`: say nothing, since the next step follows at once. */
  function draw(nextFrame, chosen, quiet = false) {
    frame = nextFrame;
    picked = chosen;
    const sentence = narrate(trace, m, frame);
    words.setAttribute("aria-live", quiet ? "off" : "polite");
    put(words, sentence);
    pane.setAttribute("aria-label", sentence);
    const blocks = blocksAt(trace, frame);
    blockLine.hidden = !blocks;
    put(blockLine, blocks ? blocksSentence(blocks) : "");
    follow();
    drawStrip();
  }

  function follow() {
    const want = Math.round(scrollFor(m.edge, extent(trace, m, frame), wide / unit) * unit);
    const jump = aim < 0 || still() || Math.abs(want - aim) > 3000;
    if (want !== aim) pane.scrollTo({ left: want, behavior: jump ? "auto" : "smooth" });
    if (jump) left = want;
    aim = want;
  }

  function drawStrip() {
    const here = left / unit, ahead = aim / unit, sight = wide / unit;
    const low = Math.min(here, ahead) - BESIDE, high = Math.max(here, ahead) + sight + BESIDE, far = high - low > 400;
    const from = far ? ahead - BESIDE : low, to = far ? ahead + sight + BESIDE : high; // a jump draws where it lands
    const a = columnAt(m.edge, from), b = Math.min(m.longest, columnAt(m.edge, to) + 1);
    const x = m.edge[a] - BESIDE, w = m.edge[b] - x + 2 * BESIDE;
    lines.setAttribute("viewBox", `${x} 0 ${w} ${height(m)}`); // the lines in sight: a picture as wide as the run is too large
    lines.style.cssText = `left:${x}em;width:${w}em;height:${height(m)}em`;
    const view = scene(trace, m, frame, a, b, picked ?? focus(trace, frame));
    for (const item of view.items) if (item.key === "n" + apart) item.cls += " apart";
    drawItems(view.items);
    drawLines(view.lines);
  }

  return { lanes, words, blockLine, load, draw, close: () => sized.disconnect() };
}

/** What has happened up to a step, as pairs of a name and a text.  @param {Trace} trace  @param {Index} m  @param {Frame} frame */
export function totals(trace, m, frame) {
  const c = frame.stage === "prefill" ? undefined : trace.cycles[frame.cycle];
  const s = m.totals[c ? frame.cycle + (since(frame, "commit") ? 1 : 0) : 0];
  return [
    ["cycles", String(s.cycles)], ["tokens", String(s.emitted)],
    ["tokens per cycle", s.cycles ? (s.emitted / s.cycles).toFixed(2) : "–"],
    ["accepted drafts", s.judged ? `${s.accepted} of ${s.judged}` : "–"],
    ["acceptance rate", s.judged ? percent(s.accepted / s.judged) : "–"],
    ...(s.seconds ? [["time", milliseconds(s.seconds)]] : []),
  ];
}

/** Seconds as text: 0.40 ms, 12.3 ms, 1.25 s. */
export const milliseconds = (s) => s >= 1 ? s.toFixed(2) + " s" : (s * 1000).toFixed(s < 0.01 ? 2 : 1) + " ms";
