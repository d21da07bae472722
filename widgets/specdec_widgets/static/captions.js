/**
 * What stands over a run: the step's name, how the run was made, what a reader must know before believing it.
 *
 * Invariant: pure functions of the trace; a number that is not known is not written. It touches no document.
 *
 * @typedef {import("./wire.js").Trace} Trace
 * @typedef {import("./steps.js").Index} Index
 * @typedef {import("./steps.js").Frame} Frame
 */

import { isGreedy, temperature } from "./steps.js";
import { pace } from "./words.js";

const VERSION = 1;

/** Why this player cannot read a trace or a timeline; "" where it can. */
export function refusal(run) {
  const found = run?.meta?.schema_version;
  if (found === VERSION) return "";
  return `This run has schema version ${JSON.stringify(found ?? null).slice(0, 40)}, and this player reads version ${VERSION}: ` +
    "open it with the version of specdec-teach that wrote it, or make the run again.";
}

const STAGES = { catchup: "draft catches up", target: "target forward", end: "" };

/** A step's name: the cycle, and the stage in it. @returns {[string, string]}  @param {Trace} trace  @param {Frame} frame */
export function stepName(trace, frame) {
  const c = trace.cycles[frame.cycle], drawn = c?.last_kind === "correction" ? "correction" : c?.proposed.length ? "bonus" : "next token";
  const cycle = frame.stage === "prefill" ? "before cycle " + (trace.cycles[0]?.index ?? 0) : frame.stage === "end" ? "end" : "cycle " + c.index;
  return [cycle, frame.stage === "last" ? drawn : STAGES[frame.stage] ?? frame.stage];
}

/** How the run was made, in a few words, with γ of one cycle or of the whole run.  @param {Trace} trace  @param {Trace["cycles"][number]} [c] */
export function settings(trace, c) {
  const gamma = !c ? trace.meta.gamma : c.parents ? c.gamma : c.proposed.length;
  const heat = isGreedy(trace) ? "greedy" : temperature(trace) === null ? "T unknown" : "T = " + Number(temperature(trace));
  return [pace(gamma, trace.meta.planner, !c), heat, trace.meta.verify + " rule"];
}

/** What a reader must know before believing the run. @returns {string[]}  @param {Trace} trace */
export function flags(trace) {
  const said = { true: [], false: ["not lossless"] }[trace.meta.lossless] ?? ["lossless or not is unknown"], { forced } = trace.meta;
  return Number.isInteger(forced) ? [forced ? `forced: reject at ${forced}` : "forced: accept all", ...said] : said;
}
