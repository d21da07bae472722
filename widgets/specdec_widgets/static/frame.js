/**
 * The frame that a view draws in: a focusable root with a theme from its host, a list of keys, large type.
 *
 * Invariant: whatever `frame` starts, `close` ends. It knows no view.
 */

import { button, el, laser, scrolls, watchTheme } from "./elements.js";

/** @param {HTMLElement} host  @param {string} cls  @param {string} label  @param {string[][]} keys */
export function frame(host, cls, label, keys) {
  const root = el("section", "specdec-player " + cls);
  root.tabIndex = 0;
  root.setAttribute("aria-label", label + "; press ? for the keys");
  root.dataset.lmSuppressShortcuts = "true";
  const rows = [...keys, ["P", "large type, high contrast"], ["?", "this help"], ["Esc", "leave the view"]];
  const help = el("div", "keys", el("dl", "", ...rows.flatMap(([key, what]) => [el("dt", "", key), el("dd", "", what)])));
  help.hidden = true;
  const toggle = (open = help.hidden) => {
    help.hidden = !open;
    helpButton.setAttribute("aria-expanded", String(open));
  };
  const helpButton = button("help", "Keys (?)", () => toggle());
  laser(root);
  host.append(root);
  const unwatch = watchTheme(root, host);

  /** Hear keys: `own` returns true for a key that it took. Fields of text keep theirs. */
  function keysTo(own) {
    root.addEventListener("keydown", (event) => {
      const { key, target } = event;
      if (event.ctrlKey || event.metaKey || event.altKey || key === "Tab") return;
      const field = /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && target.type !== "range";
      if (key === "Escape") {
        if (!help.hidden) toggle(false);
        else /** @type {HTMLElement|null} */ (document.activeElement)?.blur();
      } else if (field || scrolls(event)) return event.stopPropagation(); // the field's own key; a host would take it for a command
      else if (/BUTTON|SUMMARY/.test(target.tagName) && (key === " " || key === "Enter")) return;
      else if (!own(event)) {
        if (key === "p" || key === "P") root.toggleAttribute("data-projector");
        else if (key === "?") toggle();
        else return;
      }
      event.preventDefault();
      event.stopPropagation();
    });
  }

  function close() {
    unwatch();
    root.remove();
  }
  return { root, help, helpButton, keysTo, close };
}

/** A button with words on it. */
export const command = (text, act, cls = "") => {
  const node = el("button", "command " + cls, text);
  node.type = "button";
  node.addEventListener("click", act);
  return node;
};
