"""What speculation gains by prediction: speed-up over γ and α from measured costs, and the still of that surface.

Invariant: a prediction is E / (v(γ + 1) + γ·c) with E = (1 − α^(γ+1)) / (1 − α) tokens a cycle; measured points are
drawn as they were given. It times nothing and knows no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from specdec_kernels.errors import InvalidInput
from specdec_widgets.picture import Picture
from specdec_widgets.svg import Canvas, wrap
from specdec_widgets.words import plural

__all__ = ["ALPHAS", "Ledger", "Measured", "surface_of", "tokens_per_cycle"]

ALPHAS = tuple(i / 20 for i in range(21))
MARGIN, LEFT, CELL_H = 24.0, 96.0, 25.0


@final
@dataclass(frozen=True, slots=True)
class Measured:
    """One measured run: its γ, the share of judged drafts that stood, and its speed-up over plain decoding."""

    gamma: int
    alpha: float
    speed_up: float


def tokens_per_cycle(alpha: float, gamma: int) -> float:
    """Return E, the tokens a cycle yields on average when every draft stands with probability α.

    >>> round(tokens_per_cycle(0.8, 4), 4), tokens_per_cycle(1.0, 4), tokens_per_cycle(0.0, 4)
    (3.3616, 5.0, 1.0)
    """
    return float(sum(alpha**k for k in range(gamma + 1)))


@final
@dataclass(frozen=True, slots=True)
class Ledger:
    """Costs of a machine: `target`, seconds of a forward by number of rows, and `draft`, seconds of a draft step.

    >>> ledger = Ledger({1: 1.0}, 0.05)
    >>> ledger.best(0.8), round(ledger.speed_up(0.8, 8), 2)
    (8, 3.09)
    """

    target: Mapping[int, float]
    draft: float

    def __post_init__(self) -> None:
        good = 1 in self.target and all(size >= 1 and cost > 0 for size, cost in self.target.items())
        if not good or not self.draft >= 0:
            raise InvalidInput(
                f"target={dict(self.target)!r}, draft={self.draft!r}; give seconds above 0 by number of rows, 1 among "
                "them, and seconds of a draft step, 0 or more"
            )

    @property
    def c(self) -> float:
        """A draft step in target forwards over one row."""
        return self.draft / self.target[1]

    def v(self, rows: int) -> float:
        """Return a forward over `rows` in forwards over one: by line between measured sizes, beyond them the last."""
        sizes = sorted(self.target)
        high = next((size for size in sizes if size >= rows), sizes[-1])
        low = next((size for size in reversed(sizes) if size <= rows), sizes[0])
        part = 0.0 if high == low else (rows - low) / (high - low)
        return (self.target[low] + part * (self.target[high] - self.target[low])) / self.target[1]

    def speed_up(self, alpha: float, gamma: int) -> float:
        """Return the predicted speed-up over plain decoding."""
        return tokens_per_cycle(alpha, gamma) / (self.v(gamma + 1) + gamma * self.c)

    def best(self, alpha: float, most: int = 12) -> int:
        """Return the γ with the best prediction, 0 where plain decoding is not beaten."""
        return max(range(most + 1), key=lambda gamma: (self.speed_up(alpha, gamma), -gamma))

    def rows(self, gammas: Sequence[int], alphas: Sequence[float] = ALPHAS) -> list[list[float]]:
        """Return the surface: a row for each α, a column for each γ."""
        return [[self.speed_up(alpha, gamma) for gamma in gammas] for alpha in alphas]


def told(ledger: Ledger, points: Sequence[Measured]) -> str:
    """Say what the costs mean, and how near the prediction came."""
    even = next((alpha for alpha in (i / 100 for i in range(101)) if ledger.best(alpha) > 0), None)
    bar = "no acceptance rate pays here" if even is None else f"speculation pays from α = {even:.2f} on"
    head = f"A draft step costs c = {ledger.c:.2f} target forwards and five rows cost v₅ = {ledger.v(5):.2f}: {bar}."
    if not points:
        return head
    far = max(abs(p.speed_up / ledger.speed_up(p.alpha, p.gamma) - 1) for p in points)
    return f"{head} {plural(len(points), 'measured point')}: at most {100 * far:.0f} % from the surface."


def surface_of(ledger: Ledger, points: Sequence[Measured] = (), *, most: int = 12, dark: bool = False) -> Picture:
    """Return the still of the surface: γ across, α upwards, speed-up in numbers and colour, measured runs as ◆."""
    gammas, alphas = range(1, most + 1), [i / 10 for i in range(10, -1, -1)]
    width, top = 980.0, 76.0
    wide = (width - LEFT - MARGIN) / most
    words = told(ledger, points)
    lines = wrap(words, int((width - 2 * MARGIN) / 7.9))
    base = top + CELL_H * len(alphas)
    shown = [p for p in points if 1 <= p.gamma <= most]
    foot = base + (80 if shown else 36)
    total = foot + 20 * len(lines) + 12
    c = Canvas(dark=dark)
    c.box(0.5, 0.5, width - 1, total - 1, "white", stroke="line", r=8)
    c.text(MARGIN, 34, "predicted speed-up over plain decoding", size=18, bold=True)
    c.text(
        MARGIN,
        58,
        "★ best γ of its row  ·  ◆ measured on this machine  ·  dashed: slower than plain",
        size=12,
        fill="quiet",
    )
    for row, alpha in enumerate(alphas):
        y = top + row * CELL_H
        c.text(LEFT - 10, y + 17, f"α = {alpha:.1f}", anchor="end", fill="quiet")
        best = ledger.best(alpha, most)
        for column, gamma in enumerate(gammas):
            x, gain = LEFT + column * wide, ledger.speed_up(alpha, gamma)
            c.box(x + 1, y + 1, wide - 2, CELL_H - 2, _color(gain, dark), r=2)
            if gain < 1:
                c.box(x + 1, y + 1, wide - 2, CELL_H - 2, "none", stroke="line", r=2, dash="3 3", wide=1)
            star = "★ " if gamma == best else ""
            fill = "ink" if gain >= 1 else "quiet"
            c.text(x + wide / 2, y + 17, f"{star}{gain:.2f}", anchor="middle", fill=fill, bold=bool(star))
    for column, gamma in enumerate(gammas):
        c.text(LEFT + (column + 0.5) * wide, base + 18, str(gamma), anchor="middle", fill="quiet")
    c.text(LEFT - 10, base + 18, "γ", anchor="end", fill="quiet")
    if shown:
        c.text(LEFT - 10, base + 46, "measured", anchor="end", bold=True)
    for p in shown:
        x, y = LEFT + (p.gamma - 0.5) * wide, top + (1 - p.alpha) * 10 * CELL_H + CELL_H / 2
        c.path(f"M{x - wide / 2 + 7:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z", fill="amber", stroke="ink", wide=1)
        c.text(x, base + 46, f"◆ {p.speed_up:.2f}", anchor="middle", bold=True)
        c.text(x, base + 62, f"α {p.alpha:.2f}", anchor="middle", size=12, fill="quiet")
    for i, line in enumerate(lines):
        c.text(MARGIN, foot + 14 + 20 * i, line, size=14)
    return Picture(c.close(width, total, "Predicted speed-up by γ and α", words), words, _table(ledger, points))


def _color(gain: float, dark: bool) -> str:
    """Blue above 1, deeper with the gain; the ground itself below."""
    ground, hue = ((21, 24, 28), (22, 82, 122)) if dark else ((255, 255, 255), (141, 196, 228))
    part = max(0.0, min(1.0, (gain - 1) / 2.5))
    mixed = (round(a + (b - a) * part) for a, b in zip(ground, hue, strict=True))
    return "#" + "".join(f"{value:02x}" for value in mixed)


def _table(ledger: Ledger, points: Sequence[Measured]) -> str:
    lines = ["α     best γ  speed-up"]
    for alpha in (0.2, 0.4, 0.6, 0.8, 0.9):
        best = ledger.best(alpha)
        lines.append(f"{alpha:.1f}  {best or 'none':>8}  {ledger.speed_up(alpha, best):>7.2f}")
    if points:
        lines.append("γ      α     predicted  measured")
    for p in points:
        lines.append(f"{p.gamma:<3} {p.alpha:>7.2f} {ledger.speed_up(p.alpha, p.gamma):>9.2f} {p.speed_up:>9.2f}")
    return "\n".join(lines)
