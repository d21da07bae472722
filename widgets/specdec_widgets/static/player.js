/**
 * The cycle player: plays a Trace (see specdec_teach/trace.py) step by step, in a notebook or on a page.
 *
 * `index`, `scene`, `ledger` and `narrate` turn the trace into plain data (steps.js, lanes.js, ledger.js, narration.js);
 * `mount` puts the elements of that data together; the default export fits `mount` to anywidget.
 * Invariant: every number shown is in the trace, and what is drawn depends on (trace, step, selected position) alone.
 * It knows nothing of models, and it fetches nothing. Token texts enter the page as text nodes only.
 */

import { plural, prose } from "./words.js";
import { button, el, forKernel, memory, option, put, reading, scrollable, watchTheme } from "./elements.js";
import { focus, index, ORDER, since, standing } from "./steps.js";
import { ledger, test } from "./ledger.js";
import { bar, drawLedger } from "./drawing.js";
import { saver, transport } from "./transport.js";
import { board, legend, milliseconds, totals } from "./board.js";
import { flags, refusal, settings, stepName } from "./captions.js";
import { tree } from "./tree.js";

export { memory };

const KEYS = [
  ["← →", "step"], ["Shift ← →", "cycle"], ["Home End", "first, last step"], ["R", "next rejection"], ["1 … 9", "a draft in the ledger"],
];

/** The step at which the next cycle starts, or the one before. */
export function cycleStep(frames, at, direction) {
  const starts = (f) => f.stage === "start" || f.stage === "prefill" || f.stage === "end";
  for (let i = at + direction; i >= 0 && i < frames.length; i += direction) if (starts(frames[i])) return i;
  return direction > 0 ? frames.length - 1 : 0;
}

/** The step that shows the next rejection, from the start again behind the last one; `at` where there is none. */
export function nextRejection(trace, frames, at) {
  const is = (f) => f.stage === "verdict" && trace.cycles[f.cycle].decisions[f.k - 1].status === "rejected";
  for (let i = 1; i <= frames.length; i++) if (is(frames[(at + i) % frames.length])) return (at + i) % frames.length;
  return at;
}

/**
 * Build the player inside `host` and keep it equal to the store. Keys: trace, step, status, can_rerun, request.
 * @param {HTMLElement} host  @param {import("./elements.js").Store} store  @returns {() => void} takes everything away again
 */
export const mount = reading("trace", refusal, (host, store) => {
  let trace, m, frame, at = 0, picked = null; // what is drawn
  let asked = 0, waiting = 0; // requests
  let ledgerKey = "", sideKey = ""; // what stands already
  const root = el("section", "specdec-player"), saved = saver(store);
  root.tabIndex = 0;
  root.setAttribute("aria-label", "Speculative decoding, step by step; press ? for the keys");
  root.dataset.lmSuppressShortcuts = "true";

  const cycleName = el("strong", "cycle"), stageName = el("span", "stage");
  const facts = el("span", "facts"), badges = el("span", "badges");
  const deck = transport(root, {
    at: () => at, last: () => m.frames.length - 1, show: (i) => show(i), hop: (d) => show(cycleStep(m.frames, at, d)),
    buttons: [button("reject", "Next rejection (R)", () => reject())], keys: KEYS, letters: /^[rR]$/,
    press(key) {
      if (key === "r" || key === "R") reject();
      else if (/^[1-9]$/.test(key)) select(+key);
      else return false;
      return true;
    },
  });
  const where = el("select"), live = el("label", "live", "reject at position ", where), status = el("p", "status");
  status.setAttribute("role", "status");
  where.addEventListener("change", () => {
    deck.stop();
    store.set("request", { reject_at: where.value === "" ? null : +where.value, cycle: frame.cycle, n: ++asked });
    put(status, "the engine runs again…");
    root.focus({ preventScroll: true });
    clearTimeout(waiting);
    waiting = setTimeout(() => put(status, "no answer from the kernel yet: if it was restarted, run this cell again"), 20000);
  });

  const lanes = board(root, (j) => select(j)), ledgerBox = scrollable(el("div", "ledger")), side = el("div", "side"), drafts = tree();
  root.append(
    el("header", "", cycleName, stageName, facts, badges), deck.controls, live, status,
    lanes.lanes, legend(), lanes.words, lanes.blockLine, drafts.node, el("div", "below", ledgerBox, side), deck.help,
  );
  host.append(root);

  function load() {
    trace = store.get("trace");
    onStatus();
    m = index(trace);
    picked = null;
    ledgerKey = sideKey = "";
    lanes.load(trace, m);
    const gamma = Math.max(trace.meta.gamma, ...trace.cycles.map((c) => c.proposed.length)), value = trace.meta.forced;
    const places = Array.from({ length: gamma }, (_, i) => option(String(i + 1), String(i + 1)));
    where.replaceChildren(option("", "–"), option("0", "accept all"), ...places);
    where.value = Number.isInteger(value) ? String(value) : "";
    badges.replaceChildren(...flags(trace).map((text) => el("span", "badge", text)));
    show(Math.min(store.get("step") ?? 0, m.frames.length - 1), true);
  }

  function show(i, fresh) {
    at = Math.max(0, Math.min(m.frames.length - 1, Math.round(i)));
    frame = m.frames[at];
    picked = null;
    if (!fresh || store.get("step") !== at) saved.save(at, deck.playing());
    draw();
  }

  function draw() {
    const c = trace.cycles[frame.cycle], [cycle, stage] = stepName(trace, frame);
    root.dataset.cycle = c ? String(c.index) : "";
    root.dataset.stage = frame.stage;
    root.dataset.step = String(at);
    root.dataset.targetPointer = String(frame.target);
    root.dataset.draftPointer = frame.draft === null ? "" : String(frame.draft);
    put(cycleName, cycle);
    put(stageName, stage);
    const first = trace.cycles[0]?.index ?? 0, span = trace.cycles.length === 1 ? "1 cycle" : `cycles ${first}–${trace.cycles.at(-1)?.index ?? 0}`;
    put(facts, [span, ...settings(trace, c)].join("  ·  "));
    deck.place(at, [cycle, stage].filter(Boolean).join(", "));
    lanes.draw(frame, picked, deck.playing());
    drafts.draw(trace, m, frame);
    const chosen = picked ?? focus(trace, frame), key = [frame.cycle, chosen, ORDER.indexOf(frame.stage), frame.k].join();
    if (key !== ledgerKey) {
      const data = ledger(trace, m, frame, chosen);
      ledgerBox.replaceChildren(...(data ? drawLedger(data, "d" in data ? test(trace, m, frame, data.d) : "") : drawText()));
      ledgerKey = key;
    }
    drawSide(c);
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
    const key = [frame.cycle, since(frame, "commit"), frame.stage === "prefill"].join();
    if (key === sideKey) return;
    sideKey = key;
    const parts = [];
    if (c?.seconds && frame.stage !== "prefill") {
      const shares = Object.entries(c.seconds), sum = shares.reduce((n, [, v]) => n + v, 0);
      const axis = el("div", "axis time", ...shares.map(([name, v]) => bar("t-" + name, sum ? v / sum : 0)));
      parts.push(el("h3", "", "time of this cycle", el("span", "n", milliseconds(sum))), axis,
        el("ul", "times", ...shares.map(([name, v]) => el("li", "", el("i", "key t-" + name), name, el("span", "n", (v * 1000).toFixed(v < 0.01 ? 2 : 1))))));
    }
    parts.push(el("h3", "", trace.dropped ? `since cycle ${trace.cycles[0]?.index ?? 0}` : "so far"));
    const line = ([name, value]) => el("div", "", el("dt", "", name), el("dd", "", value));
    parts.push(el("dl", "totals", ...totals(trace, m, frame).map(line)));
    side.replaceChildren(...parts);
  }

  function select(j) {
    const c = trace.cycles[frame.cycle];
    if (!c || frame.stage === "prefill" || !c.decisions[j - 1] || !standing(c, frame, j)) return;
    picked = j;
    draw();
  }

  function reject() {
    deck.stop();
    show(nextRejection(trace, m.frames, at));
  }

  function onStatus() {
    clearTimeout(waiting);
    put(status, store.get("status") ?? "");
    live.hidden = !store.get("can_rerun");
  }

  const offs = [
    watchTheme(root, host), lanes.close, saved.cancel, deck.stop, () => clearTimeout(waiting),
    store.on("trace", () => { clearTimeout(waiting); deck.stop(); load(); }),
    store.on("step", () => { if (store.get("step") !== at) show(store.get("step"), true); }),
    store.on("status", onStatus), store.on("can_rerun", onStatus),
  ];
  load();
  return () => {
    for (const off of offs) off();
    root.remove();
  };
});

export default forKernel(mount);
