/**
 * Two runs on one clock: what each has done after as many forwards of the target, or after as much time.
 *
 * `parting`, `ticks` and `apartAt` are pure functions of the two traces; `mount` shows a board for each run under one set
 * of controls. Invariant: what is drawn depends on (pair, clock, step) alone, and every number is in one of the traces;
 * inside a cycle the recorded seconds of a part are shared evenly among its steps. It does not know why the runs differ.
 *
 * @typedef {{trace: any, m: any, name: string}} Run
 */

import { clip, plural, quote } from "./words.js";
import { button, el, forKernel, memory, option, put, reading, watchTheme } from "./elements.js";
import { columnAt, index, ORDER, since } from "./steps.js";
import { saver, transport } from "./transport.js";
import { board, legend, milliseconds, totals } from "./board.js";
import { flags, refusal, settings, stepName } from "./captions.js";

export { memory };

/** Where two committed texts part: the first position whose tokens differ, null where the shorter one is a beginning of
 * the longer; and how many tokens they share up to there. @returns {{at: number|null, shared: number}} */
export function parting(a, b) {
  const n = Math.min(a.ids.length, b.ids.length);
  let i = 0;
  while (i < n && a.ids[i] === b.ids[i]) i++;
  return { at: i < n ? i : null, shared: i };
}

/** When each step of a run happens, by a clock: "forwards" counts cycles, "seconds" the time since the first one. */
export function times(trace, frames, clock) {
  if (clock === "forwards") {
    const rank = (f) => ORDER.indexOf(f.stage === "end" ? "start" : f.stage) * 1e4 + f.k;
    const cycle = (f) => ({ prefill: -1, end: trace.cycles.length })[f.stage] ?? f.cycle;
    return frames.map((f) => cycle(f) * 1e6 + rank(f));
  }
  let start = 0, at = 0;
  return frames.map((f, i) => {
    const s = trace.cycles[f.cycle]?.seconds ?? { draft: 0, target: 0, verify: 0, other: 0 };
    if (f.stage === "prefill") return 0;
    if (f.stage === "start" || f.stage === "end") {
      start = at;
      at = f.stage === "end" ? start : start + s.draft + s.target + s.verify + s.other;
      return start;
    }
    const among = (stages) => {
      const part = frames.slice(Math.max(0, i - 70), i + 70).filter((g) => g.cycle === f.cycle && stages.includes(g.stage));
      return (part.indexOf(f) + 1) / part.length;
    };
    if (f.stage === "catchup" || f.stage === "draft") return start + s.draft * among(["catchup", "draft"]);
    if (f.stage === "target") return start + s.draft + s.target;
    if (f.stage === "verdict" || f.stage === "last") return start + s.draft + s.target + s.verify * among(["verdict", "last"]);
    return start + s.draft + s.target + s.verify + s.other * among(["commit", "rewind"]) * 0.9;
  });
}

/** Every moment at which one of two runs takes a step: the time, and the step each stands on.
 * @returns {{t: number, steps: [number, number]}[]} */
export function ticks(runs, clock) {
  const when = runs.map(({ trace, m }) => times(trace, m.frames, clock)), moments = [...new Set(when.flat())].sort((x, y) => x - y);
  return moments.map((t) => ({ t, steps: /** @type {[number, number]} */ (when.map((list) => Math.max(0, columnAt(list, t)))) }));
}

/** How much of a run's text is committed in a step. */
export const committed = ({ trace }, frame) => {
  const c = frame.stage === "prefill" ? undefined : trace.cycles[frame.cycle];
  return !c ? trace.prompt.length : since(frame, "commit") ? c.committed_after : c.committed_before;
};

/** The first tick at which both runs have committed the position where they part; −1 where there is none. */
export function apartAt(runs, moments, at) {
  return at === null ? -1 : moments.findIndex(({ steps }) => runs.every((run, i) => committed(run, run.m.frames[steps[i]]) > at));
}

/** Where the two texts part, in a sentence. @param {[Run, Run]} runs */
export function partingSentence(runs, { at, shared }) {
  const fresh = shared - Math.min(...runs.map(({ trace }) => trace.prompt.length));
  if (at === null) {
    const [a, b] = runs.map(({ m }) => m.ids.length);
    return a === b ? `Both runs commit the same ${plural(fresh, "new token")}.` : `The shorter run's ${plural(fresh, "new token")} are the beginning of the longer one's.`;
  }
  const said = runs.map(({ m, name }) => `${clip(name, 30)} has ${quote(m.text[at])}`).join(", ");
  return `${fresh < 0 ? "The prompts part" : `The texts share ${plural(fresh, "new token")} and part`} at position ${at}: ${said}.`;
}

const KEYS = [["← →", "step of either run"], ["Shift ← →", "cycle"], ["Home End", "first, last step"], ["D", "where the texts part"], ["C", "other clock"]];
const CLOCKS = { forwards: "clock: target forwards", seconds: "clock: seconds" };

/** One run of the pair: its name, what it has done so far, its lanes and its sentence. */
function lane(root) {
  const name = el("strong", "name"), stage = el("span", "stage"), facts = el("span", "facts"), badges = el("span", "badges");
  const lanes = board(root, () => undefined), sums = el("dl", "totals");
  const node = el("section", "run", el("header", "", name, stage, facts, badges), lanes.lanes, lanes.words, lanes.blockLine, sums);
  return { node, name, stage, facts, badges, lanes, sums };
}

/**
 * Build the view inside `host` and keep it equal to the store. Keys: pair, step, clock.
 * @param {HTMLElement} host  @param {import("./elements.js").Store} store  @returns {() => void} takes everything away again
 */
export const mount = reading("pair", ({ runs }) => runs.map(refusal).find(Boolean) ?? "", (host, store) => {
  let runs, moments, part, clock = "forwards", at = 0;
  const root = el("section", "specdec-player specdec-compare"), saved = saver(store);
  root.tabIndex = 0;
  root.setAttribute("aria-label", "Two runs of a decoder on one clock; press ? for the keys");
  root.dataset.lmSuppressShortcuts = "true";
  const time = el("strong", "cycle"), agree = el("p", "agree"), said = el("p", "unseen"), sides = [lane(root), lane(root)];
  said.setAttribute("aria-live", "polite");
  const clockPick = el("select", "clock");
  clockPick.setAttribute("aria-label", "clock");
  clockPick.addEventListener("change", () => { turn(clockPick.value); root.focus({ preventScroll: true }); });
  const deck = transport(root, {
    at: () => at, last: () => moments.length - 1, show: (i) => show(i), hop,
    buttons: [button("apart", "Where the texts part (D)", () => leave()), clockPick], keys: KEYS, letters: /^[cCdD]$/,
    press(key) {
      if (key === "d" || key === "D") leave();
      else if (key === "c" || key === "C") turn(clock === "forwards" ? "seconds" : "forwards");
      else return false;
      return true;
    },
  });
  root.append(el("header", "", time), deck.controls, agree, ...sides.map((side) => side.node), legend(), said, deck.help);
  host.append(root);

  function load() {
    const { names, runs: traces } = store.get("pair");
    runs = traces.map((trace, i) => ({ trace, name: names[i], m: index(trace) }));
    const longest = Math.max(...runs.map(({ m }) => m.longest)), edge = [runs[0].m.edge[0]];
    for (let i = 0; i < longest; i++) edge.push(edge[i] + Math.max(...runs.map(({ m }) => (i < m.longest ? m.edge[i + 1] - m.edge[i] : 0))));
    for (const { m } of runs) m.edge = edge.slice(0, m.longest + 1); // a position stands in the same column in both
    part = parting(runs[0].m, runs[1].m);
    sides.forEach((side, i) => {
      const { trace, m, name } = runs[i];
      side.lanes.load(trace, m, part.at);
      side.node.setAttribute("aria-label", name);
      put(side.name, clip(name, 60));
      side.badges.replaceChildren(...flags(trace).map((text) => el("span", "badge", text)));
    });
    const timed = runs.every(({ trace }) => trace.cycles.every((c) => c.seconds));
    clockPick.replaceChildren(...Object.entries(CLOCKS).filter(([key]) => timed || key === "forwards").map(([key, text]) => option(key, text)));
    root.querySelector("button.apart").disabled = part.at === null;
    put(agree, partingSentence(runs, part));
    clock = CLOCKS[store.get("clock")] && (timed || store.get("clock") === "forwards") ? store.get("clock") : "forwards";
    clockPick.value = clock;
    moments = ticks(runs, clock);
    show(store.get("step") ?? 0, true);
  }

  /** The same moment by another clock: the first run keeps its step. */
  function turn(next) {
    if (![...clockPick.options].some((o) => o.value === next)) return;
    const standing = moments[at].steps[0];
    deck.stop();
    clock = clockPick.value = next;
    if (store.get("clock") !== clock) store.set("clock", clock);
    moments = ticks(runs, clock);
    show(moments.findIndex(({ steps }) => steps[0] >= standing));
  }

  function show(i, fresh) {
    at = Math.max(0, Math.min(moments.length - 1, Math.round(i)));
    if (!fresh || store.get("step") !== at) saved.save(at, deck.playing());
    draw();
  }

  function draw() {
    const { t, steps } = moments[at], frames = runs.map(({ m }, i) => m.frames[steps[i]]);
    root.dataset.step = String(at);
    const forward = Math.max(0, Math.floor(t / 1e6));
    put(time, clock === "seconds" ? milliseconds(t) : t < 0 ? "before the first forward" : frames.every((f) => f.stage === "end") ? "end" : `target forward ${forward + 1}`);
    deck.place(at, time.textContent);
    const sentences = sides.map((side, i) => {
      const run = runs[i], frame = frames[i], { trace, m } = run, c = trace.cycles[frame.cycle], [cycle, stage] = stepName(trace, frame);
      Object.assign(side.node.dataset, {
        cycle: c ? String(c.index) : "", stage: frame.stage, targetPointer: String(frame.target),
        draftPointer: frame.draft === null ? "" : String(frame.draft), committed: String(committed(run, frame)),
      });
      side.lanes.draw(frame, null, true);
      put(side.stage, [cycle, stage].filter(Boolean).join(", "));
      put(side.facts, settings(trace).join("  ·  "));
      side.node.classList.toggle("apart", part.at !== null && committed(run, frame) > part.at);
      side.sums.replaceChildren(...totals(trace, m, frame).map(([key, value]) => el("div", "", el("dt", "", key), el("dd", "", value))));
      return `${run.name}: ${side.lanes.words.textContent}`;
    });
    said.setAttribute("aria-live", deck.playing() ? "off" : "polite");
    put(said, sentences.join(" "));
  }

  function hop(direction) {
    const starts = (i) => moments[i].steps.some((s, k) => s !== (moments[i - 1]?.steps[k] ?? -1) && /start|prefill|end/.test(runs[k].m.frames[s].stage));
    let i = at + direction;
    while (i > 0 && i < moments.length - 1 && !starts(i)) i += direction;
    show(i);
  }

  function leave() {
    const found = apartAt(runs, moments, part.at);
    deck.stop();
    if (found >= 0) show(found);
  }

  const offs = [
    watchTheme(root, host), saved.cancel, deck.stop, ...sides.map((side) => side.lanes.close),
    store.on("pair", () => { deck.stop(); load(); }), store.on("clock", () => { if (store.get("clock") !== clock) turn(store.get("clock")); }), store.on("step", () => { if (store.get("step") !== at) show(store.get("step"), true); }),
  ];
  load();
  return () => {
    for (const off of offs) off();
    root.remove();
  };
});

export default forKernel(mount);
