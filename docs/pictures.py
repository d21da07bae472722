"""Make the pictures of docs/img that show a view, from real runs of the trained pair; by hand, when a view changes.

    python docs/pictures.py [NAME ...]      without a name: all of them

Needs chromium and the Python package playwright. Invariant: every number on a picture comes from a run that is made
here, with the settings of docs/views.md; only times differ from one call to the next. The charts of the bench are not
made here (`specdec-teach bench`). It does not know the lessons.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import specdec_teach as sd
from specdec_teach.trace import Trace

HERE = Path(__file__).with_name("img")
PROMPT = "Once upon a time"

PAGE = """<!doctype html><meta charset="utf-8"><title>picture</title>
<style>:root { color-scheme: light dark; } body { margin: 0; padding: 1px; background: #fff; }
@media (prefers-color-scheme: dark) { body { background: #0e1013; } } STYLE</style><main></main>PARTS
<script>
const text = (id) => document.getElementById(id).textContent, main = document.querySelector("main");
const url = (id) => URL.createObjectURL(new Blob([text(id)], { type: "text/javascript" }));
(async () => {
  for (let i = 0; i < COUNT; i++) {
    const { mount, memory } = await import(url("esm" + i));
    mount(main.appendChild(document.createElement("div")), memory(JSON.parse(text("state" + i))));
  }
  document.body.dataset.ready = "";
})();
</script>"""

# Step on until the player stands in a stage of a cycle.
GO = """([cycle, stage, k]) => {
  const root = document.querySelector(".specdec-player[data-step]");
  const press = (key) => root.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  for (press("Home"); root.dataset.stage !== "end"; press("ArrowRight")) {
    if (+root.dataset.cycle !== cycle || root.dataset.stage !== stage) continue;
    for (let i = 1; i < k; i++) press("ArrowRight");
    return true;
  }
  return false;
}"""


def standing(*views: Any) -> str:
    """Return a page with these widgets, one below the other, as a kernel would have sent them."""
    style = "\n".join(dict.fromkeys(str(view._css) for view in views))
    parts = ""
    for i, view in enumerate(views):
        state = {key: value for key, value in view.get_state().items() if not key.startswith("_") and key != "layout"}
        data, code = json.dumps(state).replace("<", "\\u003c"), str(view._esm).replace("</script", "<\\/script")
        parts += f'<script type="text/plain" id="esm{i}">{code}</script>'
        parts += f'<script type="application/json" id="state{i}">{data}</script>'
    return PAGE.replace("STYLE", style).replace("COUNT", str(len(views))).replace("PARTS", parts)


def palette(counted: list[tuple[int, tuple[int, int, int]]], most: int = 256) -> list[tuple[int, int, int]]:
    """Choose colours such that each of `counted` has one nearby: the commonest, then those that have none nearby yet.

    So a mark of a few pixels keeps its colour, however common the shades of grey are around letters.

    >>> palette([(900, (0, 0, 0)), (800, (1, 1, 1)), (1, (204, 121, 167))], most=2)
    [(0, 0, 0), (204, 121, 167)]
    """
    colours = [colour for _, colour in sorted(counted, reverse=True)]
    for near in range(256):
        chosen = colours[: most // 4]  # surfaces and lines: exact
        for colour in colours[len(chosen) :]:
            if all(max(abs(a - b) for a, b in zip(colour, other, strict=True)) > near for other in chosen):
                chosen.append(colour)
            if len(chosen) > most:
                break
        else:
            break
    return chosen


class Studio:
    """Takes pictures of pages in one browser."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.pair = sd.load_pair()
        self.engine = sd.Engine(
            self.pair.target, drafter=sd.ModelDrafter(self.pair.draft), tokenizer=self.pair.tokenizer, gamma=4
        )
        self.sampling = sd.Sampling(temperature=0.8, seed=7)
        self.trace = min((self.run() for _ in range(9)), key=lambda trace: sum(_took(c) for c in trace.cycles))

    def run(self, **settings: Any) -> Trace:
        """Return the trace of 48 tokens."""
        trace = self.engine.generate(PROMPT, self.sampling, max_new_tokens=48, **settings).trace
        assert trace is not None
        return trace

    def page(self, content: str, width: int, *, dark: bool = False, scale: float = 1.0) -> Any:
        """Open a page whose views stand; nothing moves."""
        page = self.browser.new_page(
            viewport={"width": width, "height": 900}, reduced_motion="reduce", device_scale_factor=scale,
            color_scheme="dark" if dark else "light",
        )  # fmt: skip
        page.set_content(content)
        page.wait_for_selector("body[data-ready]")
        return page

    def take(self, name: str, page: Any, what: str = "main", margin: int = 0) -> None:
        """Store a picture of what `what` selects, in 256 colours."""
        import numpy as np
        from PIL import Image

        page.wait_for_timeout(300)
        box = page.locator(what).first.bounding_box()
        clip = {"x": max(0, box["x"] - margin), "y": max(0, box["y"] - margin)}
        clip |= {"width": box["width"] + 2 * margin, "height": box["height"] + 2 * margin}
        shot = Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip))).convert("RGB")
        chosen = np.array(palette(shot.getcolors(1 << 24)))
        colours, place = np.unique(np.asarray(shot).reshape(-1, 3), axis=0, return_inverse=True)
        nearest = np.array([((chosen - colour) ** 2).sum(1).argmin() for colour in colours.astype(int)], dtype=np.uint8)
        few = Image.fromarray(nearest[place.reshape(shot.height, shot.width)])
        few.putpalette(chosen.astype(np.uint8).tobytes())
        few.save(HERE / f"{name}.png", optimize=True)
        page.close()

    def player(self, name: str, width: int, *, dark: bool = False, scale: float = 1.0) -> None:
        """The player behind the rewind of a cycle whose second or third draft fell."""
        page = self.page(standing(self.trace.show()), width, dark=dark, scale=scale)
        assert page.evaluate(GO, [_telling(self.trace), "rewind", 1])
        self.take(name, page)


def _took(cycle: Any) -> float:
    return float(cycle.seconds.draft + cycle.seconds.target + cycle.seconds.verify + cycle.seconds.other)


def _telling(trace: Trace) -> int:
    """The cycle that shows most: its first draft stands, a later one falls, and p is spread there."""

    def spread(cycle: Any) -> float:
        fell = next((d for d in cycle.decisions if d.status == "rejected"), None)
        if fell is None or fell.position == 1 or len(cycle.proposed) < 4 or fell.p_top is None:
            return -1.0
        return -max(share for _, share in fell.p_top.tokens)

    return max(trace.cycles[3:], key=spread).index


def compare(studio: Studio) -> None:
    """A speculative and a plain run of the same prompt, a few forwards in."""
    plain = studio.run(speculate=False)
    page = studio.page(standing(studio.trace.compare(plain).show()), 1280)
    page.focus(".specdec-player")
    for _ in range(3):
        page.keyboard.press("Shift+ArrowRight")
    for _ in range(2):
        page.keyboard.press("ArrowLeft")
    studio.take("compare-1280", page)


def live(studio: Studio) -> None:
    """Live mode at a verdict."""
    view: Any = sd.labs.live(studio.pair, max_new_tokens=24)
    page = studio.page(standing(view.console, view.player), 964)
    cycle = next(c for c in view.record.cycles if any(d.status == "rejected" for d in c.decisions))
    fell = next(d.position for d in cycle.decisions if d.status == "rejected")
    assert page.evaluate(GO, [cycle.index, "verdict", fell])
    studio.take("live", page)


def hunt(studio: Studio) -> None:
    """The bug hunt before an engine that breaks one invariant."""
    view: Any = sd.labs.hunt(studio.engine, PROMPT)
    view.examine("engine_c")
    studio.take("hunt", studio.page(standing(view.console), 964))


def lab(studio: Studio) -> None:
    """The acceptance lab with 2,000 draws of the engine."""
    view: Any = sd.labs.acceptance(labels=["by", "the", "fox"])
    view.draw(2000)
    studio.take("lab", studio.page(standing(view), 964))


def costs(studio: Studio) -> None:
    """The cost explorer, measured now: wait for a quiet machine."""
    from plotly.offline import get_plotlyjs

    view: Any = sd.labs.costs(studio.engine, max_new_tokens=160)
    draw = f'const drawn = {view.figure.to_json()}; Plotly.newPlot("figure", drawn.data, drawn.layout);'
    code = f"<script>{get_plotlyjs()}</script><script>{draw}</script>"
    content = f'{standing(view.console)}<div id="figure"></div>{code}'
    page = studio.page(content, 964)
    page.wait_for_selector("#figure .heatmaplayer image")
    page.add_style_tag(content=".modebar-container { display: none; }")
    studio.take("costs", page, "body")


def tree(studio: Studio) -> None:
    """A run with draft trees: its still in both themes, and the part below the player's lanes."""
    drafter = sd.TreeDrafter(sd.ModelDrafter(studio.pair.draft))
    trace = sd.Engine(studio.pair.target, drafter=drafter, tokenizer=studio.pair.tokenizer, gamma=3).generate(
        PROMPT, studio.sampling, max_new_tokens=48
    ).trace  # fmt: skip
    assert trace is not None
    cycle = max(trace.cycles, key=lambda c: (len({d.status for d in c.decisions}), len(c.proposed)))
    for dark in (False, True):
        trace.tree(cycle.index, dark=dark).save(HERE / f"tree{'-dark' if dark else ''}.svg")
    page = studio.page(standing(trace.show()), 1024)
    assert page.evaluate(GO, [cycle.index, "last", 1])
    studio.take("tree-player", page, ".draft-tree", 12)


def stills(studio: Studio) -> None:
    """The identity picture and the four steps of a round, in both themes."""
    for dark in (False, True):
        studio.trace.identity(2, 1, dark=dark).save(HERE / f"identity{'-dark' if dark else ''}.svg")
        studio.trace.four_steps(7, dark=dark).save(HERE / f"four-steps{'-dark' if dark else ''}.svg")


PICTURES: dict[str, Callable[[Studio], None]] = {
    "player": lambda studio: studio.player("player", 946, scale=1.8),
    "player-380": lambda studio: studio.player("player-380", 380),
    "player-1280": lambda studio: studio.player("player-1280", 1280, dark=True),
    "player-1920": lambda studio: studio.player("player-1920", 1920),
    "compare": compare, "live": live, "hunt": hunt, "lab": lab, "costs": costs, "tree": tree, "stills": stills,
}  # fmt: skip


def main() -> None:
    """Make the pictures that the command line names."""
    from playwright.sync_api import sync_playwright

    names = sys.argv[1:] or list(PICTURES)
    if unknown := [name for name in names if name not in PICTURES]:
        sys.exit(f"no picture is called {', '.join(unknown)}; there are {', '.join(PICTURES)}")
    path = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
    if path is None:
        sys.exit("no chromium here; on Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        studio = Studio(playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"]))
        for name in names:
            PICTURES[name](studio)
            print(name)
        studio.browser.close()


if __name__ == "__main__":
    main()
