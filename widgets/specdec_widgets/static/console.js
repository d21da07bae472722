/**
 * A form above a player: fields, Run and Stop, a line of status, a table of what was found.
 *
 * Invariant: it draws what the store holds and sends what was chosen; it computes nothing. Texts enter as text nodes.
 */

import { el, forKernel, memory, option, put, scrollable } from "./elements.js";
import { command, frame } from "./frame.js";

export { memory };

const HELP = [["Tab", "next field"], ["Enter", "run, from a field of text"], ["R", "run"], ["S", "stop"]];

/** Fields whose values are told to the kernel as they change. @param {HTMLElement} host  @param {import("./elements.js").Store} store */
export function mount(host, store) {
  const { root, help, helpButton, keysTo, close } = frame(host, "specdec-console", store.get("title"), HELP);
  const form = el("div", "form"), status = el("p", "status"), found = scrollable(el("div", "found")), inputs = new Map();
  const run = command("run", () => ask("run"), "run"), stop = command("stop", () => ask("stop"), "halt");
  let asked = 0, waiting = 0;
  status.setAttribute("role", "status");
  root.append(el("header", "", el("strong", "cycle", store.get("title")), helpButton), form, el("div", "controls", run, stop, status), found, help);

  function ask(what, more = {}) {
    if (what === "run") {
      if (store.get("running")) return;
      store.set("values", read());
      if (!store.get("auto")) put(status, "asked…");
      clearTimeout(waiting);
      waiting = setTimeout(() => put(status, "no answer from the kernel yet: if it was restarted, run this cell again"), 20000);
    }
    store.set("request", { do: what, n: ++asked, ...more });
  }

  function read() {
    return Object.fromEntries(store.get("fields").map(({ key, kind }) => {
      const { value } = inputs.get(key);
      return [key, kind === "number" ? (value.trim() === "" ? null : +value) : value];
    }));
  }

  function build() {
    inputs.clear();
    form.replaceChildren(...store.get("fields").map((field) => {
      const input = el(field.kind === "choice" ? "select" : field.key === "prompt" ? "textarea" : "input", "");
      if (field.kind === "choice") input.append(...field.options.map((text) => option(text, text)));
      if (field.kind === "number") Object.assign(input, { type: "number", min: String(field.low), max: String(field.high), step: String(field.step) });
      if (input.tagName === "TEXTAREA") input.rows = 2;
      input.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && !event.shiftKey && input.tagName !== "SELECT") { event.preventDefault(); ask("run"); }
      });
      if (store.get("auto")) input.addEventListener("change", () => ask("run"));
      inputs.set(field.key, input);
      return el("label", "entry " + field.kind + " " + field.key, el("span", "", field.label), input);
    }));
    values();
  }

  function values() {
    for (const [key, value] of Object.entries(store.get("values") ?? {})) {
      const input = inputs.get(key);
      if (input && input !== document.activeElement && input.value !== String(value)) input.value = String(value);
    }
  }

  function state() {
    clearTimeout(waiting);
    const running = Boolean(store.get("running"));
    root.dataset.running = String(running);
    run.disabled = running;
    stop.disabled = !running;
    stop.hidden = Boolean(store.get("auto"));
    const said = store.get("status") ?? "";
    put(status, said);
    status.classList.toggle("error", /^\w*(Error|Failure|Input): /.test(said));
  }

  function table() {
    const { rows = [], note = "" } = store.get("findings") ?? {};
    found.hidden = !rows.length;
    if (!rows.length) return;
    const head = ["holds", "invariant", "where it fails", "first of it"].map((text, i) => Object.assign(el("th", "", i ? text : el("span", "unseen", text)), { scope: "col" }));
    const body = rows.map((row) => {
      const name = Object.assign(el("th", "", el("b", "", row.name), el("span", "quiet", row.said)), { scope: "row" });
      const where = row.first === null || row.first === undefined ? el("span", "", row.where) : command(row.where, () => ask("cycle", { cycle: row.first }), "jump");
      if (row.first !== null && row.first !== undefined) where.title = `show cycle ${row.first} below`;
      return el("tr", row.broken ? "broken" : "holds", el("td", "verdict", row.broken ? "✗" : "✓"), name, el("td", "", where), el("td", "message", row.message));
    });
    const broken = rows.filter((row) => row.broken), rest = rows.length - broken.length;
    const make = (cls, part) => el("table", cls, el("thead", "", el("tr", "", ...head.map((h) => h.cloneNode(true)))), el("tbody", "", ...part));
    const holds = el("details", "", el("summary", "", `${rest} of ${rows.length} hold`), make("", body.slice(broken.length)));
    found.replaceChildren(...(note ? [el("p", "note", note)] : []), ...(broken.length ? [make("", body.slice(0, broken.length))] : []), holds);
  }

  keysTo(({ key, target }) => {
    if (target !== root) return false;
    if (key === "r" || key === "R") ask("run");
    else if (key === "s" || key === "S") ask("stop");
    else return false;
    return true;
  });
  const offs = [store.on("fields", build), store.on("values", values), store.on("running", state), store.on("status", state), store.on("findings", table)];
  build();
  state();
  table();
  return () => {
    clearTimeout(waiting);
    for (const off of offs) off();
    close();
  };
}

export default forKernel(mount);
