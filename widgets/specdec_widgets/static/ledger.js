/**
 * What is known about one position in a step, as plain data: p, q, min and residual of its tokens, and the test.
 *
 * Invariant: pure functions of the trace; a number that the step does not know yet is null. It touches no document.
 *
 * @typedef {import("./wire.js").Decision} Decision
 * @typedef {import("./wire.js").Trace} Trace
 * @typedef {import("./steps.js").Index} Index
 * @typedef {import("./steps.js").Frame} Frame
 */

import { labels, num, pair, quote } from "./words.js";
import { lastRow, isGreedy, since, standing, rowOf } from "./steps.js";

/** The numbers of one position, as far as the step knows them; null where there is nothing to show yet.
 * @param {Trace} trace  @param {Index} m  @param {Frame} frame  @param {number|"last"} selected */
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
    return { kind: "last", row: lastRow(c), label, rows, rest: { p: Math.max(0, rest) }, last: c.last_kind };
  }
  const d = c.decisions[selected - 1], state = d ? standing(c, frame, selected) : null;
  if (!d || !state) return null;
  const mine = m.drafts[frame.cycle][selected - 1], place = { position: selected, row: rowOf(c, selected), label: mine };
  if (d.p === null) return { kind: "decision", ...place, state, known: false, unknown: true, threshold: null, d, rows: [], rest: {} };
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
  const judged = known && (state === "accepted" || state === "rejected"); // accepted where p reaches past u · q
  const threshold = judged && d.u !== null && trace.meta.verify === "rejection" ? d.u * d.q : null;
  return { kind: "decision", ...place, state, known, threshold, d, rows, rest };
}

/** The acceptance test in words: what was compared with what.  @param {Trace} trace  @param {Index} m  @param {Frame} frame  @param {Decision} d */
export function test(trace, m, frame, d) {
  const c = trace.cycles[frame.cycle], ok = d.accepted, y = quote(m.drafts[frame.cycle][d.position - 1]);
  const forced = d.forced ? " (forced)" : "";
  if (d.p === null) return "p, q and u are unknown";
  if (d.u === null || d.accept_probability === null) {
    if (!isGreedy(trace) && ["typical", "threshold"].includes(trace.meta.verify))
      return `p = ${num(d.p)} is ${ok ? "enough" : "too little"} for the rule` + forced;
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
