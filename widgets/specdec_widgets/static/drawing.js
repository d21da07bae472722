/**
 * The elements of the cycle player: an item and a line of the lanes, and the ledger.
 *
 * Invariant: each is built from plain data; token texts enter as text nodes only. It does not know where they stand.
 */

import { clip, GLYPH, num, sub } from "./words.js";
import { el, token } from "./elements.js";

export const NAMES = { unused: "discarded" };

export function drawItem(node, item) {
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

export function drawLine(node, item) {
  const { x1, y1, x2, y2 } = item, along = item.cls === "rewind";
  node.setAttribute("class", item.cls);
  const a = Math.atan2(y2 - y1, x2 - x1), tip = 0.42, spread = 0.5;
  const point = (x, y) => `${x.toFixed(3)} ${y.toFixed(3)}`, to = point(x2, y2);
  const head = [a + spread, a - spread].map((t) => point(x2 - tip * Math.cos(t), y2 - tip * Math.sin(t)));
  const start = along ? `M${point(x1, y1 - 0.3)}v.6` : "";
  node.setAttribute("d", `M${point(x1, y1)}L${to}M${head[0]}L${to}L${head[1]}${start}`);
}

export const bar = (cls, share) => {
  const node = el("i", cls);
  node.style.width = Math.max(0, Math.min(100, share * 100)).toFixed(2) + "%";
  return node;
};

const UNJUDGED = { proposed: "not judged yet", cut: "behind the end of the text", unused: "discarded: never judged" };
const UNKNOWN = "p, q and u are unknown: whoever ran this did not record them";

/** A line over a bar, with what it stands for below. */
function line(at, what) {
  const node = el("b", "u", el("span", "", what));
  node.style.left = (Math.max(0, Math.min(1, at)) * 100).toFixed(2) + "%";
  return node;
}

/** A token in short; the mouse shows all of it. */
const named = (label, most) => Object.assign(token(clip(label, most)), { title: clip(label, 200) });

const PARTS = [["min", "both"], ["excess-p", "p only"], ["excess-q over", "q only"]];

/** The ledger's elements for its data; `test` is the acceptance test in words. */
export function drawLedger(data, words) {
  const last = data.kind === "last", { rows, rest } = data, every = [...rows, { label: "rest", ...rest, role: "rest" }];
  const top = Math.max(...every.map((r) => Math.max(r.p ?? 0, r.q ?? 0)), 1e-9);
  const most = Math.max(...every.map((r) => r.residual ?? 0), 1e-9);
  const mark = last ? data.last : data.state, name = last ? (data.row ? "bonus" : "next token") : NAMES[mark] ?? mark;
  const verdict = el("span", "verdict " + mark, [GLYPH[mark], name].filter(Boolean).join(" "));
  const title = el("h3", "", last ? verdict : sub(data.position), named(data.label, 24), last ? "" : verdict);
  title.append(el("span", "row-name", "row " + data.row));
  const head = [title];
  if (data.unknown) return [title, el("p", "quiet", UNKNOWN)];
  if (!last && data.known) {
    const { d } = data, strips = el("div", "strips"), judged = data.state === "accepted" || data.state === "rejected";
    const testStrip = el("div", "strip test"), t = d.accept_probability;
    testStrip.append(el("p", "", judged ? words : UNJUDGED[data.state]));
    if (judged && d.u !== null && t !== null) {
      testStrip.append(el("div", "axis", bar("accept", t), bar("reject", 1 - t), line(d.u, "u")));
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
    if (name === "p over q" && data.threshold !== null) th.append(el("span", "part", el("i", "at"), "u · q"));
    thead.append(th);
  }
  table.append(el("thead", "", thead));
  const body = el("tbody");
  for (const r of every) {
    const name = r.role === "rest" ? el("span", "quiet", "rest") : named(r.label, 14), label = el("th", "name", name);
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
    const shown = el("div", "shown", ...plot.childNodes);
    if (r.role === "proposed" && data.threshold !== null) shown.append(line(data.threshold / top, ""));
    plot.append(shown);
    const cells = last ? [num(r.p)] : [num(r.p), num(r.q), num(r.min)];
    const tr = el("tr", r.role, label, plot, ...cells.map((v) => el("td", "n", v)));
    const share = el("div", "bars", bar("residual", (r.residual ?? 0) / most));
    if (!last) tr.append(el("td", "n residual", share, el("span", "", num(r.residual))));
    body.append(tr);
  }
  table.append(body);
  return [...head, table];
}
