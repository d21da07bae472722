/**
 * The cycle player: plays a Trace (see specdec_teach/trace.py) step by step, in a notebook or on a page.
 *
 * Three layers, each blind to the next: `index`, `scene`, `ledger`, `narrate` are pure functions from the trace to
 * plain data (lengths in em); `mount` turns that data into elements; the default export fits `mount` to anywidget.
 * Invariant: every number shown is in the trace, and what is drawn depends on (trace, step, selected position) alone.
 * It knows nothing of models, and it fetches nothing. Token texts enter the page as text nodes only.
 *
 * @typedef {{cycle: number, stage: string, k: number, target: number, draft: number|null}} Frame
 * @typedef {{key: string, cls: string, x: number, y: number, w?: number, h?: number, text?: string, glyph?: string,
 *   title?: string, pick?: number}} Item
 * @typedef {{key: string, cls: string, x1: number, y1: number, x2: number, y2: number}} Line
 */

import { blocksSentence, clip, columns, GLYPH, labels, list, num, pair, percent, plural, prose, quote, sub } from "./words.js";
import { button, el, icon, keyed, memory, onDark, option, put, svg, token } from "./elements.js";

export { columns, memory, num, pair };

const temperature = (trace) => trace.meta.sampling?.temperature ?? null;
const isGreedy = (trace) => temperature(trace) === 0;

// ---------------------------------------------------------------- the steps

/** Every step of the run, in order, with both pointers as they stand in it. @returns {Frame[]} */
export function frames(trace) {
  const out = [], cycles = trace.cycles, first = cycles[0];
  if (trace.prefill && !trace.dropped) {
    const { target, draft } = trace.prefill;
    out.push({ cycle: first ? 0 : -1, stage: "prefill", k: 0, target, draft: draft ?? null });
  }
  cycles.forEach((c, cycle) => {
    const t = c.target_kv, d = c.draft_kv, L = c.committed_before, K = c.proposed.length;
    const push = (stage, k, target, draft) => out.push({ cycle, stage, k, target, draft });
    push("start", 0, t.before, d ? d.before : null);
    if (d && d.written > d.before && L > d.before) push("catchup", 0, t.before, Math.min(L, d.written));
    for (let k = 1; k <= K; k++) {
      push("draft", k, t.before, d ? (k === K ? d.written : Math.min(d.written, Math.max(d.before, L + k - 1))) : null);
    }
    const high = d ? d.written : null;
    push("target", 0, t.written, high);
    const judged = c.decisions.filter((x) => x.status === "accepted" || x.status === "rejected");
    for (const x of judged) push("verdict", x.position, t.written, high);
    if (c.last !== null) push("last", 0, t.written, high);
    push("commit", 0, t.written, high);
    if (K || t.after !== t.written || (d && d.after !== d.written)) push("rewind", 0, t.after, d ? d.after : null);
  });
  const end = cycles.at(-1), target = end ? end.target_kv.after : trace.prefill?.target ?? 0;
  const draft = (end ? end.draft_kv?.after : trace.prefill?.draft) ?? null;
  out.push({ cycle: cycles.length - 1, stage: "end", k: 0, target, draft });
  return out;
}

const PAD = 3.8, NARROWEST = 3.5, WIDEST = 9, COLUMNS = 11;

/** Everything that depends on the trace alone: steps, committed ids, labels, column edges, high-water marks. */
export function index(trace) {
  const ids = [...trace.prompt], cycles = trace.cycles;
  const from = cycles.length ? cycles[0].committed_before : ids.length;
  while (ids.length < from) ids.push(null);
  for (const c of cycles) ids.push(...c.emitted);
  const text = labels(ids, trace.pieces);
  let longest = ids.length;
  const drafts = cycles.map((c) => {
    longest = Math.max(longest, c.committed_before + c.proposed.length + 1);
    const L = c.committed_before, tail = ids.slice(Math.max(0, L - 4), L);
    return labels([...tail, ...c.proposed], trace.pieces).slice(tail.length);
  });
  const size = new Array(longest).fill(NARROWEST);
  const widen = (at, label, extra) => {
    size[at] = Math.max(size[at], Math.min(WIDEST, Math.min(COLUMNS, columns(label.slice(0, 40))) * 0.61 + extra));
  };
  text.forEach((label, i) => widen(i, label, 1.3));
  cycles.forEach((c, i) => drafts[i].forEach((label, j) => widen(c.committed_before + j, label, 2.4)));
  cycles.forEach((c) => c.last !== null && widen(c.committed_after - 1, text[c.committed_after - 1], 2.4));
  const edge = [PAD];
  for (const w of size) edge.push(edge.at(-1) + w);
  let t = trace.prefill?.target ?? 0, d = trace.prefill?.draft ?? 0;
  let sums = { cycles: 0, emitted: 0, accepted: 0, judged: 0, seconds: 0 };
  const high = [], totals = [sums];
  for (const c of cycles) {
    high.push({ target: t, draft: d });
    t = Math.max(t, c.target_kv.written);
    d = Math.max(d, c.draft_kv?.written ?? 0);
    const s = c.seconds;
    sums = {
      cycles: sums.cycles + 1, emitted: sums.emitted + c.emitted.length, accepted: sums.accepted + c.accepted,
      judged: sums.judged + c.proposed.length - c.stop_cut, seconds: sums.seconds + (s ? s.draft + s.target + s.verify + s.other : 0),
    };
    totals.push(sums);
  }
  high.push({ target: t, draft: d });
  const hasDraft = trace.prefill?.draft != null || cycles.some((c) => c.draft_kv);
  return { frames: frames(trace), ids, text, drafts, edge, high, totals, hasDraft, longest };
}

const ORDER = ["prefill", "start", "catchup", "draft", "target", "verdict", "last", "commit", "rewind", "end"];
const since = (frame, stage) => ORDER.indexOf(frame.stage) >= ORDER.indexOf(stage);

/** Which position's numbers a step is about: 1…γ, "last" for the bonus row, 0 for the text. */
export function focus(trace, frame) {
  const c = trace.cycles[frame.cycle];
  if (!c || frame.stage === "prefill") return 0;
  if (frame.stage === "draft" || frame.stage === "verdict") return frame.k;
  if (frame.stage === "target") return c.proposed.length ? 1 : 0;
  if (!since(frame, "last") || frame.stage === "end") return 0;
  if (c.last_kind === "bonus") return "last";
  return c.decisions.find((x) => x.status === "rejected")?.position ?? c.accepted;
}

/** What is known about draft j in a step: "drafted", "judged" or a final status; null before it is drafted. */
export function standing(c, frame, j) {
  if (frame.stage === "draft" ? j > frame.k : !since(frame, "draft")) return null;
  const { status } = c.decisions[j - 1];
  if (status === "cut") return since(frame, "commit") ? "cut" : "proposed";
  if (status === "unused") {
    const stop = c.decisions.find((x) => x.status === "rejected")?.position ?? 0;
    return since(frame, "last") || (frame.stage === "verdict" && frame.k >= stop) ? "unused" : "proposed";
  }
  return since(frame, "last") || (frame.stage === "verdict" && frame.k >= j) ? status : "proposed";
}

// ---------------------------------------------------------------- the picture (all lengths in em)

export const Y = {
  pending: 0, ruler: 1.15, text: 2.55, tag: 4.7, drafts: 6.1, rows: 9.8, target: 12.5, draft: 16.9, cell: 1.7, chip: 2.1,
};
export const height = (m) => (m.hasDraft ? Y.draft : Y.target) + Y.cell + 2.2;

/** Which columns a step must show, and which one it is about. @returns {{left: number, right: number, at: number}} */
export function extent(trace, m, frame) {
  const c = frame.stage === "prefill" ? undefined : trace.cycles[frame.cycle];
  const L = c ? c.committed_before : trace.prompt.length, K = c ? c.proposed.length : 0;
  const x = (column) => m.edge[Math.max(0, Math.min(m.longest, column))];
  const first = Math.min(L - 1, c?.draft_kv?.before ?? L - 1), newest = c && since(frame, "last") ? c.committed_after - 1 : L - 1;
  const column = frame.k ? L + frame.k - 1 : newest;
  const rewind = frame.stage === "rewind" ? (x(c.target_kv.after) + x(c.target_kv.written)) / 2 + 2 : null;
  return { left: x(first) - 1, right: x(L + K + 1) + 1.6, at: rewind ?? (x(column) + x(column + 1)) / 2 };
}

/** Where to scroll so that the step's columns show in a window `width` wide: at a column's edge where there is room. */
export function scrollFor(edge, { left, right, at }, width) {
  if (right - left > width) return Math.max(0, at - width / 2);
  const want = Math.max(0, Math.min(left, Math.max(right - width, left - width * 0.4)));
  return want > edge[0] ? Math.min(left, edge.find((x) => x >= want) ?? want) : want;
}

/** The token whose K and V a slot holds at the start of cycle `ci`, as a label. */
export function slotLabel(trace, m, ci, which, at) {
  for (let i = Math.min(ci, trace.cycles.length) - 1; i >= 0; i--) {
    const c = trace.cycles[i], kv = cacheOf(c, which), j = at - c.committed_before;
    if (kv && at < kv.written && at >= kv.before) return j < 0 ? m.text[at] : m.drafts[i][j] ?? "";
  }
  return m.text[at] ?? "";
}

const cacheOf = (c, which) => (which === "target" ? c.target_kv : c.draft_kv);

/** One tape: every slot in [a, b) as valid, provisional, stale or free, with the token whose K and V it holds. */
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
 * cycle: the table had the blocks that the rewind gives back until then, and none that were taken before the forward. */
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

/** Everything drawn in the lanes for the columns [a, b). @returns {{items: Item[], lines: Line[]}} */
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
  if (open) add("slot", "chip open", L + K, Y.drafts, { h: Y.chip, text: K ? "bonus" : "next" });
  for (let i = 0; i <= K; i++) {
    const at = L - 1 + i, now = frame.stage === "verdict" && frame.k === i + 1 ? " now" : "";
    const beyond = c.last_kind === "bonus" && since(frame, "last") ? "bonus" : open ? "proposed" : "unused";
    const state = i < K ? standing(c, frame, i + 1) : beyond;
    const to = i < K || open ? Y.drafts + Y.chip : state === "bonus" ? Y.text + Y.chip : 0;
    add("row" + i, "row " + state + now, at, Y.rows, { h: 1.5, text: "row " + i });
    const ends = { x1: mid(at), y1: Y.rows, x2: mid(at + 1) - 0.3, y2: to + 0.12 };
    if (to && at >= a - 1 && at < b) lines.push({ key: "l" + i, cls: "link " + state + now, ...ends });
  }
  return withTapes();

  // Both caches: slots under the tokens, the pointer at the first slot that is not computed, the way back as an arrow.
  function withTapes() {
    for (const which of m.hasDraft ? ["target", "draft"] : ["target"]) {
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
      items.push({ key: "rl" + which, cls: "rewound", x: from + 0.3, y: low - 0.7, text: "rewind " + (kv.written - pointer) });
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

// ---------------------------------------------------------------- the ledger

/** The numbers of one position, as far as the step knows them; null where there is nothing to show yet. */
export function ledger(trace, m, frame, selected) {
  const c = trace.cycles[frame.cycle];
  if (!c || !selected || frame.stage === "prefill") return null;
  const name = (id, at) => (id === c.proposed[at - 1] && m.drafts[frame.cycle][at - 1]) || labels([id], trace.pieces)[0];
  if (selected === "last") {
    if (!c.last_top || !since(frame, "last")) return null;
    const shown = c.last_top.tokens.slice(0, 7), has = shown.some(([id]) => id === c.last);
    const late = has ? [] : c.last_top.tokens.filter(([id]) => id === c.last);
    const rows = [...shown, ...late].map(([id, p]) => ({ label: name(id, 0), p, role: id === c.last ? "drawn" : "" }));
    const rest = 1 - rows.reduce((s, r) => s + r.p, 0);
    const label = m.text[c.committed_after - 1];
    return { kind: "last", row: c.proposed.length, label, rows, rest: { p: Math.max(0, rest) }, last: c.last_kind };
  }
  const d = c.decisions[selected - 1], state = d ? standing(c, frame, selected) : null;
  if (!d || !state) return null;
  const mine = m.drafts[frame.cycle][selected - 1], place = { position: selected, row: selected - 1, label: mine };
  if (d.p === null) return { kind: "decision", ...place, state, known: false, unknown: true, d, rows: [], rest: {} };
  const known = since(frame, "target"), drawn = d.status === "rejected" && since(frame, "last") ? c.last : null;
  const must = new Set([d.token, known && d.status === "rejected" ? c.last : d.token]);
  const weight = (r) => (known ? Math.max(r.p, r.q) : r.q);
  const ranked = [...d.bars].sort((s, t) => weight(t) - weight(s) || s.token - t.token);
  const room = 6 - ranked.filter((r) => must.has(r.token)).length;
  let taken = 0;
  const role = (id) => (id === d.token ? "proposed" : id === drawn ? "drawn" : ""), some = known && d.alpha < 1 - 1e-12;
  const rows = ranked.filter((r) => must.has(r.token) || (weight(r) > 0 && taken++ < room)).map((r) => ({
    label: name(r.token, selected), role: role(r.token), q: r.q,
    p: known ? r.p : null, min: known ? Math.min(r.p, r.q) : null, residual: some ? r.residual : null,
  }));
  const left = (key, whole) => Math.max(0, whole - rows.reduce((s, r) => s + r[key], 0));
  const rest = {
    q: left("q", 1), p: known ? left("p", 1) : null, min: known ? left("min", d.alpha) : null,
    residual: some ? left("residual", 1) : null,
  };
  return { kind: "decision", ...place, state, known, d, rows, rest };
}

/** The acceptance test in words: what was compared with what. */
export function test(trace, m, frame, d) {
  const c = trace.cycles[frame.cycle], ok = d.accepted, y = quote(m.drafts[frame.cycle][d.position - 1]);
  const forced = d.forced ? " (forced)" : "";
  if (d.p === null) return "p, q and u are unknown";
  if (d.u === null || d.accept_probability === null) {
    const other = ok || c.last === null ? null : quote(m.text[c.committed_before + c.accepted]);
    const whose = isGreedy(trace) ? "the target's likeliest token" : "the target's own draw";
    if (ok) return `${whose} is ${y} too` + forced;
    return (other ? `${whose} is ${other}, not ${y}` : `${whose} is not ${y}`) + forced;
  }
  const [u, a] = pair(d.u, d.accept_probability);
  if (trace.meta.verify !== "rejection") return `u = ${u}, acceptance probability ${a}` + forced;
  if (ok && d.accept_probability >= 1) return `p ${num(d.p)} ≥ q ${num(d.q)}, so any u would do (u = ${u})` + forced;
  return `u = ${u} ${d.u < d.accept_probability ? "<" : "≥"} p/q = ${a}` + forced;
}

// ---------------------------------------------------------------- the sentence

const ENDS = {
  eos: "ends with the end-of-text token",
  stop: "ends at a stop string",
  length: "ends at the token limit",
  context: "ends because the context is full",
};

/** What each stage says. `at(i)` quotes the committed token i, `d(k)` names draft k, L and K count tokens and drafts. */
const SAY = {
  prefill({ trace, at }) {
    const { target, draft } = trace.prefill;
    const all = draft === target ? "both models" : `the target (and ${draft} to the draft)`;
    const who = draft === null ? "the target" : all;
    return (
      `Prefill feeds the first ${plural(target, "prompt token")} to ${who}. ` +
      `The last one, ${at(trace.prompt.length - 1)}, is pending: it is committed, but no cache holds its K and V yet.`
    );
  },

  start({ frame, c, L, K, at }) {
    const lacks = c.draft_kv && K ? L - c.draft_kv.before : 0;
    const more = lacks > 1 ? ` The draft stands at ${c.draft_kv.before}: it lacks ${plural(lacks, "token")}.` : "";
    const head = `Cycle ${c.index} starts with ${L} committed tokens; the target has computed ${frame.target}`;
    return `${head}, and ${at(L - 1)} is pending.${more}`;
  },

  catchup({ frame, c, at }) {
    const from = c.draft_kv.before;
    const fed = Array.from({ length: frame.draft - from }, (_, i) => from + i);
    const what = fed.length > 6 ? plural(fed.length, "committed token") : list(fed.map(at));
    const move = `its pointer moves from ${from} to ${frame.draft}`;
    return `The draft catches up with the committed text: it feeds ${what}, and ${move}.`;
  },

  draft({ frame, c, K, d }) {
    const fed = frame.k > 1 && c.draft_kv ? `The draft feeds ${sub(frame.k - 1)} and` : "The draft";
    const { q } = c.decisions[frame.k - 1];
    const head = `${fed} proposes ${d(frame.k)}, ${q === null ? "with a q that is unknown" : `to which it gives q = ${num(q)}`}.`;
    return head + (frame.k === K && c.draft_kv ? ` It has not fed ${sub(K)} itself: its pointer stops at ${frame.draft}.` : "");
  },

  target({ frame, c, L, K, at }) {
    const from = c.target_kv.before, slots = plural(frame.target - from, "new KV slot");
    const over = K ? `${at(L - 1)} and ${plural(K, "draft")}` : `${at(L - 1)} alone`;
    const rows = plural(K + 1, "row") + " of logits", move = `its pointer jumps from ${from} to ${frame.target}`;
    return `The target runs one forward over ${over}: ${rows} and ${slots} at once; ${move}.`;
  },

  verdict({ trace, m, frame, c, d }) {
    const x = c.decisions[frame.k - 1];
    const head = `Row ${frame.k - 1} judges ${d(frame.k)}: ${test(trace, m, frame, x)}.`;
    if (x.accepted) return `${head} Accepted.`;
    const behind = c.decisions.filter((y) => y.status === "unused").length;
    if (!behind) return `${head} Rejected.`;
    const rest = behind === 1 ? "the draft behind it is" : `the ${behind} drafts behind it are`;
    return `${head} Rejected; ${rest} discarded unseen.`;
  },

  last({ trace, c, K, at }) {
    const y = at(c.committed_after - 1);
    if (c.last_kind === "bonus" && K) return `All drafts are accepted, so row ${K} gives one token more: the bonus ${y}.`;
    if (c.last_kind === "bonus") return `Nothing was proposed: row 0 gives the next token, ${y}, as in plain decoding.`;
    const bar = c.decisions.find((x) => x.status === "rejected")?.bars.find((x) => x.token === c.last);
    if (isGreedy(trace) || !bar) return `The target puts ${y} there instead: the correction.`;
    if (c.degenerate_residual) return `The residual is empty to the last digit, so the correction ${y} is drawn from p itself.`;
    if (c.last_from === "p") return `The correction ${y} is drawn from the target's own p, where its probability is ${num(bar.p)}.`;
    return `The correction ${y} is drawn from the residual [p − q]₊, where its share is ${num(bar.residual)}.`;
  },

  commit({ c, L }) {
    const last = { bonus: "the bonus", correction: "the correction" }[c.last_kind], drafts = plural(c.accepted, "draft");
    const alone = c.last_kind === "bonus" ? "its one token" : `${last ?? "nothing"} alone`;
    const what = !c.accepted ? alone : last ? `${drafts} and ${last}` : drafts;
    const cut = `${plural(c.stop_cut, "draft")} behind it ${c.stop_cut === 1 ? "is" : "are"} cut`;
    const head = `The cycle commits ${what}: the text grows by ${c.emitted.length}, from ${L} to ${c.committed_after} tokens.`;
    return head + (c.stop_cut ? ` The text ends here: ${cut}.` : "");
  },

  rewind({ trace, frame, c, K, at }) {
    const t = c.target_kv, r = c.draft_kv ?? t, moves = [];
    const over = trace.finish_reason && frame.cycle === trace.cycles.length - 1;
    const next = at(c.committed_after - 1) + (over ? " needs no KV: the run is over" : " is pending");
    if (t.written > t.after) moves.push(`the target from ${t.written} to ${t.after}`);
    if (c.draft_kv && r.written > r.after) moves.push(`the draft from ${r.written} to ${r.after}`);
    if (!moves.length) {
      const lacks = r.after < t.after && !over ? `, and the draft also lacks ${sub(K)}` : "";
      const what = c.last_kind === "bonus" ? "bonus" : "token";
      return `Nothing to rewind: every slot holds a committed token. The ${what} ${next}${lacks}.`;
    }
    const low = Math.min(t.after, r.after), high = Math.max(t.written, r.written);
    const slots = high - low > 1 ? `Slots ${low}–${high - 1} stay` : `Slot ${low} stays`;
    return `Rewind: ${list(moves)}. ${slots} in memory, unreachable until overwritten; ${next}.`;
  },

  end({ trace, m }) {
    const s = m.totals.at(-1), why = ENDS[trace.finish_reason];
    if (!s.cycles) return why ? `The run has no cycle: it ${why}.` : "The run has no cycle yet.";
    const speed = `${(s.emitted / s.cycles).toFixed(2)} tokens per cycle`;
    const rate = s.judged ? ` ${s.accepted} of ${s.judged} drafts were accepted (${percent(s.accepted / s.judged)}).` : "";
    return `The run ${why ?? "was left"} after ${plural(s.cycles, "cycle")} and ${plural(s.emitted, "token")}: ${speed}.${rate}`;
  },
};

/** One sentence or two about a step, with its numbers. @param {Frame} frame */
export function narrate(trace, m, frame) {
  const c = trace.cycles[frame.cycle];
  const at = (i) => quote(m.text[i]), d = (k) => `${sub(k)} = ${quote(m.drafts[frame.cycle][k - 1])}`;
  return SAY[frame.stage]({ trace, m, frame, c, L: c?.committed_before, K: c?.proposed.length, at, d });
}

// ---------------------------------------------------------------- elements

const STAGES = { catchup: "draft catches up", target: "target forward", end: "" };
const SPEEDS = [0.5, 1, 2, 4], TICK = 1300;
const HELP = [
  ["← →", "step"], ["Shift ← →", "cycle"], ["Home End", "first, last step"], ["Space", "play or pause"],
  ["R", "next rejection"], ["1 … 9", "a draft in the ledger"], ["P", "large type"],
  ["?", "this help"], ["Esc", "leave the player"],
];
const LEGEND = { valid: "valid", provisional: "provisional: not committed", stale: "stale: unreachable", free: "free" };
const NAMES = { unused: "discarded" };

function drawItem(node, item) {
  node.className = "item " + item.cls;
  node.style.transform = `translate(${item.x.toFixed(2)}em, ${item.y}em)`;
  if (item.w) node.style.width = item.w.toFixed(2) + "em";
  if (item.h) node.style.height = item.h + "em";
  node.title = item.title ?? "";
  if (item.pick) node.dataset.pick = String(item.pick);
  const inside = [];
  if (item.glyph) inside.push(el("span", "glyph", item.glyph));
  if (item.text) inside.push(/^(chip|cell)/.test(item.cls) ? token(item.text) : el("span", "", item.text));
  node.replaceChildren(...inside);
}

function drawLine(node, item) {
  const { x1, y1, x2, y2 } = item, along = item.cls === "rewind";
  node.setAttribute("class", item.cls);
  const a = Math.atan2(y2 - y1, x2 - x1), tip = 0.42, spread = 0.5;
  const point = (x, y) => `${x.toFixed(3)} ${y.toFixed(3)}`, to = point(x2, y2);
  const head = [a + spread, a - spread].map((t) => point(x2 - tip * Math.cos(t), y2 - tip * Math.sin(t)));
  const start = along ? `M${point(x1, y1 - 0.3)}v.6` : "";
  node.setAttribute("d", `M${point(x1, y1)}L${to}M${head[0]}L${to}L${head[1]}${start}`);
}

const bar = (cls, share) => {
  const node = el("i", cls);
  node.style.width = Math.max(0, Math.min(100, share * 100)).toFixed(2) + "%";
  return node;
};

const UNJUDGED = { proposed: "not judged yet", cut: "behind the end of the text", unused: "discarded: never judged" };
const UNKNOWN = "p, q and u are unknown: whoever ran this did not record them";
const PARTS = [["min", "both"], ["excess-p", "p only"], ["excess-q over", "q only"]];

/** The ledger's elements for its data; `test` is the acceptance test in words. */
function drawLedger(data, words) {
  const last = data.kind === "last", { rows, rest } = data, every = [...rows, { label: "rest", ...rest, role: "rest" }];
  const top = Math.max(...every.map((r) => Math.max(r.p ?? 0, r.q ?? 0)), 1e-9);
  const most = Math.max(...every.map((r) => r.residual ?? 0), 1e-9);
  const mark = last ? data.last : data.state, name = last ? (data.row ? "bonus" : "next token") : NAMES[mark] ?? mark;
  const verdict = el("span", "verdict " + mark, [GLYPH[mark], name].filter(Boolean).join(" "));
  const title = el("h3", "", last ? verdict : sub(data.position), token(clip(data.label, 24)), last ? "" : verdict);
  title.append(el("span", "row-name", "row " + data.row));
  const head = [title];
  if (data.unknown) return [title, el("p", "quiet", UNKNOWN)];
  if (!last && data.known) {
    const { d } = data, strips = el("div", "strips"), judged = data.state === "accepted" || data.state === "rejected";
    const testStrip = el("div", "strip test"), t = d.accept_probability;
    testStrip.append(el("p", "", judged ? words : UNJUDGED[data.state]));
    if (judged && d.u !== null && t !== null) {
      const axis = el("div", "axis", bar("accept", t), bar("reject", 1 - t)), u = el("b", "u", el("span", "", "u"));
      u.style.left = (d.u * 100).toFixed(2) + "%";
      axis.append(u);
      testStrip.append(axis);
    } else if (judged) testStrip.append(el("div", "axis", d.accepted ? bar("accept", 1) : bar("reject", 1)));
    else testStrip.append(el("div", "axis none"));
    const beta = el("span", "beta", `reject β = ${num(Math.max(0, 1 - d.alpha))}`);
    const mass = el("div", "strip mass", el("p", "", `accept α = ${num(d.alpha)}`, beta));
    mass.append(el("div", "axis", bar("accept", d.alpha), bar("reject", 1 - d.alpha)));
    strips.append(testStrip, mass);
    head.push(strips);
  }
  const table = el("table", last ? "last" : ""), thead = el("tr");
  for (const name of last ? ["token", "", "p"] : ["token", "p over q", "p", "q", "min", "residual"]) {
    const th = el("th", name === "" || name === "p over q" ? "plot" : name, name);
    th.scope = "col";
    if (name === "p over q" && data.known) th.append(...PARTS.map(([cls, text]) => el("span", "part", el("i", cls), text)));
    thead.append(th);
  }
  table.append(el("thead", "", thead));
  const body = el("tbody");
  for (const r of every) {
    const name = r.role === "rest" ? el("span", "quiet", "rest") : token(clip(r.label, 14)), label = el("th", "name", name);
    label.scope = "row";
    const sign = r.role === "drawn" ? (last ? data.last : "correction") : r.role === "proposed" ? data.state : "";
    if (GLYPH[sign]) label.prepend(el("span", "glyph " + sign, GLYPH[sign]));
    const plot = el("td", "plot"), p = r.p ?? 0, q = r.q ?? 0, min = r.min ?? 0;
    if (last) plot.append(el("div", "bars", bar("mass-p", p / top)));
    else {
      if (data.known) plot.append(el("div", "bars", bar("min", min / top), bar("excess-p", (p - min) / top)));
      if (data.known) plot.append(el("div", "bars", bar("min", min / top), bar("excess-q over", (q - min) / top)));
      else plot.append(el("div", "bars", bar("excess-q", q / top)));
    }
    const cells = last ? [num(r.p)] : [num(r.p), num(r.q), num(r.min)];
    const tr = el("tr", r.role, label, plot, ...cells.map((v) => el("td", "n", v)));
    const share = el("div", "bars", bar("residual", (r.residual ?? 0) / most));
    if (!last) tr.append(el("td", "n residual", share, el("span", "", num(r.residual))));
    body.append(tr);
  }
  table.append(body);
  return [...head, table];
}

/**
 * Build the player inside `host` and keep it equal to the store. Keys: trace, step, status, can_rerun, request.
 * @param {HTMLElement} host  @param {import("./elements.js").Store} store  @returns {() => void} takes everything away again
 */
export function mount(host, store) {
  let trace, m, frame, at = 0, picked = null; // what is drawn
  let playing = 0, speed = 1, saving = 0, asked = 0, waiting = 0; // timers and requests
  let ledgerKey = "", sideKey = "", aim = -1; // what stands already
  const offs = [];
  const root = el("section", "specdec-player");
  root.tabIndex = 0;
  root.setAttribute("aria-label", "Speculative decoding, step by step; press ? for the keys");
  root.dataset.lmSuppressShortcuts = "true";
  const dark = () => { root.dataset.theme = onDark(host) ? "dark" : "light"; };

  // header and controls
  const cycleName = el("strong", "cycle"), stageName = el("span", "stage");
  const facts = el("span", "facts"), badges = el("span", "badges");
  const go = (i) => { stop(); show(i); };
  const hop = (d) => go(cycleStep(d));
  const playButton = button("play", "Play (space)", () => (playing ? stop() : play()));
  const scrub = el("input", "scrub");
  Object.assign(scrub, { type: "range", min: "0", step: "1", value: "0" });
  scrub.setAttribute("aria-label", "step");
  scrub.addEventListener("input", () => go(+scrub.value));
  const speedPick = el("select", "speed", ...SPEEDS.map((s) => option(String(s), s + "×")));
  speedPick.value = "1";
  speedPick.setAttribute("aria-label", "speed");
  speedPick.addEventListener("change", () => { speed = +speedPick.value; root.focus({ preventScroll: true }); });
  const help = el("div", "keys", el("dl", "", ...HELP.flatMap(([k, what]) => [el("dt", "", k), el("dd", "", what)])));
  help.hidden = true;
  const helpButton = button("help", "Keys (?)", () => toggleHelp());
  const rejectButton = button("reject", "Next rejection (R)", () => go(nextRejection()));
  const controls = el(
    "div", "controls",
    button("prev-cycle", "Previous cycle (Shift ←)", () => hop(-1)),
    button("prev", "Previous step (←)", () => go(at - 1)),
    playButton,
    button("next", "Next step (→)", () => go(at + 1)),
    button("next-cycle", "Next cycle (Shift →)", () => hop(1)),
    scrub, rejectButton, speedPick, helpButton,
  );
  const reject = el("select"), live = el("label", "live", "reject at position ", reject), status = el("p", "status");
  status.setAttribute("role", "status");
  reject.addEventListener("change", () => {
    stop();
    store.set("request", { reject_at: reject.value === "" ? null : +reject.value, cycle: frame.cycle, n: ++asked });
    put(status, "the engine runs again…");
    root.focus({ preventScroll: true });
    clearTimeout(waiting);
    waiting = setTimeout(() => put(status, "no answer from the kernel yet: if it was restarted, run this cell again"), 20000);
  });

  // lanes
  const names = el("div", "names"), strip = el("div", "strip-lanes"), pane = el("div", "pane", strip);
  const lines = svg("svg", { class: "lines", "aria-hidden": "true" });
  pane.setAttribute("role", "img");
  const items = el("div", "items");
  strip.append(lines, items);
  const drawItems = keyed(items, () => el("div"), drawItem), drawLines = keyed(lines, () => svg("path", {}), drawLine);
  const marks = Object.entries(GLYPH).map(([cls, glyph]) => el("span", "", el("span", "glyph " + cls, glyph), NAMES[cls] ?? cls));
  const slots = Object.entries(LEGEND).map(([cls, text]) => el("span", "", el("i", "cell " + cls), text));
  const legend = el("div", "legend", ...slots, el("span", "marks", ...marks));
  items.addEventListener("click", (event) => {
    const pick = event.target.closest("[data-pick]")?.dataset.pick;
    if (pick) select(+pick);
  });
  const words = el("p", "narration"), blockLine = el("p", "blocks"), ledgerBox = el("div", "ledger"), side = el("div", "side");
  words.setAttribute("aria-live", "polite");
  root.append(
    el("header", "", cycleName, stageName, facts, badges), controls, live, status,
    el("div", "lanes", names, pane), legend, words, blockLine, el("div", "below", ledgerBox, side), help,
  );
  host.append(root);

  const em = () => parseFloat(getComputedStyle(root).fontSize) || 14;
  const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

  function load() {
    trace = store.get("trace");
    onStatus();
    m = index(trace);
    picked = null;
    ledgerKey = sideKey = "";
    aim = -1;
    scrub.max = String(m.frames.length - 1);
    drawItems([]);
    drawLines([]);
    const total = m.edge.at(-1) + 11, tall = height(m);
    strip.style.width = total + "em";
    strip.style.height = tall + "em";
    lines.setAttribute("viewBox", `0 0 ${total} ${tall}`);
    lines.style.cssText = `width:${total}em;height:${tall}em`;
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
    const gamma = Math.max(trace.meta.gamma, ...trace.cycles.map((c) => c.proposed.length)), value = trace.meta.forced;
    const places = Array.from({ length: gamma }, (_, i) => option(String(i + 1), String(i + 1)));
    reject.replaceChildren(option("", "–"), option("0", "accept all"), ...places);
    reject.value = Number.isInteger(value) ? String(value) : "";
    const flags = { true: [], false: ["not lossless"] }[trace.meta.lossless] ?? ["lossless or not is unknown"];
    if (Number.isInteger(value)) flags.unshift(value ? `forced: reject at ${value}` : "forced: accept all");
    badges.replaceChildren(...flags.map((text) => el("span", "badge", text)));
    show(Math.min(store.get("step") ?? 0, m.frames.length - 1), true);
  }

  function show(i, fresh) {
    at = Math.max(0, Math.min(m.frames.length - 1, Math.round(i)));
    frame = m.frames[at];
    picked = null;
    if (!fresh || store.get("step") !== at) save();
    draw();
  }

  function save() {
    clearTimeout(saving);
    saving = setTimeout(() => { if (store.get("step") !== at) store.set("step", at); }, playing ? 400 : 60);
  }

  function draw() {
    const c = trace.cycles[frame.cycle], prefill = frame.stage === "prefill";
    root.dataset.cycle = c ? String(c.index) : "";
    root.dataset.stage = frame.stage;
    root.dataset.step = String(at);
    root.dataset.targetPointer = String(frame.target);
    root.dataset.draftPointer = frame.draft === null ? "" : String(frame.draft);
    const firstIndex = trace.cycles[0]?.index ?? 0, lastIndex = trace.cycles.at(-1)?.index ?? 0;
    put(cycleName, prefill ? "before cycle " + firstIndex : frame.stage === "end" ? "end" : "cycle " + c.index);
    const drawn = c?.last_kind === "correction" ? "correction" : c?.proposed.length ? "bonus" : "next token";
    put(stageName, frame.stage === "last" ? drawn : STAGES[frame.stage] ?? frame.stage);
    const gamma = c ? c.proposed.length : trace.meta.gamma;
    const span = trace.cycles.length === 1 ? "1 cycle" : `cycles ${firstIndex}–${lastIndex}`;
    const heat = isGreedy(trace) ? "greedy" : temperature(trace) === null ? "T unknown" : "T = " + Number(temperature(trace));
    put(facts, [span, `γ = ${gamma}`, heat, trace.meta.verify + " rule"].join("  ·  "));
    scrub.value = String(at);
    scrub.setAttribute("aria-valuetext", cycleName.textContent + ", " + stageName.textContent);
    const sentence = narrate(trace, m, frame);
    words.setAttribute("aria-live", playing ? "off" : "polite");
    put(words, sentence);
    pane.setAttribute("aria-label", sentence);
    const blocks = blocksAt(trace, frame);
    blockLine.hidden = !blocks;
    put(blockLine, blocks ? blocksSentence(blocks) : "");
    follow();
    drawStrip();
    const chosen = picked ?? focus(trace, frame), key = [frame.cycle, chosen, ORDER.indexOf(frame.stage), frame.k].join();
    if (key !== ledgerKey) {
      const data = ledger(trace, m, frame, chosen);
      ledgerBox.replaceChildren(...(data ? drawLedger(data, data.d ? test(trace, m, frame, data.d) : "") : drawText()));
      ledgerKey = key;
    }
    drawSide(c);
  }

  function follow() {
    const unit = em(), want = Math.round(scrollFor(m.edge, extent(trace, m, frame), (pane.clientWidth || 900) / unit) * unit);
    const jump = aim < 0 || still() || Math.abs(want - aim) > 3000;
    if (want !== aim) pane.scrollTo({ left: want, behavior: jump ? "auto" : "smooth" });
    aim = want;
  }

  function drawStrip() {
    const unit = em(), left = pane.scrollLeft / unit, right = left + (pane.clientWidth || 900) / unit;
    const ahead = aim / unit, low = Math.min(left, ahead) - 8, high = Math.max(right, ahead + right - left) + 8;
    let a = 0, b = m.longest;
    if (high - low < 400) {
      while (a < m.longest && m.edge[a + 1] < low) a++;
      b = a;
      while (b < m.longest && m.edge[b] < high) b++;
    }
    const chosen = picked ?? focus(trace, frame), view = scene(trace, m, frame, a, b, chosen);
    drawItems(view.items);
    drawLines(view.lines);
  }

  /** Where there is no proposal to judge: the text as it reads. */
  function drawText() {
    const c = frame.stage === "prefill" ? null : trace.cycles[frame.cycle], prompt = trace.prompt.length;
    const upto = !c ? prompt : frame.stage === "end" ? c.committed_after : c.committed_before;
    const title = el("h3", "", "the text", el("span", "row-name", plural(upto, "token") + `, ${upto - prompt} of them new`));
    const fresh = prose(m.ids.slice(prompt, upto), trace.pieces);
    const before = prose(m.ids.slice(0, prompt), trace.pieces, Math.max(1, 600 - fresh.length));
    return [title, el("p", "prose", el("span", "quiet", before), fresh)];
  }

  function drawSide(c) {
    const done = since(frame, "commit"), key = [frame.cycle, done, frame.stage === "prefill"].join();
    const s = m.totals[c ? frame.cycle + (done ? 1 : 0) : 0];
    if (key === sideKey) return;
    sideKey = key;
    const parts = [];
    if (c?.seconds && frame.stage !== "prefill") {
      const shares = Object.entries(c.seconds), sum = shares.reduce((n, [, v]) => n + v, 0);
      const ms = (v) => (v * 1000).toFixed(v < 0.01 ? 2 : 1);
      const axis = el("div", "axis time", ...shares.map(([name, v]) => bar("t-" + name, sum ? v / sum : 0)));
      parts.push(el("h3", "", "time of this cycle", el("span", "n", ms(sum) + " ms")), axis,
        el("ul", "times", ...shares.map(([name, v]) => el("li", "", el("i", "key t-" + name), name, el("span", "n", ms(v))))));
    }
    const sums = [
      ["cycles", s.cycles], ["tokens", s.emitted],
      ["tokens per cycle", s.cycles ? (s.emitted / s.cycles).toFixed(2) : "–"],
      ["accepted drafts", s.judged ? `${s.accepted} of ${s.judged}` : "–"],
      ["acceptance rate", s.judged ? percent(s.accepted / s.judged) : "–"],
    ];
    parts.push(el("h3", "", trace.dropped ? `since cycle ${trace.cycles[0]?.index ?? 0}` : "so far"));
    const line = ([name, value]) => el("div", "", el("dt", "", name), el("dd", "", String(value)));
    parts.push(el("dl", "totals", ...sums.map(line)));
    side.replaceChildren(...parts);
  }

  function select(j) {
    const c = trace.cycles[frame.cycle];
    if (!c || frame.stage === "prefill" || !c.decisions[j - 1] || !standing(c, frame, j)) return;
    picked = j;
    draw();
  }

  function cycleStep(direction) {
    const starts = m.frames.flatMap((f, i) => (f.stage === "start" || f.stage === "prefill" || f.stage === "end" ? [i] : []));
    return direction > 0 ? starts.find((i) => i > at) ?? m.frames.length - 1 : starts.findLast((i) => i < at) ?? 0;
  }

  function nextRejection() {
    const is = (f) => f.stage === "verdict" && trace.cycles[f.cycle].decisions[f.k - 1].status === "rejected";
    const next = m.frames.findIndex((f, i) => i > at && is(f));
    return next >= 0 ? next : m.frames.findIndex(is) >= 0 ? m.frames.findIndex(is) : at;
  }

  function play() {
    if (at >= m.frames.length - 1) show(0);
    const tick = () => {
      if (at >= m.frames.length - 1) return stop();
      show(at + 1);
      playing = setTimeout(tick, TICK / speed);
    };
    playing = setTimeout(tick, 250);
    face();
  }

  function stop() {
    clearTimeout(playing);
    playing = 0;
    face();
  }

  function face() {
    const name = playing ? "pause" : "play";
    playButton.replaceChildren(icon(name));
    playButton.title = playing ? "Pause (space)" : "Play (space)";
    playButton.setAttribute("aria-label", playButton.title);
  }

  function toggleHelp(open = help.hidden) {
    help.hidden = !open;
    helpButton.setAttribute("aria-expanded", String(open));
  }

  function onKey(event) {
    const { key, shiftKey: shift, target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || key === "Tab") return;
    if (key === "Escape") {
      if (!help.hidden) toggleHelp(false);
      else { stop(); document.activeElement?.blur?.(); }
    } else if (target.tagName === "SELECT" && !/^[rRpP?]$/.test(key)) {
      event.stopPropagation(); // the list's own key; a host would take it for a command of its own
      return;
    } else if (target.tagName === "BUTTON" && (key === " " || key === "Enter")) return;
    else if (key === "ArrowRight") shift ? hop(1) : go(at + 1);
    else if (key === "ArrowLeft") shift ? hop(-1) : go(at - 1);
    else if (key === "Home") go(0);
    else if (key === "End") go(m.frames.length - 1);
    else if (key === " ") playing ? stop() : play();
    else if (key === "r" || key === "R") go(nextRejection());
    else if (key === "p" || key === "P") root.toggleAttribute("data-projector");
    else if (key === "?") toggleHelp();
    else if (/^[1-9]$/.test(key)) select(+key);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  function onStatus() {
    clearTimeout(waiting);
    put(status, store.get("status") ?? "");
    live.hidden = !store.get("can_rerun");
  }

  root.addEventListener("keydown", onKey);
  pane.addEventListener("scroll", () => requestAnimationFrame(() => m && root.isConnected && drawStrip()), { passive: true });
  const onTrace = () => { clearTimeout(waiting); stop(); load(); };
  const onStep = () => { if (store.get("step") !== at) show(store.get("step"), true); };
  offs.push(store.on("trace", onTrace), store.on("step", onStep), store.on("status", onStatus), store.on("can_rerun", onStatus));
  const sized = new ResizeObserver(() => { aim = -1; draw(); });
  const themed = new MutationObserver(dark);
  for (const node of [document.documentElement, document.body]) themed.observe(node, { attributes: true });
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", dark);
  dark();
  load();
  sized.observe(pane);
  return () => {
    stop();
    clearTimeout(saving);
    clearTimeout(waiting);
    sized.disconnect();
    themed.disconnect();
    scheme.removeEventListener("change", dark);
    for (const off of offs) off();
    root.remove();
  };
}

export default {
  render({ model, el: host }) {
    return mount(host, {
      get: (key) => model.get(key),
      set: (key, value) => { model.set(key, value); model.save_changes(); },
      on: (key, f) => {
        model.on("change:" + key, f);
        return () => model.off("change:" + key, f);
      },
    });
  },
};
