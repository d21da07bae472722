/**
 * What the views build their pages from: elements, icons, keyed lists, the host's theme, stores with a kernel and without.
 *
 * Invariant: texts enter the page as text nodes only. It knows no view.
 *
 * @typedef {{get(key: string): any, set(key: string, value: any): void, on(key: string, f: () => void): () => void}} Store
 */

const ICONS = {
  "prev-cycle": "M3 3.5v9M13.5 8H6.5M10 4.5 6.5 8l3.5 3.5", prev: "M13.5 8H3M6.5 4.5 3 8l3.5 3.5",
  next: "M2.5 8H13M9.5 4.5 13 8l-3.5 3.5", "next-cycle": "M13 3.5v9M2.5 8h7M6 4.5 9.5 8 6 11.5",
  play: "M5 2.5 13 8l-8 5.5z", pause: "M5 3v10M11 3v10", reject: "M2 4.5l6 7M8 4.5l-6 7M10.5 8H15M12.8 5.8 15 8l-2.2 2.2",
  apart: "M2 8h4M6 8l3-3.5h5M6 8l3 3.5h5", help: "M6 6a2.2 2.2 0 1 1 3 2c-.8.4-1 .8-1 1.6M8 12.4v.4",
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

/** Let the tabulator stop at a part of a view where it does not fit, so that keys can scroll it. */
export function scrollable(node) {
  new ResizeObserver(() => {
    if (node.scrollWidth > node.clientWidth + 1 || node.scrollHeight > node.clientHeight + 1) node.tabIndex = 0;
    else node.removeAttribute("tabindex");
  }).observe(node);
  return node;
}

/** Whether a key scrolls the part that has the focus: what a view's own keys move into sight, a pane, is not meant. */
export function scrolls({ key, target }) {
  const side = /^Arrow(Left|Right)$/.test(key) ? "Width" : /^Arrow(Up|Down)$/.test(key) ? "Height" : "";
  if (!side || target.matches(".pane, input, select, textarea")) return false;
  return target["scroll" + side] > target["client" + side] + 1 && /auto|scroll/.test(getComputedStyle(target)["overflow" + (side === "Width" ? "X" : "Y")]);
}

/** True when the nearest painted background behind a node is dark. */
export function onDark(node) {
  for (let n = node; n; n = n.parentElement) {
    const parts = getComputedStyle(n).backgroundColor.match(/[\d.]+/g)?.map(Number);
    if (parts && (parts.length < 4 || parts[3] > 0.5)) return 0.299 * parts[0] + 0.587 * parts[1] + 0.114 * parts[2] < 128;
  }
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Keep `root.dataset.theme` equal to what lies behind `host`. @returns {() => void} stops it */
export function watchTheme(root, host) {
  const tell = () => { root.dataset.theme = onDark(host) ? "dark" : "light"; };
  const later = () => { tell(); for (const ms of [300, 1500]) setTimeout(tell, ms); }; // a host's colours may load after its attribute
  const seen = new MutationObserver(later), scheme = matchMedia("(prefers-color-scheme: dark)");
  for (const node of [document.documentElement, document.body]) seen.observe(node, { attributes: true });
  scheme.addEventListener("change", tell);
  later();
  return () => {
    seen.disconnect();
    scheme.removeEventListener("change", tell);
  };
}

/** In large type the mouse is a laser pointer: a ring that follows it over `root`. */
export function laser(root) {
  const ring = el("i", "laser");
  ring.setAttribute("aria-hidden", "true");
  root.append(ring);
  root.addEventListener("pointermove", (event) => {
    if (!root.hasAttribute("data-projector")) return;
    const box = root.getBoundingClientRect();
    ring.style.transform = `translate(${event.clientX - box.left - root.clientLeft}px, ${event.clientY - box.top - root.clientTop}px)`;
  });
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

/** Mount a view unless `refusal` names a reason why it cannot read what the store holds under `key`: then show that. */
export const reading = (key, refusal, mount) => (host, store) => {
  const why = refusal(store.get(key));
  if (!why) return mount(host, store);
  const root = el("section", "specdec-player refused", el("p", "status", why)), off = watchTheme(root, host);
  root.firstChild.setAttribute("role", "alert");
  host.append(root);
  return () => { off(); root.remove(); };
};

/** A view as anywidget wants it: `mount` with a kernel's model for a store. */
export const forKernel = (mount) => ({
  render: ({ model, el: host }) => mount(host, {
    get: (key) => model.get(key),
    set: (key, value) => { model.set(key, value); model.save_changes(); },
    on: (key, f) => {
      model.on("change:" + key, f);
      return () => model.off("change:" + key, f);
    },
  }),
});
