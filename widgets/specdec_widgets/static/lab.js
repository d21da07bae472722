/**
 * The acceptance lab: p and q to drag, what is accepted and corrected, the law of every rule, draws of the engine.
 *
 * Invariant: everything follows from (lab, drawn) of the store; no number here is random. Draws come from the kernel,
 * and a lab without one says so. Labels enter the page as text nodes only.
 */

import { clip, mark, num, plural, quote } from "./words.js";
import { el, forKernel, memory, option, put, scrollable, svg } from "./elements.js";
import { command, frame } from "./frame.js";
import { accepted, ceiling, corrected, distance, ENGINE, laws, moved, RULES, stands, total, wobble } from "./laws.js";

export { memory };

const PRESETS = {
  textbook: [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]], "four tokens": [[0.4, 0.3, 0.2, 0.1], [0.1, 0.15, 0.25, 0.5]],
  "certain draft": [[0.6, 0.3, 0.1], [0, 1, 0]], "far apart": [[0.9, 0.05, 0.05], [0.05, 0.05, 0.9]],
  "the same": [[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]],
};
const HELP = [["Tab", "next bar or button"], ["↑ ↓", "move the bar by .01"], ["Shift ↑ ↓", "by .10"], ["Home End", "0, 1"], ["D", "draw 100"]];
const EXACT = 5e-7, RIGHT = Object.values(ENGINE);
const ONE = "One draft is judged here, so block verification is the rejection rule: they part where several are judged together.";

/** What the two laws say, in a sentence. */
export function say(p, q, labels) {
  const alpha = total(accepted(p, q)), beta = Math.max(0, 1 - alpha);
  if (beta < EXACT) return "p and q are the same: every draft is accepted, and nothing is corrected.";
  const gain = corrected(p, q), most = gain.indexOf(Math.max(...gain)), off = distance(laws(p, q).redraw, p);
  return `Of all drafts, α = ${num(alpha)} are accepted; the other β = ${num(beta)} are corrected, most of them to ${quote(labels[most])}. ` +
    `Drawing from p instead would be off by ${num(off)}. With one noise for both, ${num(stands(p, q).coupled)} are accepted.`;
}

/** What the draws say, in two sentences; `share` of the drafts should stand. */
export function told(drawn, p, share) {
  const n = total(drawn.counts);
  if (!n) return "No draw yet.";
  const off = distance(drawn.counts.map((c) => c / n), p);
  return `${plural(n, "draw")} of the engine: off by ${num(off)}; honest draws are off by ${num(wobble(p, n))} on average. ` +
    `Of the drafts ${num(drawn.stood / n)} stood; the rule accepts ${num(share)}.`;
}

/** The chart's places: draws on a logarithmic axis, distance from p on a root axis, both in [0, 1]. */
export function chart(p, q, path) {
  const last = Math.max(1000, path.length ? path.at(-1)[0] : 0), x = (n) => Math.log(Math.max(n, 20) / 20) / Math.log(last / 20);
  const wrong = Object.entries(laws(p, q)).filter(([key]) => !RIGHT.includes(key)).map(([key, law]) => ({ key, off: distance(law, p) })).filter((w) => w.off > EXACT);
  const high = Math.max(0.05, ...wrong.map((w) => w.off), wobble(p, 20), ...path.map(([, off]) => off)), y = (off) => Math.sqrt(off / high);
  const marks = [20, 100, 1000, 10000].filter((n) => n <= last);
  const typical = Array.from({ length: 41 }, (_, i) => 20 * (last / 20) ** (i / 40));
  return {
    ticks: marks.map((n) => ({ n, x: x(n) })), heights: [0, high / 4, high].map((off) => ({ off, y: y(off) })),
    wrong: wrong.map(({ key, off }) => ({ key, off, y: y(off) })), typical: typical.map((n) => [x(n), y(wobble(p, n))]),
    path: path.map(([n, off]) => [x(n), y(off)]),
  };
}

/** @param {HTMLElement} host  @param {import("./elements.js").Store} store  @returns {() => void} */
export function mount(host, store) {
  const { root, help, helpButton, keysTo, close } = frame(host, "specdec-lab", "Acceptance lab", HELP);
  let p, q, names, rule, scale = 1, widest = 1, held = null, saving = 0, asked = 0;
  const alphaText = el("span", "alpha"), betaText = el("span", "beta"), preset = el("select", "preset", option("", "examples"), ...Object.keys(PRESETS).map((k) => option(k, k)));
  preset.setAttribute("aria-label", "examples");
  preset.addEventListener("change", () => {
    if (!preset.value) return;
    const [a, b] = PRESETS[preset.value];
    change(a, b, a.map((_, i) => names[i] ?? "abcdefgh"[i]));
    root.focus({ preventScroll: true });
  });
  const swap = command("swap p and q", () => change(q, p));
  const plot = el("div", "towers"), legend = el("div", "legend", ...[["q", "draft q, to drag"], ["accept", "✓ accepted, min(p, q)"], ["over", "✗ rejected"], ["gain", "↺ corrected, [p − q]₊"], ["p", "target p, to drag"]]
    .map(([cls, text]) => el("span", "", el("i", "sample " + cls), text)));
  const strip = el("div", "axis mass", el("i", "accept"), el("i", "reject")), words = el("p", "narration");
  words.setAttribute("aria-live", "polite");
  const head = el("tr", ""), body = el("tbody", ""), rules = el("table", "rules", el("thead", "", head), body);
  const chosen = el("select", "rule", ...Object.keys(ENGINE).map((k) => option(k, k)));
  chosen.addEventListener("change", () => { rule = chosen.value; change(p, q); });
  const more = command("draw 100", () => ask("draw", 100)), many = command("draw 2,000", () => ask("draw", 2000));
  const stopper = command("stop", () => ask("stop")), wipe = command("clear", () => ask("clear"));
  const count = el("p", "count"), status = el("p", "status"), curve = svg("svg", { class: "curve", role: "img" });
  status.setAttribute("role", "status");
  const engine = el("div", "engine", el("h3", "", "draws of the engine"), el("div", "controls", el("label", "", "rule ", chosen), more, many, stopper, wipe), count, curve, status);
  const absent = el("p", "quiet", "Draws come from an engine: open this lab in a notebook with one to see them.");
  root.append(
    el("header", "", el("strong", "cycle", "Acceptance lab"), el("span", "facts")), el("div", "controls", preset, swap, helpButton),
    plot, legend, el("div", "strip mass", el("p", "", alphaText, betaText), strip), words, scrollable(el("div", "sheet", rules)), el("p", "quiet", ONE), engine, absent, help,
  );

  const column = (i, which) => {
    const node = el("div", "col " + which, el("i", which === "q" ? "accept" : "target"), ...(which === "q" ? [el("i", "over")] : []), el("span", "grip"));
    node.tabIndex = 0;
    node.setAttribute("role", "slider");
    node.setAttribute("aria-orientation", "vertical");
    node.setAttribute("aria-valuemin", "0");
    node.setAttribute("aria-valuemax", "1");
    Object.assign(node.dataset, { which, token: i });
    return node;
  };

  function build() {
    plot.replaceChildren(...names.map((name, i) => {
      const label = clip(mark(name), 12), stack = el("div", "col stack", el("i", "accept"), el("i", "gain"));
      stack.setAttribute("aria-hidden", "true");
      return el("div", "token-group", el("div", "cols", column(i, "q"), stack, column(i, "p")), Object.assign(el("bdi", "token", label), { title: clip(mark(name), 200) }), el("p", "sum"));
    }));
    head.replaceChildren(...["rule", ...names.map((n) => clip(mark(n), 10)), "off by", "accepts"].map((text, i) => Object.assign(el("th", i ? "" : "name", text), { scope: "col", title: i && i <= names.length ? clip(mark(names[i - 1]), 200) : "" })));
    rules.style.setProperty("--columns", String(names.length));
    const rows = [...Object.entries(RULES), ["engine", ""]];
    body.replaceChildren(...rows.map(([key, text]) => {
      const name = Object.assign(el("th", "name", text), { scope: "row" });
      const row = el("tr", key, name, ...names.map(() => el("td", "", el("span", "law", el("i", "base"), el("i", "diff"), el("b", "at")), el("span", "v"))), el("td", "off"), el("td", "share"));
      return row;
    }));
  }

  const tall = (node, share) => { node.style.height = (100 * share).toFixed(2) + "%"; };
  function draw() {
    const least = accepted(p, q), rest = corrected(p, q), alpha = total(least), all = laws(p, q);
    if (held === null) scale = ceiling(...p, ...q);
    put(alphaText, `✓ accepted α = ${num(alpha)}`);
    put(betaText, `✗ rejected β = ${num(Math.max(0, 1 - alpha))}`);
    strip.firstChild.style.width = (100 * alpha).toFixed(2) + "%";
    strip.lastChild.style.width = (100 * (1 - alpha)).toFixed(2) + "%";
    [...plot.children].forEach((group, i) => {
      const [left, stack, right] = group.firstChild.children, label = quote(clip(mark(names[i]), 24));
      tall(left.children[0], least[i] / scale);
      tall(left.children[1], Math.max(0, q[i] - p[i]) / scale);
      tall(stack.children[0], least[i] / scale);
      tall(stack.children[1], rest[i] / scale);
      tall(right.children[0], p[i] / scale);
      for (const [node, which, value] of [[left, "draft q", q[i]], [right, "target p", p[i]]]) {
        node.lastChild.style.bottom = (100 * Math.min(1, value / scale)).toFixed(2) + "%";
        node.setAttribute("aria-label", `${which} of ${label}`);
        node.setAttribute("aria-valuenow", value.toFixed(3));
        node.setAttribute("aria-valuetext", num(value));
      }
      const sum = group.lastChild;
      sum.replaceChildren(el("span", "green", "✓\u00a0" + num(least[i])), " + ", el("span", "blue", "↺\u00a0" + num(rest[i])), ` = ${num(p[i])}`);
    });
    put(words, say(p, q, names.map((n) => mark(n))));
    widest = Math.max(...p, ...Object.values(all).flat());
    const shares = stands(p, q);
    for (const [key, law] of Object.entries(all)) drawRow(body.querySelector("tr." + key), law, RIGHT.includes(key) ? "right" : "wrong", shares[key]);
    drawDraws();
  }

  function drawRow(row, law, cls, share) {
    const off = law ? distance(law, p) : 0, most = Math.max(widest, ...(law ?? []));
    row.className = row.className.split(" ")[0] + " " + (cls === "right" || (cls && off > EXACT) ? cls : "");
    [...row.children].slice(1, -2).forEach((cell, i) => {
      const [bar, value] = cell.children, [base, diff, at] = bar.children, here = law ? law[i] : 0, less = Math.min(here, p[i]);
      base.style.width = (100 * less / most).toFixed(2) + "%";
      diff.style.width = law ? (100 * Math.abs(here - p[i]) / most).toFixed(2) + "%" : "0";
      diff.className = "diff " + (here > p[i] ? "over" : "under");
      at.style.left = (100 * p[i] / most).toFixed(2) + "%";
      put(value, law ? num(here) : "–");
      cell.title = law ? `${num(here, 4)}, p = ${num(p[i], 4)}` : "";
    });
    put(row.querySelector(".off"), !law ? "–" : off < EXACT ? "✓ 0" : (cls ? "✗ " : "") + num(off));
    put(row.lastChild, law ? num(share) : "–");
  }

  function drawDraws() {
    const drawn = store.get("drawn") ?? { counts: [], stood: 0, path: [], running: false }, live = Boolean(store.get("can_rerun"));
    engine.hidden = !live;
    absent.hidden = live;
    body.querySelector("tr.engine").hidden = !live;
    if (!live) return;
    const fits = drawn.counts.length === p.length, n = fits ? total(drawn.counts) : 0, row = body.querySelector("tr.engine");
    put(row.firstChild, n ? `the engine, ${plural(n, "draw")}` : "the engine, no draw yet");
    drawRow(row, n ? drawn.counts.map((c) => c / n) : null, "", drawn.stood / n);
    put(count, fits ? told(drawn, p, stands(p, q)[ENGINE[rule]]) : "No draw yet.");
    chosen.value = rule;
    stopper.disabled = !drawn.running;
    more.disabled = many.disabled = drawn.running;
    put(status, store.get("status") ?? "");
    drawCurve(chart(p, q, fits ? drawn.path : []));
    curve.setAttribute("aria-label", `Distance of the drawn frequencies from p, by number of draws. ${count.textContent}`);
  }

  function drawCurve({ ticks, heights, wrong, typical, path }) {
    const wide = Math.max(270, Math.min(680, root.clientWidth - 40)), span = wide - 46 - 108, right = 46 + span;
    curve.setAttribute("viewBox", `0 0 ${wide} 210`);
    curve.style.width = wide + "px";
    const x = (v) => (46 + span * v).toFixed(1), y = (v) => (180 - 165 * v).toFixed(1);
    const line = (cls, points) => svg("path", { class: cls, d: "M" + points.map(([a, b]) => `${x(a)} ${y(b)}`).join("L") });
    const text = (cls, a, b, said, anchor = "start") => { const node = svg("text", { class: cls, x: a, y: b, "text-anchor": anchor }); node.textContent = said; return node; };
    const nodes = [svg("path", { class: "frame", d: `M46 15V180H${right}` })];
    for (const t of ticks) nodes.push(text("quiet", x(t.x), 200, t.n.toLocaleString("en"), "middle"));
    for (const h of heights) nodes.push(text("quiet", 40, +y(h.y) + 4, num(h.off), "end"));
    let low = -99;
    for (const w of [...wrong].sort((a, b) => b.y - a.y)) {
      nodes.push(svg("path", { class: "bias", d: `M46 ${y(w.y)}H${right}` }));
      low = Math.max(low + 15, +y(w.y) + 4);
      nodes.push(text("bias-name", right + 6, low, "✗ " + { redraw: "draw from p", kept: "accepted only", threshold: "threshold", argmax: "likeliest draft", same_u: "one u" }[w.key]));
    }
    nodes.push(line("typical", typical));
    if (path.length) nodes.push(line("path", path), svg("circle", { class: "now", cx: x(path.at(-1)[0]), cy: y(path.at(-1)[1]), r: 4 }));
    curve.replaceChildren(...nodes);
  }

  function change(a, b, labels = names) {
    const fresh = labels.length !== names.length;
    p = a; q = b; names = labels;
    if (fresh) build();
    draw();
    clearTimeout(saving);
    saving = setTimeout(() => store.set("lab", { p, q, labels: names, rule }), held === null ? 200 : 400);
  }

  function ask(what, n = 0) {
    clearTimeout(saving);
    const lab = store.get("lab");
    if (what === "draw" && (lab.p !== p || lab.q !== q || lab.rule !== rule)) store.set("lab", { p, q, labels: names, rule });
    store.set("request", { do: what, count: n, n: ++asked });
  }

  function move(node, value) {
    const i = +node.dataset.token, to = Math.round(value * 100) / 100;
    preset.value = "";
    if (node.dataset.which === "p") change(moved(p, i, to), q);
    else change(p, moved(q, i, to));
  }

  plot.addEventListener("pointerdown", (event) => {
    const node = event.target.closest("[role=slider]");
    if (!node) return;
    held = node;
    node.focus({ preventScroll: true });
    node.setPointerCapture(event.pointerId);
    event.preventDefault();
    drag(event);
  });
  function drag(event) {
    if (!held) return;
    const box = held.getBoundingClientRect();
    move(held, Math.max(0, Math.min(1, ((box.bottom - event.clientY) / box.height) * scale)));
  }
  plot.addEventListener("pointermove", drag);
  for (const name of ["pointerup", "pointercancel"]) plot.addEventListener(name, () => { if (held) { held = null; draw(); } });

  keysTo(({ key, target, shiftKey }) => {
    if (target.getAttribute("role") === "slider") {
      const now = +(target.dataset.which === "p" ? p : q)[+target.dataset.token], by = shiftKey ? 0.1 : 0.01;
      const to = { ArrowUp: now + by, ArrowRight: now + by, ArrowDown: now - by, ArrowLeft: now - by, PageUp: now + 0.1, PageDown: now - 0.1, Home: 0, End: 1 }[key];
      if (to !== undefined) { move(target, Math.max(0, Math.min(1, to))); return true; }
    }
    if ((key === "d" || key === "D") && store.get("can_rerun")) { ask("draw", 100); return true; }
    return false;
  });

  function load() {
    const lab = store.get("lab");
    if (p === lab.p && q === lab.q && names === lab.labels && rule === lab.rule) return;
    ({ p, q, labels: names, rule } = lab);
    build();
    draw();
  }
  const offs = [store.on("lab", () => { if (JSON.stringify(store.get("lab")) !== JSON.stringify({ p, q, labels: names, rule })) load(); else ({ p, q, labels: names, rule } = store.get("lab")); }),
    store.on("drawn", drawDraws), store.on("status", drawDraws), store.on("can_rerun", drawDraws)];
  load();
  const sized = new ResizeObserver(drawDraws);
  sized.observe(root);
  return () => {
    clearTimeout(saving);
    sized.disconnect();
    for (const off of offs) off();
    close();
  };
}

export default forKernel(mount);
