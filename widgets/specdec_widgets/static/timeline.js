/**
 * The timeline player: plays a scheduler's run (see specdec_teach/timeline.py) step by step, in a notebook or on a page.
 *
 * `scene` is a pure function from the run to plain data (lengths in em); `mount` turns it into elements; the default
 * export fits `mount` to anywidget. Invariant: what is drawn depends on (timeline, step, picked request) alone.
 * It knows nothing of models or schedulers, and it fetches nothing. Names enter the page as text nodes only.
 */

import { list, pace, percent, plural } from "./words.js";
import { button, el, forKernel, keyed, memory, put, reading, scrollable, watchTheme } from "./elements.js";
import { refusal } from "./captions.js";
import { saver, transport } from "./transport.js";
import { blocksAfter, chosen, ending, indexRun, left, nameOf, places, say, where } from "./pool.js";
import { drawCell, drawTile, glyphOf, owner, share, table, twin } from "./figures.js";

export { memory };

export const COLUMN = 2.9, ROW = 2.7;
const ENDED = { finished: "✓", cancelled: "⊘", failed: "!" }, STATES = { waiting: "w", prefill: "p", preempted: "x" };

/** The cells of the columns [a, b) up to a step: state, numbers, and how the request ended. */
export function scene(run, step, a, b) {
  const { timeline, requests, rows } = run, cells = [];
  for (let at = a; at < Math.min(b, step + 1); at++) {
    const gone = left(run, at);
    requests.forEach((request, line) => {
      const row = rows[at].get(request), place = { key: `${request}.${at}`, x: at * COLUMN, y: line * ROW };
      if (!row && gone.includes(request)) cells.push({ ...place, cls: "left", text: "⊘", title: "left before this step" });
      if (!row) return;
      const end = ending(row), cls = row.cycle !== null ? "ran" : row.state;
      const text = row.cycle !== null ? "+" + row.emitted : row.state === "prefill" ? "p" + row.fed : STATES[row.state] ?? "";
      cells.push({
        ...place, cls: cls + (end ? " ends " + end : ""), text, mark: ENDED[end] ?? "", drafted: row.drafted, accepted: row.accepted,
        adopted: row.adopted, title: `${nameOf(timeline, request)}, step ${timeline.steps[at].index}: ${row.state}${row.ends ? ", " + nameOf({ names: [row.ends] }, 0) : ""}`,
      });
    });
  }
  return cells;
}

// ---------------------------------------------------------------- elements

const KEYS = [["← →", "step"], ["Home End", "first, last step"], ["↑ ↓", "another request's block table"], ["X", "next preemption"]];
const CELLS = [
  ["waiting", "w", "waits for room"], ["prefill", "p", "computes tokens"], ["ran", "+", "emits tokens"],
  ["preempted", "x", "gives its blocks back"], ["", "✓", "ended"], ["", "⊘", "cancelled or left"], ["", "!", "failed"],
];
const SLOTS = [["own0", "computed, in its request's pattern"], ["stale", "stale: written, unreachable"], ["", "not written"], ["idle", "idle: nobody holds it"]];

/**
 * Build the view inside `host` and keep it equal to the store. Keys: timeline, step.
 * @param {HTMLElement} host  @param {import("./elements.js").Store} store  @returns {() => void} takes everything away
 */
export const mount = reading("timeline", refusal, (host, store) => {
  let run, timeline, at = 0, picked = null;
  const root = el("section", "specdec-player specdec-timeline"), saved = saver(store);
  root.tabIndex = 0;
  root.setAttribute("aria-label", "Requests and blocks of a scheduler, step by step; press ? for the keys");
  root.dataset.lmSuppressShortcuts = "true";
  const last = () => timeline.steps.length - 1, go = (i) => { deck.stop(); show(i); };

  const stepName = el("strong", "cycle"), stage = el("span", "stage"), facts = el("span", "facts");
  const deck = transport(root, {
    at: () => at, last, show: (i) => show(i), buttons: [button("reject", "Next preemption (X)", () => go(nextLoss()))],
    keys: KEYS, letters: /^[xX]$/,
    press(key) {
      if (key === "ArrowDown") pickNext(1);
      else if (key === "ArrowUp") pickNext(-1);
      else if (key === "x" || key === "X") go(nextLoss());
      else return false;
      return true;
    },
  });

  const scale = el("div", "scale"), people = el("div", "people"), cursor = el("div", "cursor"), ahead = el("div", "ahead"), cells = el("div", "cells");
  const field = el("div", "field", ahead, cells, cursor), sheet = el("div", "sheet", el("div", "corner", "step"), scale, people, field);
  field.setAttribute("role", "img");
  let most = 1;
  const drawCells = keyed(cells, () => el("div"), (node, cell) => drawCell(node, cell, most));
  const drawScale = keyed(scale, () => el("span"), (node, item) => {
    node.textContent = item.text;
    node.className = item.now ? "now" : "";
    node.style.transform = `translateX(${item.x.toFixed(2)}em)`;
  });
  for (const node of [field, scale]) node.addEventListener("click", (event) => go(Math.floor((event.clientX - node.getBoundingClientRect().left) / em() / COLUMN)));
  const legend = el("div", "legend", ...CELLS.map(([cls, sign, text]) => el("span", "", el("b", "sample " + cls, sign), text)),
    el("span", "", el("i", "kept"), "draft kept"), el("span", "", el("i", "lost"), "not kept"), el("span", "", el("i", "flag"), "tokens taken over"));
  const words = el("p", "narration"), counts = el("p", "quiet counts"), bar = el("div", "axis parts"), tiles = el("div", "tiles");
  const poolLegend = el("div", "legend", ...SLOTS.map(([cls, text]) => el("span", "", el("i", "slot " + cls), text)),
    el("span", "", el("i", "flag"), "published"), el("span", "", el("i", "slot shared"), "shared"));
  tiles.setAttribute("role", "img");
  words.setAttribute("aria-live", "polite");
  const drawTiles = keyed(tiles, () => el("div"), (node, item) => drawTile(node, item.block, item.size, item.mine));
  const map = scrollable(el("div", "map")), side = el("div", "side"), tables = scrollable(el("div", "tables"));
  const more = el("details", "twin", el("summary", "", "this step as tables"), tables);
  more.addEventListener("toggle", () => run && drawTwin());
  const pool = el("div", "pool", el("h3", "", "blocks"), counts, bar, tiles, poolLegend, map);
  root.append(el("header", "", stepName, stage, facts), deck.controls, sheet, legend, words, el("div", "below", pool, side), more, deck.help);
  host.append(root);

  const em = () => parseFloat(getComputedStyle(root).fontSize) || 14;

  function load() {
    timeline = store.get("timeline");
    run = indexRun(timeline);
    picked = null;
    const { meta } = timeline, wide = timeline.steps.length * COLUMN + "em", tall = run.requests.length * ROW + "em";
    most = Math.max(1, meta.gamma, ...timeline.steps.flatMap((step) => step.rows.map((row) => row.drafted)));
    put(facts, `${plural(timeline.prompts.length, "request")}, ${meta.max_batch} at once  ·  ${plural(meta.blocks, "block")} of ${plural(meta.block_size, "token")}  ·  ${pace(meta.gamma, meta.planner, true)}  ·  chunk ${meta.chunk}`);
    drawCells([]);
    drawScale([]);
    drawTiles([]);
    field.style.width = scale.style.width = wide;
    field.style.height = tall;
    people.replaceChildren(...run.requests.map((request) => {
      const node = el("button", "person", el("i", "own" + (request % 5)), owner(request), el("span", "name", nameOf(timeline, request, 12)));
      Object.assign(node, { type: "button", title: nameOf(timeline, request, 60) });
      node.dataset.request = String(request);
      node.addEventListener("click", () => { picked = request; draw(); });
      return node;
    }));
    show(Math.min(store.get("step") ?? 0, last()), true);
  }

  function show(i, fresh) {
    at = Math.max(0, Math.min(last(), Math.round(i)));
    if (!fresh || store.get("step") !== at) saved.save(at, deck.playing());
    draw();
  }

  function draw() {
    root.dataset.step = String(at);
    const moment = timeline.steps[at];
    for (const node of [sheet, legend, root.querySelector(".below"), more]) node.hidden = !moment;
    if (!moment) {
      put(stepName, "no step");
      return put(words, "This run has no step yet: submit a request and call step().");
    }
    const size = timeline.meta.block_size, now = run.sums[at], sentence = say(run, at);
    put(stepName, "step " + moment.index);
    put(stage, `${now.running} running, ${now.waiting} waiting`);
    deck.place(at, stepName.textContent);
    words.setAttribute("aria-live", deck.playing() ? "off" : "polite");
    put(words, sentence);
    field.setAttribute("aria-label", `${plural(run.requests.length, "request")} by ${plural(at + 1, "step")}. ${sentence}`);
    cursor.style.transform = `translateX(${(at * COLUMN).toFixed(2)}em)`;
    ahead.style.left = (at + 1) * COLUMN + "em";
    const row = (picked !== null && run.rows[at].get(picked)) || (picked === null ? chosen(run, at) : null), mine = picked ?? row?.request ?? null;
    for (const node of people.children) {
      node.setAttribute("aria-pressed", String(+node.dataset.request === mine));
      node.classList.toggle("absent", !run.rows[at].has(+node.dataset.request));
    }
    follow();
    drawStrip();
    put(counts, `${now.in_use} of ${timeline.meta.blocks} in use, ${now.shared} shared, ${now.published} published, ${now.idle} idle, ${now.free} free`);
    bar.replaceChildren(...["in_use", "idle", "free"].map((key) => share(el("i", key), now[key] / timeline.meta.blocks)));
    tiles.setAttribute("aria-label", `Blocks: ${counts.textContent}. The tables below hold the same numbers.`);
    drawTiles(blocksAfter(run, at).map((block) => ({ key: block.id, block, size, mine: mine !== null && block.owners.includes(mine) })));
    tiles.tabIndex = tiles.scrollHeight > tiles.clientHeight + 1 ? 0 : -1; // it scrolls where there are many
    drawMap(row, mine);
    drawSide(now);
    drawTwin();
  }

  function drawMap(row, mine) {
    const size = timeline.meta.block_size;
    if (mine === null) return map.replaceChildren();
    const title = el("h3", "", "block table of ", owner(mine, nameOf(timeline, mine)));
    if (!row?.table.length) return map.replaceChildren(title, el("p", "quiet", "It holds no block after this step."));
    const rows = places(run, at, row).map(({ first, block, filled, others }) => [
      `${first}–${first + size - 1}`, String(block), `${block * size}–${block * size + size - 1}`, `${filled} of ${size}`,
      others.length > 6 ? plural(others.length, "request") : list(others.map((r) => `${glyphOf(r)} ${r}`)) || "–",
    ]);
    map.replaceChildren(title, el("p", "quiet", where(row, size)), table("places", ["positions", "block", "slots", "computed", "also held by"], rows));
  }

  function drawSide(now) {
    const rate = now.drafted ? ` (${percent(now.accepted / now.drafted)})` : "", ms = (now.seconds * 1000).toFixed(0) + " ms";
    const sums = [
      ["running, waiting, over", `${now.running}, ${now.waiting}, ${now.over}`], ["tokens emitted", now.emitted], ["cycles", now.cycles],
      ["drafts kept", now.drafted ? `${now.accepted} of ${now.drafted}${rate}` : "–"], ["computed outside of cycles", now.fed],
      ["taken over", now.adopted], ["preemptions", now.preempted], ["time so far", ms],
    ];
    const first = timeline.steps[0].index;
    side.replaceChildren(el("h3", "", first ? "since step " + first : "so far"), el("dl", "totals", ...sums.map(([k, v]) => el("div", "", el("dt", "", k), el("dd", "", String(v))))));
  }

  function drawTwin() {
    if (more.open && timeline.steps.length) tables.replaceChildren(...twin(run, at));
  }

  function follow() {
    const unit = em(), x = at * COLUMN * unit, names = people.offsetWidth, view = sheet.clientWidth - names;
    if (x < sheet.scrollLeft + unit || x + 2 * COLUMN * unit > sheet.scrollLeft + view) sheet.scrollLeft = Math.max(0, x - view * 0.6);
    const here = run.requests.map((request, line) => [request, line]).filter(([request]) => run.rows[at].has(request)).map(([, line]) => line * ROW * unit);
    const high = sheet.clientHeight - 2.6 * unit;
    if (here.length && (here[0] < sheet.scrollTop - 1 || here[0] > sheet.scrollTop + high)) sheet.scrollTop = here[0];
  }

  function drawStrip() {
    const unit = em() * COLUMN, a = Math.max(0, Math.floor(sheet.scrollLeft / unit) - 4), b = a + Math.ceil((sheet.clientWidth || 900) / unit) + 8;
    drawCells(scene(run, at, a, b));
    drawScale(timeline.steps.slice(a, b).map((step, i) => ({ key: a + i, x: (a + i) * COLUMN, text: String(step.index), now: a + i === at })));
  }

  function pickNext(direction) {
    const here = timeline.steps[at]?.rows.map((row) => row.request) ?? [];
    if (!here.length) return;
    const now = here.indexOf(picked ?? chosen(run, at)?.request);
    picked = here[(now + direction + here.length) % here.length];
    draw();
  }

  function nextLoss() {
    const lost = timeline.steps.flatMap((step, i) => (step.rows.some((row) => row.state === "preempted") ? [i] : []));
    return lost.find((i) => i > at) ?? lost[0] ?? at;
  }

  sheet.addEventListener("scroll", () => requestAnimationFrame(() => run && root.isConnected && drawStrip()), { passive: true });
  const sized = new ResizeObserver(() => draw());
  const offs = [
    watchTheme(root, host), () => sized.disconnect(), saved.cancel, deck.stop,
    store.on("timeline", () => { deck.stop(); load(); }), store.on("step", () => { if (store.get("step") !== at) show(store.get("step"), true); }),
  ];
  load();
  sized.observe(root);
  return () => {
    for (const off of offs) off();
    root.remove();
  };
});

export default forKernel(mount);
