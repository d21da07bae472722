/**
 * The elements of the timeline view: a cell of the grid, a tile of the pool, tables.
 *
 * Invariant: each is built from plain data; names enter as text nodes only. A request shows by glyph, number, pattern
 * and colour together. It does not know where an element stands.
 */

import { el } from "./elements.js";
import { blocksAfter, nameOf, tileWords } from "./pool.js";

const GLYPHS = "●■▲◆▼✚";
export const glyphOf = (request) => [...GLYPHS][request % GLYPHS.length];

/** A request by glyph, number and name. */
export const owner = (request, name = "") => el("span", "owner ink" + (request % 5), glyphOf(request) + " " + request, name && " " + name);
/** Give a node a share of the width of what it stands in. */
export const share = (node, part) => { node.style.width = (100 * part).toFixed(2) + "%"; return node; };

/** One request in one step; `most` drafts fill the width. */
export function drawCell(node, cell, most) {
  node.className = "box " + cell.cls;
  node.style.transform = `translate(${cell.x.toFixed(2)}em, ${cell.y.toFixed(2)}em)`;
  node.title = cell.title;
  const top = el("span", "said", cell.text);
  if (cell.mark) top.append(el("b", "mark", cell.mark));
  node.replaceChildren(top);
  if (cell.adopted) node.append(el("span", "adopted", el("i", "flag"), String(cell.adopted)));
  if (!cell.drafted) return;
  const pips = Array.from({ length: cell.drafted }, (_, j) => share(el("i", j < cell.accepted ? "kept" : "lost"), 1 / most));
  node.append(el("span", "pips", ...pips));
}

/** One block; `mine`: the picked request holds it. */
export function drawTile(node, block, size, mine) {
  const kind = block.owners.length ? "held" : block.idle ? "idle" : "free";
  node.className = ["tile", kind, block.shared ? "shared" : "", block.evicted ? "evicted" : "", mine ? "mine" : ""].join(" ");
  const named = block.owners.length > 2 ? block.owners.slice(0, 1) : block.owners;
  const who = el("span", "owners", ...named.map((r) => el("b", "ink" + (r % 5), glyphOf(r) + r)), block.owners.length > 2 ? el("b", "", "×" + block.owners.length) : "");
  const title = el("div", "title", el("b", "id", String(block.id)), block.published ? el("i", "flag") : "", who);
  const filled = share(el("div", "filled"), block.filled / size), slots = el("div", "slots", filled);
  for (const r of block.owners.slice(0, 3)) filled.append(el("i", "own" + (r % 5)));
  if (block.idle) filled.append(el("i", "idle"));
  if (block.written > block.filled) slots.append(share(el("i", "stale"), (block.written - block.filled) / size));
  if (size > 1 && size <= 16) {
    slots.classList.add("apart");
    slots.style.setProperty("--slot", `${100 / size}%`);
  }
  node.replaceChildren(title, slots, el("div", "word", tileWords(block, size)));
}

/** A table whose first column names the rows. */
export const table = (cls, head, rows) => el("table", cls,
  el("thead", "", el("tr", "", ...head.map((text) => Object.assign(el("th", "", text), { scope: "col" })))),
  el("tbody", "", ...rows.map(([first, ...rest]) => el("tr", "", Object.assign(el("th", "", first), { scope: "row" }), ...rest.map((v) => el("td", "", v))))));

/** The numbers of a step as two tables, for readers who do not see the picture. */
export function twin(run, step) {
  const { timeline } = run, size = timeline.meta.block_size;
  const rows = timeline.steps[step].rows.map((row) => [
    `${row.request} ${nameOf(timeline, row.request)}`, row.ends ? `${row.state}, ${nameOf({ names: [row.ends] }, 0)}` : row.state,
    ...[row.computed, row.committed, row.fed, row.adopted, row.drafted, row.accepted, row.emitted].map(String), row.table.join(" ") || "–",
  ]);
  const held = blocksAfter(run, step).filter((block) => !block.free || block.evicted).map((block) => [
    String(block.id), block.owners.join(" ") || "–", String(block.filled), String(block.written - block.filled),
    ["published", "idle", "shared", "evicted"].filter((key) => block[key]).join(", ") || "–",
  ]);
  return [
    table("wide", ["request", "state", "computed", "committed", "fed", "taken over", "drafted", "kept", "emitted", "blocks"], rows),
    table("", ["block", "held by", "computed slots", "stale slots", "marks"], held),
  ];
}
