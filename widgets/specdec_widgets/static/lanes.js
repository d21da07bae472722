/**
 * The picture of one step as plain data: text, drafts, rows and both caches (all lengths in em).
 *
 * Invariant: pure functions of (trace, step, selected position); every number is in the trace. It touches no document.
 *
 * @typedef {import("./steps.js").Frame} Frame
 * @typedef {{key: string, cls: string, x: number, y: number, w?: number, h?: number, text?: string, glyph?: string,
 *   title?: string, pick?: number}} Item
 * @typedef {{key: string, cls: string, x1: number, y1: number, x2: number, y2: number}} Line
 * @typedef {import("./wire.js").Blocks} Blocks
 * @typedef {import("./wire.js").Cycle} Cycle
 * @typedef {import("./wire.js").Trace} Trace
 * @typedef {import("./steps.js").Index} Index
 */

import { clip, GLYPH, sub } from "./words.js";
import { columnAt, COLUMNS, since, standing, rowOf } from "./steps.js";

export const Y = {
  pending: 0, ruler: 1.15, text: 2.55, tag: 4.7, drafts: 6.1, rows: 9.8, target: 12.5, draft: 16.9, cell: 1.7, chip: 2.1,
};
export const height = (m) => (m.hasDraft ? Y.draft : Y.target) + Y.cell + 2.2;

/** Which columns a step must show, and which one it is about, and the most that may be scrolled.
 * @returns {{left: number, right: number, at: number, most: number}}
 * @param {Trace} trace  @param {Index} m  @param {Frame} frame */
export function extent(trace, m, frame) {
  const c = frame.stage === "prefill" ? undefined : trace.cycles[frame.cycle];
  const L = c ? c.committed_before : trace.prompt.length, K = c ? c.proposed.length : 0;
  const x = (column) => m.edge[Math.max(0, Math.min(m.longest, column))];
  const first = Math.min(L - 1, c?.draft_kv?.before ?? L - 1), newest = c && since(frame, "last") ? c.committed_after - 1 : L - 1;
  const column = frame.k ? L + frame.k - 1 : newest;
  const most = frame.stage === "rewind" ? x(Math.min(c.target_kv.after, c.draft_kv?.after ?? Infinity)) - 4.8 : Infinity; // C = … stands left of its pointer
  const rewind = frame.stage === "rewind" ? (most + wayBack(x(c.target_kv.after), x(c.target_kv.written)).stop) / 2 : null;
  return { left: x(first) - 1, right: x(L + K + 1) + 1.6, at: rewind ?? (x(column) + x(column + 1)) / 2, most };
}

const NAMED = 4.5; // how wide "rewind 3" is

/** The name of a rewind's arrow: in the arrow where it has room, and never far from the pointer; else behind it.
 * `stop`: where both end.
 * @param {number} pointer  @param {number} from */
function wayBack(pointer, from) {
  const inside = from - pointer > NAMED + 1.5, middle = (from + pointer + 0.75 - NAMED) / 2;
  return inside ? { x: Math.min(middle, pointer + 4), stop: from + 0.3 } : { x: from + 0.3, stop: from + 0.3 + NAMED };
}

/** Where to scroll so that the step's columns show in a window `width` wide: at a column's edge where there is room. */
export function scrollFor(edge, { left, right, at, most }, width) {
  if (right - left > width) return Math.max(0, Math.min(at - width / 2, most));
  const want = Math.max(0, Math.min(left, Math.max(right - width, left - width * 0.4)));
  if (want <= edge[0]) return want;
  const column = columnAt(edge, want), next = edge[column] < want ? edge[column + 1] ?? want : want;
  return Math.min(left, next);
}

/** The token whose K and V a slot holds at the start of cycle `ci`, as a label.
 * @param {Trace} trace  @param {Index} m  @param {number} ci  @param {"target"|"draft"} which  @param {number} at */
export function slotLabel(trace, m, ci, which, at) {
  for (let i = Math.min(ci, trace.cycles.length) - 1; i >= 0; i--) {
    const c = trace.cycles[i], kv = cacheOf(c, which), j = at - c.committed_before;
    if (kv && at < kv.written && at >= kv.before) return j < 0 ? m.text[at] : m.drafts[i][j] ?? "";
  }
  return m.text[at] ?? "";
}

const cacheOf = (c, which) => (which === "target" ? c.target_kv : c.draft_kv);

/** One tape: every slot in [a, b) as valid, provisional, stale or free, with the token whose K and V it holds.
 * @param {Trace} trace  @param {Index} m  @param {Frame} frame  @param {"target"|"draft"} which  @param {number} a  @param {number} b */
export function tape(trace, m, frame, which, a, b) {
  const c = frame.stage === "prefill" ? undefined : trace.cycles[frame.cycle], kv = c ? cacheOf(c, which) : null;
  const L = c ? c.committed_before : trace.prompt.length, pointer = frame[which] ?? 0, done = kv && since(frame, "commit");
  const valid = Math.min(pointer, done ? kv.after : L), committed = done ? c.committed_after : L;
  const top = Math.max(pointer, c ? m.high[frame.cycle][which] : 0, done ? kv.written : 0), out = [];
  for (let at = a; at < b; at++) {
    const state = at < valid ? "valid" : at < pointer ? "provisional" : at < top ? "stale" : "free";
    const mine = state === "provisional" || (state === "stale" && done && at < kv.written);
    let label = "";
    if (mine) label = at < L ? m.text[at] : m.drafts[frame.cycle][at - L] ?? "";
    else if (state === "stale") label = slotLabel(trace, m, frame.cycle, which, at);
    else if (state === "free" && at < committed) label = "no KV";
    out.push({ at, state, label });
  }
  return out;
}

/** What is known of a paged cache's blocks in a step; null where the cache has none. The record tells the end of the
 * cycle: the table had the blocks that the rewind gives back until then, and none that were taken before the forward.
 * @param {Trace} trace  @param {Frame} frame */
export function blocksAt(trace, frame) {
  const c = frame.stage === "prefill" ? undefined : trace.cycles[frame.cycle], b = c?.blocks;
  if (!b) return null;
  const fed = since(frame, "target"), rewound = since(frame, "rewind"), whole = [...b.owned, ...[...b.freed].reverse()];
  const source = new Map(b.copied.map(([from, to]) => [to, from]));
  const earlier = whole.map((id) => source.get(id) ?? id).filter((id) => !b.taken.includes(id));
  const owned = rewound ? b.owned : fed ? whole : earlier;
  return {
    size: b.size, owned, shared: b.shared.filter((id) => owned.includes(id)), taken: fed ? b.taken : [], copied: fed ? b.copied : [],
    published: since(frame, "commit") ? b.published : [], freed: rewound ? b.freed : [],
  };
}

/** Everything drawn in the lanes for the columns [a, b). @returns {{items: Item[], lines: Line[]}}
 * @param {Trace} trace  @param {Index} m  @param {Frame} frame  @param {number} a  @param {number} b  @param {number|"last"} selected */
export function scene(trace, m, frame, a, b, selected) {
  const items = [], lines = [], c = frame.stage === "prefill" ? undefined : trace.cycles[frame.cycle];
  const L = c ? c.committed_before : trace.prompt.length, K = c ? c.proposed.length : 0;
  const committed = c && since(frame, "commit") ? c.committed_after : L;
  const x = (at) => m.edge[Math.max(0, Math.min(m.longest, at))], w = (at) => x(at + 1) - x(at), mid = (at) => x(at) + w(at) / 2;
  const add = (key, cls, at, y, more) => {
    if (at >= a && at < b) items.push({ key, cls, x: x(at) + 0.1, y, w: w(at) - 0.2, ...more });
  };
  const chip = (key, cls, at, y, label, glyph, more) =>
    add(key, "chip " + cls, at, y, { h: Y.chip, text: clip(label, COLUMNS), title: clip(label, 300), glyph, ...more });

  // The text: a token is pending until the next forward feeds it.
  const fed = frame.stage === "end" || (c && since(frame, "target") && !since(frame, "rewind"));
  for (let at = a; at < b; at++) add("n" + at, "ruler", at, Y.ruler, { text: String(at) });
  for (let at = a; at < Math.min(b, committed); at++) {
    const pending = at === committed - 1 && !fed, isNew = c && at >= L;
    const isLast = isNew && c.last !== null && at === c.committed_after - 1;
    const base = pending ? "pending" : at < trace.prompt.length ? "committed prompt" : "committed";
    const kind = isLast ? " " + c.last_kind : isNew ? " kept" : "";
    chip("t" + at, base + kind, at, Y.text, m.text[at], isLast ? GLYPH[c.last_kind] : isNew ? GLYPH.accepted : "");
    if (pending) add("pending", "tag mark", at, Y.pending, { text: "pending" });
  }
  if (!c) return withTapes();
  const drawn = L + c.accepted;
  if (frame.stage === "last") chip("t" + drawn, "drawn " + c.last_kind, drawn, Y.text, m.text[drawn], GLYPH[c.last_kind]);

  // The drafts, each at the position it hopes for.
  for (let j = 1; j <= K; j++) {
    const state = standing(c, frame, j), at = L + j - 1, key = "d" + frame.cycle + "." + j;
    if (!state) continue;
    const cls = state + (selected === j ? " selected" : "");
    chip(key, cls, at, Y.drafts, m.drafts[frame.cycle][j - 1], GLYPH[state] ?? "", { pick: j });
    add("dl" + j, "tag", at, Y.tag, { text: sub(j) });
  }
  if (!since(frame, "target")) return withTapes();

  // The rows: row i stands over the token that was fed, and points at the position it judges.
  const stop = c.decisions.find((d) => d.status === "rejected")?.position ?? 0;
  const open = !since(frame, "last") && !(frame.stage === "verdict" && frame.k === stop);
  if (open && !c.parents) add("slot", "chip open", L + K, Y.drafts, { h: Y.chip, text: K ? "bonus" : "next" });
  for (let i = 0; c.parents && i <= K; i++) {
    const now = frame.stage === "verdict" && rowOf(c, frame.k) === i ? " now" : "";
    add("row" + i, "row proposed" + now, L - 1 + i, Y.rows, { h: 1.5, text: "row " + i });
    if (!i) continue;
    const from = L - 1 + rowOf(c, i), to = L - 1 + i, ends = { x1: mid(from), y1: Y.rows, x2: mid(to) - 0.3, y2: Y.drafts + Y.chip + 0.12 };
    if (to >= a && from < b) lines.push({ key: "l" + i, cls: "link " + standing(c, frame, i) + (frame.k === i ? now : ""), ...ends });
  }
  for (let i = 0; !c.parents && i <= K; i++) {
    const at = L - 1 + i, now = frame.stage === "verdict" && frame.k === i + 1 ? " now" : "";
    const beyond = c.last_kind === "bonus" && since(frame, "last") ? "bonus" : open ? "proposed" : "unused";
    const state = i < K ? standing(c, frame, i + 1) : beyond;
    const to = i < K || open ? Y.drafts + Y.chip : state === "bonus" ? Y.text + Y.chip : 0;
    add("row" + i, "row " + state + now, at, Y.rows, { h: 1.5, text: (state === "bonus" ? "★ " : "") + "row " + i });
    const ends = { x1: mid(at), y1: Y.rows, x2: mid(at + 1) - 0.3, y2: to + 0.12 };
    if (to && at >= a - 1 && at < b) lines.push({ key: "l" + i, cls: "link " + state + now, ...ends });
  }
  return withTapes();

  // Both caches: slots under the tokens, the pointer at the first slot that is not computed, the way back as an arrow.
  function withTapes() {
    for (const which of /** @type {("target"|"draft")[]} */ (m.hasDraft ? ["target", "draft"] : ["target"])) {
      const y = Y[which], pointer = frame[which] ?? 0, kv = c && frame.stage === "rewind" ? cacheOf(c, which) : null;
      for (const { at, state, label } of tape(trace, m, frame, which, a, b)) {
        const text = clip(label, Math.floor((w(at) - 0.7) / 0.53));
        const title = `slot ${at}: ${state}` + (label ? ", " + clip(label, 60) : "");
        add(which + at, "cell " + state + (label === "no KV" ? " lacks" : ""), at, y, { h: Y.cell, text, title });
      }
      if (which === "target") borders();
      items.push({ key: "p" + which, cls: "pointer", x: x(pointer), y: y - 0.25, h: Y.cell + 0.5, text: "C = " + pointer });
      if (!kv || kv.written <= pointer) continue;
      const from = x(kv.written), low = y + Y.cell + 1.15;
      lines.push({ key: "r" + which, cls: "rewind", x1: from, y1: low, x2: x(pointer) + 0.75, y2: low });
      const name = wayBack(x(pointer), from).x;
      items.push({ key: "rl" + which, cls: "rewound" + (name < from ? " within" : ""), x: name, y: low - 0.7, w: NAMED, text: "rewind " + (kv.written - pointer) });
    }
    return { items, lines };
  }

  // Where a block of a paged cache begins, and its id.
  function borders() {
    const blocks = blocksAt(trace, frame);
    [...(blocks?.owned ?? []), ...[...(blocks?.freed ?? [])].reverse()].forEach((id, i) => {
      const from = Math.max(a, i * blocks.size), stop = Math.min(b, (i + 1) * blocks.size), room = x(stop) - x(from);
      if (from >= stop) return;
      const gone = i >= blocks.owned.length, more = gone ? " given back" : blocks.shared.includes(id) ? " shared" : "";
      const text = room > 7.5 ? `block ${id}${more}` : room > 3.6 ? `block ${id}` : String(id);
      const cls = "border" + (gone ? " gone" : "") + (from > i * blocks.size ? " within" : "");
      items.push({ key: "b" + i, cls, x: x(from), y: Y.target - 1.2, h: Y.cell + 1.4, text });
    });
  }
}
