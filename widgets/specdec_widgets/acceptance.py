"""The acceptance lab as a notebook widget: p and q to drag, the laws they make, and draws of a real engine.

Invariant: the widget holds two laws and counts; the draws come from a function that the caller gives, a few at a
time, so that Stop is heard. It knows no engine and no random number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import anywidget
import traitlets

from specdec_kernels.errors import InvalidInput, unknown_name
from specdec_widgets.bundle import bundle
from specdec_widgets.laws import ENGINE, RULES, distance, laws, stands
from specdec_widgets.pacing import Pacer
from specdec_widgets.page import asset
from specdec_widgets.stacks import identity
from specdec_widgets.words import num

__all__ = ["AcceptanceLab", "Draws", "summary"]

Drawn = Sequence[tuple[int, bool]]
Draws = Callable[[Sequence[float], Sequence[float], int, int, str], Drawn]
CHUNK, MOST, POINTS = 20, 20_000, 240


class AcceptanceLab(anywidget.AnyWidget):
    """Drag p and q, see what every rule makes of them, and let the engine draw.

    `draws(p, q, first, count, rule)`, when given, returns (first token, whether the draft stood) of `count` runs of
    an engine under that rule, numbered from `first` on: no two calls get the same number.
    """

    _esm = asset("lab.js")
    _css = asset("player.css") + asset("frame.css") + asset("lab.css")

    lab = traitlets.Dict().tag(sync=True)
    drawn = traitlets.Dict().tag(sync=True)
    status = traitlets.Unicode("").tag(sync=True)
    can_rerun = traitlets.Bool(False).tag(sync=True)
    request = traitlets.Dict().tag(sync=True)

    def __init__(
        self, p: Sequence[float], q: Sequence[float], *, labels: Sequence[str] | None = None, draws: Draws | None = None
    ) -> None:
        self._draws, self._pacer, self._number = draws, Pacer(), 0
        identity(p, q, labels=labels)  # refuses what is no law
        names = list(labels) if labels is not None else [str(i) for i in range(len(p))]
        start = {"p": [float(x) for x in p], "q": [float(x) for x in q], "labels": names, "rule": "rejection"}
        super().__init__(lab=start, drawn=_nothing(len(names)), can_rerun=draws is not None)
        self.observe(self._on_lab, names="lab")
        self.observe(self._on_request, names="request")

    def draw(self, count: int) -> None:
        """Let the engine draw `count` tokens more; a failure is told in `status` and keeps what was drawn."""
        try:
            if self._draws is None:
                raise InvalidInput("this lab has no engine; give it draws=… to see real draws")
            if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST:
                raise InvalidInput(f"cannot draw {count!r} tokens; give 1 to {MOST}")
            if self._pacer.running:
                return
            self.status = ""
            self.drawn = {**self.drawn, "running": True}
            self._pacer.start(self._chunks(count), self._count, self._done)
        except Exception as error:  # a callback's exception would vanish: the status line is where it is seen
            self._done(error)

    def stop(self) -> None:
        """Stop drawing; what was drawn stays."""
        self._pacer.stop()

    def clear(self) -> None:
        """Forget the draws."""
        self._pacer.stop()
        self.drawn = _nothing(len(self.lab["p"]))

    def _chunks(self, count: int) -> Iterator[Drawn]:
        assert self._draws is not None
        p, q, rule = (self.lab[key] for key in ("p", "q", "rule"))
        while count:
            some = min(count, CHUNK)
            first, self._number = self._number, self._number + some
            yield self._draws(p, q, first, some, rule)
            count -= some

    def _count(self, drawn: Drawn) -> None:
        counts, stood = list(self.drawn["counts"]), self.drawn["stood"]
        for token, yes in drawn:
            counts[token] += 1
            stood += yes
        n = sum(counts)
        path = [*self.drawn["path"], [n, distance([c / n for c in counts], self.lab["p"])]]
        if len(path) > POINTS:
            path = path[: POINTS // 2 : 2] + path[POINTS // 2 :]
        self.drawn = {"counts": counts, "stood": stood, "path": path, "running": True}

    def _done(self, error: BaseException | None) -> None:
        self.drawn = {**self.drawn, "running": False}
        if error is not None:
            self.status = " ".join(f"{type(error).__name__}: {error}".split())

    def _on_lab(self, change: Mapping[str, Any]) -> None:
        self.clear()

    def _on_request(self, change: Mapping[str, Any]) -> None:
        what = change["new"].get("do")
        if what == "draw":
            self.draw(change["new"].get("count", 0))
        elif what == "stop":
            self.stop()
        elif what == "clear":
            self.clear()

    @traitlets.validate("lab")
    def _two_laws(self, proposal: Mapping[str, Any]) -> dict[str, Any]:
        lab = proposal["value"]
        identity(lab["p"], lab["q"], labels=lab["labels"])
        if lab["rule"] not in ENGINE:
            raise unknown_name("rule", lab["rule"], ENGINE)
        return dict(lab)

    def close(self) -> None:
        """Free the widget, its layout and the engine that `draws` holds."""
        self._pacer.stop()
        self._draws = None
        if self.comm is not None:
            self.layout.close()
        super().close()

    def __repr__(self) -> str:
        return summary(self.lab["p"], self.lab["q"])

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The live view, and what a notebook keeps of it: the identity picture and the laws as text."""
        still = identity(self.lab["p"], self.lab["q"], labels=self.lab["labels"])
        return bundle(super()._repr_mimebundle_(**kwargs), repr(self), still.image)


def _nothing(width: int) -> dict[str, Any]:
    return {"counts": [0] * width, "stood": 0, "path": [], "running": False}


def summary(p: Sequence[float], q: Sequence[float]) -> str:
    """Return the laws of all rules as lines of text, each with its distance from p and how often a draft stands.

    >>> print(summary([0.6, 0.3, 0.1], [0.2, 0.5, 0.3]).splitlines()[3])
    accept with min(1, p/q), else draw from p: .44 .42 .14, off by .16; accepts .60
    """
    lines = [f"AcceptanceLab: p = {' '.join(map(num, p))}, q = {' '.join(map(num, q))}"]
    share = stands(p, q)
    for key, law in laws(p, q).items():
        off = distance(law, p)
        said = "exact" if off < 5e-7 else f"off by {num(off)}"
        lines.append(f"{RULES[key]}: {' '.join(map(num, law))}, {said}; accepts {num(share[key])}")
    return "\n".join(lines)
