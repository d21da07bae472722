/**
 * What the views build their pages from: elements, icons, keyed lists, the host's theme, a store without a kernel.
 *
 * Invariant: texts enter the page as text nodes only. It knows no view.
 *
 * @typedef {{get(key: string): any, set(key: string, value: any): void, on(key: string, f: () => void): () => void}} Store
 */

const ICONS = {
  "prev-cycle": "M4 3v10M13 3 6 8l7 5z", prev: "M11 3 4 8l7 5z", play: "M5 2.5 13 8l-8 5.5z", pause: "M5 3v10M11 3v10",
  next: "M5 3l7 5-7 5z", "next-cycle": "M12 3v10M3 3l7 5-7 5z", reject: "M4 4l8 8M12 4l-8 8",
  help: "M6 6a2.2 2.2 0 1 1 3 2c-.8.4-1 .8-1 1.6M8 12.4v.4",
};

export const el = (tag, cls, ...inside) => {
  const node = document.createElement(tag);
  if (cls) node.className = cls;
  node.append(...inside);
  return node;
};
export const svg = (tag, attrs) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [k, v] of Object.entries(attrs)) node.setAttribute(k, v);
  return node;
};
export const put = (node, text) => { if (node.textContent !== text) node.textContent = text; };
export const icon = (name) => {
  const node = svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" });
  node.append(svg("path", { d: ICONS[name] }));
  return node;
};
export const button = (name, label, act) => {
  const node = el("button", "icon " + name, icon(name));
  node.type = "button";
  node.title = label;
  node.setAttribute("aria-label", label);
  node.addEventListener("click", act);
  return node;
};
export const option = (value, text) => Object.assign(el("option", "", text), { value });
/** A token label: its leading white-space mark is quieter than the rest. */
export const token = (label) => {
  const [, lead, rest] = /^([␣↵⇥]*)([^]*)$/.exec(label), node = el("bdi", "token");
  if (lead && rest) node.append(el("span", "blank", lead), rest);
  else node.append(label);
  return node;
};

/** Keep the children of a parent equal to a list of keyed items; untouched items cost one comparison. */
export function keyed(parent, make, update) {
  const live = new Map();
  return (items) => {
    const seen = new Set();
    for (const item of items) {
      seen.add(item.key);
      let entry = live.get(item.key);
      if (!entry) {
        live.set(item.key, (entry = { node: make(item), was: "" }));
        parent.append(entry.node);
      }
      const now = JSON.stringify(item);
      if (now !== entry.was) update(entry.node, item);
      entry.was = now;
    }
    for (const [key, entry] of live) if (!seen.has(key)) { entry.node.remove(); live.delete(key); }
  };
}

/** True when the nearest painted background behind a node is dark. */
export function onDark(node) {
  for (let n = node; n; n = n.parentElement) {
    const parts = getComputedStyle(n).backgroundColor.match(/[\d.]+/g)?.map(Number);
    if (parts && (parts.length < 4 || parts[3] > 0.5)) return 0.299 * parts[0] + 0.587 * parts[1] + 0.114 * parts[2] < 128;
  }
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** The store of a page without a kernel: plain values, changed only by the player. @returns {Store} */
export function memory(values) {
  const calls = {};
  return {
    get: (key) => values[key],
    set: (key, value) => { values[key] = value; for (const f of calls[key] ?? []) f(); },
    on: (key, f) => { (calls[key] ??= new Set()).add(f); return () => calls[key].delete(f); },
  };
}
