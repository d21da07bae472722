/**
 * The controls that every player has: step, play, scrub, speed and help, and the keys that do the same.
 *
 * Invariant: keys act while the player has the focus, never reach the host once they are used, and never trap the focus.
 * It knows that a run has steps, not what they are.
 *
 * @typedef {{at: () => number, last: () => number, show: (i: number) => void, hop?: (direction: number) => void,
 *   buttons: HTMLElement[], keys: string[][], letters: RegExp, press: (key: string) => boolean}} Deck
 *   `hop` moves by a cycle; `buttons` stand before the speed; `letters` act even in a list of choices; `press` says
 *   whether it took a key.
 */

import { button, el, icon, laser, option, scrolls } from "./elements.js";

const SPEEDS = [0.5, 1, 2, 4], TICK = 1300;
const EVERY = [["Space", "play or pause"], ["P", "large type, high contrast"], ["?", "this help"], ["Esc", "leave the player"]];

/** Build the controls of a player. @param {HTMLElement} root  @param {Deck} deck */
export function transport(root, deck) {
  let playing = 0, speed = 1;
  const go = (i) => { stop(); deck.show(Math.max(0, Math.min(deck.last(), i))); };
  const hop = deck.hop && ((direction) => { stop(); deck.hop(direction); });
  const playButton = button("play", "Play (space)", () => (playing ? stop() : play()));
  const scrub = Object.assign(el("input", "scrub"), { type: "range", min: "0", step: "1", value: "0" });
  scrub.setAttribute("aria-label", "step");
  scrub.addEventListener("input", () => go(+scrub.value));
  const pick = el("select", "speed", ...SPEEDS.map((s) => option(String(s), s + "×")));
  pick.value = "1";
  pick.setAttribute("aria-label", "speed");
  pick.addEventListener("change", () => { speed = +pick.value; root.focus({ preventScroll: true }); });
  const help = el("div", "keys", el("dl", "", ...[...deck.keys, ...EVERY].flatMap(([k, what]) => [el("dt", "", k), el("dd", "", what)])));
  help.hidden = true;
  const helpButton = button("help", "Keys (?)", () => toggleHelp());
  helpButton.setAttribute("aria-expanded", "false");
  const by = (name, label, direction) => (hop ? [button(name, label, () => hop(direction))] : []);
  laser(root);
  const controls = el("div", "controls playback",
    ...by("prev-cycle", "Previous cycle (Shift ←)", -1), button("prev", "Previous step (←)", () => go(deck.at() - 1)), playButton,
    button("next", "Next step (→)", () => go(deck.at() + 1)), ...by("next-cycle", "Next cycle (Shift →)", 1),
    scrub, ...deck.buttons, pick, helpButton);
  controls.setAttribute("role", "group");
  controls.setAttribute("aria-label", "playback");

  function play() {
    if (deck.at() >= deck.last()) deck.show(0);
    const tick = () => {
      if (deck.at() >= deck.last()) return stop();
      deck.show(deck.at() + 1);
      playing = setTimeout(tick, TICK / speed);
    };
    playing = setTimeout(tick, 250);
    face();
  }

  function stop() {
    if (!playing) return;
    clearTimeout(playing);
    playing = 0;
    face();
  }

  function face() {
    const label = playing ? "Pause (space)" : "Play (space)";
    playButton.replaceChildren(icon(playing ? "pause" : "play"));
    playButton.title = label;
    playButton.setAttribute("aria-label", label);
  }

  function toggleHelp(open = help.hidden) {
    help.hidden = !open;
    helpButton.setAttribute("aria-expanded", String(open));
  }

  /** Where the player stands: on the scrub, and in words for a reader who does not see it. */
  function place(i, words) {
    scrub.max = String(Math.max(0, deck.last()));
    scrub.value = String(i);
    scrub.setAttribute("aria-valuetext", words);
  }

  root.addEventListener("keydown", (event) => {
    const { key, shiftKey: shift } = event, target = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || key === "Tab") return;
    if (key === "Escape") {
      if (!help.hidden) toggleHelp(false);
      else { stop(); /** @type {HTMLElement|null} */ (document.activeElement)?.blur(); }
    } else if (target.tagName === "SELECT" && !/^[pP?]$/.test(key) && !deck.letters.test(key)) {
      event.stopPropagation(); // the list's own key; a host would take it for a command of its own
      return;
    } else if (/BUTTON|SUMMARY/.test(target.tagName) && (key === " " || key === "Enter")) return;
    else if (scrolls(event)) return event.stopPropagation();
    else if (shift && hop && /^Arrow(Left|Right)$/.test(key)) hop(key === "ArrowRight" ? 1 : -1);
    else if (shift && /^(Arrow|Home|End)/.test(key)) return;
    else if (key === "ArrowRight") go(deck.at() + 1);
    else if (key === "ArrowLeft") go(deck.at() - 1);
    else if (key === "Home") go(0);
    else if (key === "End") go(deck.last());
    else if (key === " ") playing ? stop() : play();
    else if (key === "p" || key === "P") root.toggleAttribute("data-projector");
    else if (key === "?") toggleHelp();
    else if (!deck.press(key)) return;
    event.preventDefault();
    event.stopPropagation();
  });

  return { controls, help, stop, place, playing: () => playing !== 0 };
}

/** Tell the store where the player stands, a moment later and once. @param {import("./elements.js").Store} store */
export function saver(store) {
  let waiting = 0;
  return {
    save(at, later) {
      clearTimeout(waiting);
      waiting = setTimeout(() => { if (store.get("step") !== at) store.set("step", at); }, later ? 400 : 60);
    },
    cancel: () => clearTimeout(waiting),
  };
}
