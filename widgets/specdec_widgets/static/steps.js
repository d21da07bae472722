/**
 * The steps of a run, and everything about it that does not change from step to step.
 *
 * Invariant: pure functions of the trace; `frames` names the stages that specdec_widgets/steps.py counts (a test compares
 * them), and both pointers as they stand in each. It knows nothing of the picture.
 *
 * @typedef {ReturnType<typeof index>} Index  what `index` returns
 * @typedef {{cycle: number, stage: string, k: number, target: number, draft: number|null}} Frame
 * @typedef {import("./wire.js").Cycle} Cycle
 * @typedef {import("./wire.js").Trace} Trace
 */

import { columns, labels } from "./words.js";

export const temperature = (trace) => trace.meta.sampling?.temperature ?? null;
export const isGreedy = (trace) => temperature(trace) === 0;

/** Every step of the run, in order, with both pointers as they stand in it. @returns {Frame[]}  @param {Trace} trace */
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

export const COLUMNS = 11;
const PAD = 3.8, NARROWEST = 3.5, WIDEST = 9;

/** Everything that depends on the trace alone: steps, committed ids, labels, column edges, high-water marks.  @param {Trace} trace */
export function index(trace) {
  const ids = [...trace.prompt], cycles = trace.cycles;
  const from = cycles.length ? cycles[0].committed_before : ids.length;
  while (ids.length < from) ids.push(null);
  for (const c of cycles) ids.push(...c.emitted);
  const text = labels(ids, trace.pieces);
  let longest = ids.length;
  const drafts = cycles.map((c) => {
    longest = Math.max(longest, c.committed_before + c.proposed.length + 1);
    if (c.parents) return treeNames(trace, c);
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

/** The column whose left edge is the last one at or before x. @param {number[]} edge @param {number} x */
export function columnAt(edge, x) {
  let low = 0, high = edge.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (edge[middle] <= x) low = middle;
    else high = middle - 1;
  }
  return low;
}

export const ORDER = ["prefill", "start", "catchup", "draft", "target", "verdict", "last", "commit", "rewind", "end"];
export const since = (frame, stage) => ORDER.indexOf(frame.stage) >= ORDER.indexOf(stage);

/** Which position's numbers a step is about: 1…γ, "last" for the bonus row, 0 for the text.  @param {Trace} trace  @param {Frame} frame */
export function focus(trace, frame) {
  const c = trace.cycles[frame.cycle];
  if (!c || frame.stage === "prefill") return 0;
  if (frame.stage === "draft" || frame.stage === "verdict") return frame.k;
  if (frame.stage === "target") return c.proposed.length ? 1 : 0;
  if (!since(frame, "last") || frame.stage === "end") return 0;
  if (c.last_kind === "bonus") return "last";
  return c.decisions.findLast((x) => x.status === "rejected")?.position ?? c.accepted;
}

/** The row of logits that judges draft j: that of the token above it. */
export const rowOf = (c, j) => (c.parents ? c.parents[j - 1] + 1 : j - 1);
/** The row that the last token was drawn in. */
export const lastRow = (c) => (c.parents ? (c.path?.at(-1) ?? -1) + 1 : c.accepted);

/** What is known about draft j in a step: "drafted", "judged" or a final status; null before it is drafted.
 * @param {Cycle} c  @param {Frame} frame  @param {number} j */
export function standing(c, frame, j) {
  if (frame.stage === "draft" ? j > frame.k : !since(frame, "draft")) return null;
  if (c.parents) return standingInTree(c, frame, j);
  const { status } = c.decisions[j - 1];
  if (status === "cut") return since(frame, "commit") ? "cut" : "proposed";
  if (status === "unused") {
    const stop = c.decisions.find((x) => x.status === "rejected")?.position ?? 0;
    return since(frame, "last") || (frame.stage === "verdict" && frame.k >= stop) ? "unused" : "proposed";
  }
  return since(frame, "last") || (frame.stage === "verdict" && frame.k >= j) ? status : "proposed";
}

/** The same in a tree: a draft is discarded when one above it fell, or a sibling of it or of one above it stands. */
function standingInTree(c, frame, j) {
  const { status } = c.decisions[j - 1], { parents } = c;
  if (since(frame, "last")) return status === "cut" && !since(frame, "commit") ? "proposed" : status;
  if (frame.stage !== "verdict") return "proposed";
  if (status !== "unused" && status !== "cut") return frame.k >= j ? status : "proposed";
  const known = (k, want) => c.decisions[k].status === want && c.decisions[k].position <= frame.k;
  for (let node = j - 1; node >= 0; node = parents[node]) {
    if (known(node, "rejected") || c.decisions.some((_, k) => k !== node && parents[k] === parents[node] && known(k, "accepted"))) return "unused";
  }
  return "proposed";
}

/** The label of every node, read after its own path.  @param {Trace} trace  @param {Cycle} c */
export function treeNames(trace, c) {
  return c.proposed.map((_, node) => {
    const path = [];
    for (let at = node; at >= 0; at = c.parents[at]) path.unshift(c.proposed[at]);
    return labels(path, trace.pieces).at(-1);
  });
}
