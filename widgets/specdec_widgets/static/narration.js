/**
 * Each step in one sentence or two, with its numbers: what the player writes and a screen reader hears.
 *
 * Invariant: pure functions of the trace; a sentence holds no number that the trace does not. It touches no document.
 *
 * @typedef {import("./wire.js").Trace} Trace
 * @typedef {import("./steps.js").Index} Index
 * @typedef {import("./steps.js").Frame} Frame
 */

import { list, num, percent, plural, quote, sub } from "./words.js";
import { isGreedy, lastRow, rowOf } from "./steps.js";
import { test } from "./ledger.js";

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
    if (c.parents) {
      const above = c.parents[frame.k - 1], under = above < 0 ? "the pending token" : d(above + 1), { q } = c.decisions[frame.k - 1];
      return `The draft puts ${d(frame.k)} below ${under}, ${q === null ? "with a q that is unknown" : `with q = ${num(q)}`}.`;
    }
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
    const head = `Row ${rowOf(c, frame.k)} judges ${d(frame.k)}: ${test(trace, m, frame, x)}.`;
    if (x.accepted) return `${head} Accepted.`;
    if (c.parents) {
      const next = c.parents.findIndex((above, k) => k >= frame.k && above === c.parents[frame.k - 1]);
      return `${head} Rejected; ${next < 0 ? "it has no sibling left" : `its sibling ${sub(next + 1)} is judged by what is left of p`}.`;
    }
    const behind = c.decisions.filter((y) => y.status === "unused").length;
    if (!behind) return `${head} Rejected.`;
    const rest = behind === 1 ? "the draft behind it is" : `the ${behind} drafts behind it are`;
    return `${head} Rejected; ${rest} discarded unseen.`;
  },

  last({ trace, c, K, at }) {
    const y = at(c.committed_after - 1);
    if (c.last_kind === "bonus" && c.parents) return `The path ends at a leaf, so row ${lastRow(c)} gives one token more: the bonus ${y}.`;
    if (c.last_kind === "bonus" && K) return `All drafts are accepted, so row ${K} gives one token more: the bonus ${y}.`;
    if (c.last_kind === "bonus") return `Nothing was proposed: row 0 gives the next token, ${y}, as in plain decoding.`;
    const bar = c.decisions.findLast((x) => x.status === "rejected")?.bars.find((x) => x.token === c.last);
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

/** One sentence or two about a step, with its numbers. @param {Frame} frame  @param {Trace} trace  @param {Index} m */
export function narrate(trace, m, frame) {
  const c = trace.cycles[frame.cycle];
  const at = (i) => quote(m.text[i]), d = (k) => `${sub(k)} = ${quote(m.drafts[frame.cycle][k - 1])}`;
  return SAY[frame.stage]({ trace, m, frame, c, L: c?.committed_before, K: c?.proposed.length, at, d });
}
