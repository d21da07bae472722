/**
 * The draft tree of a cycle: nodes with token, q and verdict, the chosen path, the last token, and the mask.
 *
 * `places`, `mask` and `sayTree` are pure functions that mirror specdec_widgets/trees.py (a test compares them); `tree`
 * makes the elements of one step, for a player to put below its lanes. Invariant: what is drawn depends on (trace, step)
 * alone. It knows no store and no controls. Token texts enter the page as text nodes only.
 */

import { clip, GLYPH, labels, list, num, plural, quote } from "./words.js";
import { el, put, scrollable, svg, token } from "./elements.js";
import { since, standing, treeNames } from "./steps.js";

const STEP = { x: 10.4, y: 3.9 }, NODE = { w: 8.4, h: 2.1 }, CELL = 1.05;

/** [column, row] of every node: a column is a depth, and the first child stands in its parent's row. @param {number[]} parents */
export function places(parents) {
  const children = new Map(), found = new Map([[-1, [0, 0]]]), waiting = [-1];
  parents.forEach((parent, node) => children.set(parent, [...(children.get(parent) ?? []), node]));
  let rows = 0;
  while (waiting.length) {
    const node = waiting.pop(), place = found.get(node), family = children.get(node) ?? [];
    if (place[1] < 0) place[1] = ++rows;
    for (let i = family.length - 1; i >= 0; i--) {
      found.set(family[i], [place[0] + 1, i ? -1 : place[1]]);
      waiting.push(family[i]);
    }
  }
  return parents.map((_, node) => found.get(node));
}

/** Which fed token sees which: row and column 0 are the pending token, k + 1 is draft k. @param {number[]} parents @returns {boolean[][]} */
export function mask(parents) {
  const rows = [[true, ...parents.map(() => false)]];
  parents.forEach((parent, node) => rows.push(rows[parent + 1].map((sees, at) => (at === node + 1 ? true : sees))));
  return rows;
}

/** What became of a tree, in a sentence: that of trees.py. */
export function sayTree(trace, c) {
  const drafts = treeNames(trace, c), last = labels(c.emitted, trace.pieces).at(-1), path = c.path ?? [];
  const judged = c.decisions.filter((d) => d.status === "accepted" || d.status === "rejected"), fallen = judged.filter((d) => d.status === "rejected").length;
  const depth = Math.max(0, ...places(c.parents).map(([column]) => column));
  const head = `${plural(c.parents.length, "draft")} in a tree of depth ${depth}, ${judged.length} of them judged`;
  const kept = (path.length ? `the path ${list(path.map((k) => quote(drafts[k])))} is kept` : "none is kept") + (fallen ? `, ${fallen} ${fallen === 1 ? "falls" : "fall"}` : "");
  if (c.last === null) return `${head}: ${kept}, and the text ends there.`;
  return `${head}: ${kept}, and ${quote(last)} ${c.last_kind === "correction" ? "corrects" : "follows as the bonus"}.`;
}

/** Everything of one step as plain data, lengths in em; null where the cycle drafted no tree. */
export function treeScene(trace, m, frame) {
  const c = frame.stage === "prefill" ? undefined : trace.cycles[frame.cycle];
  if (!c?.parents) return null;
  const { parents } = c, path = c.path ?? [], spots = places(parents), drafts = treeNames(trace, c), done = since(frame, "last"), fed = since(frame, "target");
  const tip = path.at(-1) ?? -1, end = tip < 0 ? [0, 0] : spots[tip], rows = 1 + Math.max(0, ...spots.map(([, row]) => row));
  const last = c.last === null ? null : [end[0] + 1, parents.includes(tip) ? rows : end[1]];
  const at = (/** @type {number[]} */ [column, row]) => ({ x: column * STEP.x, y: row * STEP.y }), drawn = last !== null && done;
  const nodes = [{ key: "root", cls: "committed", label: m.text[c.committed_before - 1], glyph: "", note: fed ? "fed" : "pending", number: "", ...at([0, 0]) }], edges = [];
  parents.forEach((parent, node) => {
    const state = standing(c, frame, node + 1), d = c.decisions[node];
    if (!state) return;
    const judged = fed && (state === "accepted" || state === "rejected"), numbers = [d.q === null ? "" : "q " + num(d.q)];
    if (judged && d.p !== null) numbers.push("p " + num(d.p));
    if (judged && d.u !== null) numbers.push("u " + num(d.u));
    const now = frame.stage === "verdict" && frame.k === node + 1;
    nodes.push({ key: "n" + node, cls: state + (now ? " selected" : ""), label: drafts[node], glyph: GLYPH[state] ?? "", note: numbers.join("  "), number: String(node + 1), ...at(spots[node]) });
    edges.push({ key: "e" + node, cls: state === "accepted" ? "chosen" : state, from: at(parent < 0 ? [0, 0] : spots[parent]), to: at(spots[node]) });
  });
  if (drawn) {
    nodes.push({ key: "last", cls: c.last_kind, label: m.text[c.committed_after - 1], glyph: GLYPH[c.last_kind], note: c.last_kind, number: "", ...at(last) });
    edges.push({ key: "elast", cls: "last " + c.last_kind, from: at(end), to: at(last) });
  }
  edges.sort((a, b) => Number(/chosen|last/.test(a.cls)) - Number(/chosen|last/.test(b.cls)));
  const deep = Math.max(...spots.map(([column]) => column), last ? last[0] : 0), tall = rows + (last && last[1] === rows ? 1 : 0);
  const grid = fed || frame.stage === "draft" ? mask(parents.slice(0, frame.stage === "draft" ? frame.k : parents.length)) : [];
  const chosen = new Set([0, ...(done ? path : path.filter((k) => frame.stage === "verdict" && frame.k >= k + 1)).map((k) => k + 1)]);
  return { nodes, edges, grid, chosen, width: deep * STEP.x + NODE.w, height: (tall - 1) * STEP.y + NODE.h + 1.6, words: drawn || (done && c.last === null) ? sayTree(trace, c) : "" };
}

const bent = ({ from, to }) => {
  const x = from.x + NODE.w, y = from.y + NODE.h / 2, z = to.y + NODE.h / 2, turn = x + 1;
  return y === z ? `M${x} ${y}H${to.x}` : `M${x} ${y}H${turn - 0.5}Q${turn} ${y} ${turn} ${y + 0.5}V${z - 0.5}Q${turn} ${z} ${turn + 0.5} ${z}H${to.x}`;
};

/** The tree of one step as an element that a player keeps: `draw(trace, m, frame)` brings it up to date. */
export function tree() {
  const lines = svg("svg", { class: "branches", "aria-hidden": "true" }), chips = el("div", "chips"), plane = el("div", "plane", lines, chips);
  const pane = el("div", "tree-pane", plane), grid = el("div", "grid"), words = el("p", "quiet"), table = el("table", "twin");
  const sees = scrollable(el("div", "sees", el("p", "quiet", "mask: row sees column"), grid));
  const more = el("details", "", el("summary", "", "this tree as a table"), scrollable(el("div", "sheet", table)));
  const node = el("section", "draft-tree", el("h3", "", "draft tree"), el("div", "both", pane, sees), words, more);
  node.setAttribute("aria-label", "draft tree");
  pane.tabIndex = 0;
  pane.setAttribute("role", "img");
  grid.setAttribute("role", "img");
  let before = "";

  function draw(trace, m, frame) {
    const view = treeScene(trace, m, frame), key = JSON.stringify(view && [view.nodes, view.grid.length]) + frame.cycle;
    node.hidden = !view;
    if (!view || key === before) return;
    before = key;
    const c = trace.cycles[frame.cycle];
    plane.style.width = view.width + "em";
    plane.style.height = view.height + "em";
    lines.setAttribute("viewBox", `0 0 ${view.width} ${view.height}`);
    lines.style.cssText = `width:${view.width}em;height:${view.height}em`;
    lines.replaceChildren(...view.edges.map((edge) => svg("path", { class: edge.cls, d: bent(edge) })));
    chips.replaceChildren(...view.nodes.map((item) => {
      const chip = el("div", "chip " + item.cls, item.number && el("span", "number", item.number), item.glyph && el("span", "glyph", item.glyph), token(clip(item.label, 9)));
      chip.title = clip(item.label, 200);
      const spot = el("div", "spot", chip, el("p", "note", item.note));
      spot.style.transform = `translate(${item.x}em, ${item.y}em)`;
      return spot;
    }));
    reveal();
    const size = view.grid.length;
    grid.style.gridTemplateColumns = `1.8em repeat(${size}, ${CELL}em)`;
    const head = (k) => el("span", "axis-name", size <= 14 || k % 5 === 0 ? String(k) : "");
    grid.replaceChildren(...(size ? [el("span", ""), ...view.grid.map((_, k) => head(k))] : []), ...view.grid.flatMap((row, k) =>
      [head(k), ...row.map((seen) => el("i", (seen ? "seen" : "blind") + (view.chosen.has(k) ? " chosen" : "")))]));
    const told = view.nodes.slice(1).map((n) => `${n.number ? "draft " + n.number + " " : ""}${n.label} ${n.cls.split(" ")[0]}`);
    pane.setAttribute("aria-label", `Tree below ${view.nodes[0].label}: ${told.join(", ") || "nothing yet"}`);
    grid.setAttribute("aria-label", `Mask of ${size} by ${size}: a token sees the pending token, its ancestors and itself`);
    put(words, view.words);
    rows(c, view);
  }

  /** Scroll the pane, not the page, to the node that is judged, or to the one that came last. */
  function reveal() {
    const node = chips.querySelector(".selected") ?? chips.lastElementChild, spot = node?.getBoundingClientRect(), sight = pane.getBoundingClientRect();
    if (!spot) return;
    pane.scrollLeft += Math.max(0, spot.right + 8 - sight.right) - Math.max(0, sight.left - spot.left + 8);
    pane.scrollTop += Math.max(0, spot.bottom + 8 - sight.bottom) - Math.max(0, sight.top - spot.top + 8);
  }

  function rows(c, view) {
    const head = ["#", "below", "draft", "q", "p", "u", "verdict"].map((text) => Object.assign(el("th", "", text), { scope: "col" }));
    const body = view.nodes.filter((n) => n.number).map((n) => {
      const d = c.decisions[n.number - 1], state = n.cls.split(" ")[0], judged = state === "accepted" || state === "rejected";
      const cells = [c.parents[n.number - 1] + 1 || "pending", n.label, num(d.q), judged ? num(d.p) : "–", judged ? num(d.u) : "–", state === "unused" ? "discarded" : state];
      return el("tr", "", Object.assign(el("th", "", n.number), { scope: "row" }), ...cells.map((text) => el("td", "", String(text))));
    });
    table.replaceChildren(el("thead", "", el("tr", "", ...head)), el("tbody", "", ...body));
  }
  node.hidden = true;
  return { node, draw };
}
