"""Measure the player in a page with a run of a thousand cycles and more than 8,000 tokens; by hand, on a quiet machine.

    python benchmarks/player_speed.py [--json benchmarks/player.json] [--rounds 5]

Needs chromium and the Python package playwright. All times are taken in the page with performance.now():

1. First paint: from the start of the navigation (performance.timeOrigin) to the frame that shows the player's first
   tokens, the page being read from a file and the trace parsed. Aim: below 1 s.
2. Step, seek: from the event to the end of the layout that it makes necessary, 60 times with a frame between two.
   Aim: a median below 16 ms for a step.
3. Frames: the distance between two animation frames while the lanes are scrolled by hand in every frame.

Prints one line for each; medians, and the 95th percentile. The test suite judges the work that a step does, not these
times (tests/browser/test_page.py). It knows nothing of the engine: the run is the one of tests/widgets/traces.py.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

AIMS = {"first_paint": "below 1000", "step": "below 16", "seek": "", "frame": "16.7 is 60 a second"}

# When the player's first item stands in the document and is painted.
DRAWN = """new MutationObserver((_, seen) => {
  if (!document.querySelector('.specdec-player .item')) return;
  seen.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.drawnAt = performance.now(); }));
}).observe(document, { childList: true, subtree: true });"""

# What a step, a jump and a frame of scrolling cost, layout included.
TIMES = """async (n) => {
  const root = document.querySelector('.specdec-player'), scrub = root.querySelector('.scrub');
  const pane = root.querySelector('.pane'), frame = () => new Promise(requestAnimationFrame);
  const spent = async (act) => {
    const times = [];
    for (let i = 0; i < n; i++) {
      await frame();
      const start = performance.now();
      act(i);
      root.offsetHeight;
      times.push(performance.now() - start);
    }
    return times;
  };
  const press = () => root.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true }));
  const seek = (i) => {
    scrub.value = String(i * scrub.max / n);
    scrub.dispatchEvent(new Event('input'));
  };
  const step = await spent(press), seeks = await spent(seek), frames = [];
  for (let i = 0, before = await frame(); i < n; i++) {
    pane.scrollLeft += 37;
    const now = await frame();
    frames.push(now - before);
    before = now;
  }
  return { step, seek: seeks, frame: frames, steps: +scrub.max + 1 };
}"""


def launched(playwright: Any) -> Any:
    """Start the chromium of this machine."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next((found for name in names if (found := shutil.which(name))), None)
    if path is None:
        sys.exit(f"no browser found (looked for {', '.join(names)}); on Debian: apt-get install chromium")
    return playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])


def measure(browser: Any, path: Path, rounds: int, presses: int = 60) -> dict[str, Any]:
    """Return the times in ms of the page at `path`, every round in a fresh page."""
    times: dict[str, list[float]] = {"first_paint": [], "step": [], "seek": [], "frame": []}
    steps = 0
    for _ in range(rounds):
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.add_init_script(DRAWN)
        page.goto(path.as_uri())
        page.wait_for_function("() => window.drawnAt")
        times["first_paint"].append(page.evaluate("drawnAt"))
        said = page.evaluate(TIMES, presses)
        steps = said.pop("steps")
        for name, found in said.items():
            times[name] += found
        page.close()
    return {"steps": steps, **{name: {"median": middle(t), "p95": late(t), "n": len(t)} for name, t in times.items()}}


def middle(times: list[float]) -> float:
    """The median, to a tenth."""
    return round(median(times), 1)


def late(times: list[float]) -> float:
    """The 95th percentile, to a tenth."""
    return round(sorted(times)[min(len(times) - 1, len(times) * 95 // 100)], 1)


def main() -> None:
    """Measure, print, and store if asked."""
    ask = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    ask.add_argument("--json", type=Path, help="store the figures here")
    ask.add_argument("--rounds", type=int, default=5, help="fresh pages (5)")
    asked = ask.parse_args()
    sys.path[:0] = [str(ROOT), str(ROOT / "kernels"), str(ROOT / "widgets")]
    from playwright.sync_api import sync_playwright

    from specdec_widgets.page import to_html
    from tests.widgets.traces import thousand

    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = launched(playwright)
        path = to_html(thousand(), Path(folder) / "run.html")
        found = {
            "machine": f"{platform.system()} {platform.machine()}, {platform.processor() or 'processor not named'}",
            "chromium": browser.version, "cycles": len(thousand().cycles),
            "megabytes": round(path.stat().st_size / 1e6, 1),
            "milliseconds": measure(browser, path, asked.rounds),
        }  # fmt: skip
        browser.close()
    print(f"{found['cycles']} cycles, {found['milliseconds']['steps']} steps, {found['megabytes']} MB")
    for name, aim in AIMS.items():
        time = found["milliseconds"][name]
        print(f"{name:12} {time['median']:7.1f} ms, 95 % within {time['p95']:7.1f}   {aim}")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
