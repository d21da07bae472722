"""Draw the ledger of one decision into a still: the test, the masses, and p, q, min and residual of the top tokens.

Invariant: the green part of a bar is min(p, q), the blue part p − min, the hatched part q − min, on one scale.
Lengths are whole pixels, so that the last bits of a probability, which differ between machines, do not change a still.
It does not know the lanes above it.
"""

from __future__ import annotations

from dataclasses import dataclass

from specdec_teach.trace import Cycle, Decision, Top, Trace
from specdec_widgets.svg import Canvas
from specdec_widgets.words import clip, labels, num, subscript

__all__ = ["ROW", "draw_decision", "draw_top", "height"]

ROW, SHOWN = 24, 6
UNKNOWN = "p, q and u are unknown: whoever ran this did not record them"


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table: a label, its numbers, its glyph and the glyph's colour."""

    label: str
    p: float
    q: float
    least: float
    residual: float | None
    glyph: str = ""
    color: str = "ink"


def height(trace: Trace, cycle: Cycle, decision: Decision | None) -> float:
    """How tall the ledger of this decision is; without one, that of the distribution of the last token."""
    if decision is not None:
        if decision.p is None:
            return 52
        return 108 + ROW * len(lines(trace, cycle, decision, ""))
    return 52 + ROW * (min(SHOWN, len(cycle.last_top.tokens)) + 1) if cycle.last_top else 0


def lines(trace: Trace, cycle: Cycle, d: Decision, name: str) -> list[Line]:
    """The rows of a decision's table: proposed and drawn token first in rank, and the rest's mass."""
    drawn = cycle.last if d.status == "rejected" else None
    must = {d.token, drawn}
    ranked = sorted(d.bars, key=lambda b: (-max(b.p, b.q), b.token))
    room = SHOWN - sum(b.token in must for b in ranked)
    others = [b for b in ranked if b.token not in must and max(b.p, b.q) > 0][: max(0, room)]
    alpha = d.alpha or 0.0
    beta = 1 - alpha > 1e-12
    out = []
    for b in ranked:
        if b.token not in must and b not in others:
            continue
        glyph, color = ("", "ink")
        if b.token == d.token:
            glyph, color = {"accepted": ("✓", "green-ink"), "rejected": ("✗", "red-ink"), "cut": ("✂", "quiet")}.get(
                d.status, ("·", "quiet")
            )
        elif b.token == drawn:
            glyph, color = "↺", "blue-ink"
        label = name if b.token == d.token else labels([b.token], trace.pieces)[0]
        out.append(Line(label, b.p, b.q, min(b.p, b.q), b.residual if beta else None, glyph, color))
    rest = Line(
        "rest", max(0.0, 1 - sum(r.p for r in out)), max(0.0, 1 - sum(r.q for r in out)),
        max(0.0, alpha - sum(r.least for r in out)),
        max(0.0, 1 - sum(r.residual or 0 for r in out)) if beta else None, "", "quiet",
    )  # fmt: skip
    return [*out, rest]


def draw_decision(c: Canvas, trace: Trace, cycle: Cycle, d: Decision, name: str, x: float, y: float, w: float) -> None:
    """Draw the ledger of decision `d`, whose token is labelled `name`, at (x, y) in a width of w."""
    word, color = {
        "accepted": ("✓ accepted", "green-ink"),
        "rejected": ("✗ rejected", "red-ink"),
        "cut": ("✂ cut", "quiet"),
    }.get(d.status, ("· unused", "quiet"))
    c.text(x, y + 16, subscript("d", d.position), size=15, bold=True)
    shown = clip(name, 24)
    c.text(x + 28, y + 16, shown, size=15, bold=True, mono=True)
    c.text(x + 28 + 9.6 * (len(shown) + 1), y + 16, word, size=15, fill=color, bold=True)
    if d.p is None or d.alpha is None:
        c.text(x, y + 40, UNKNOWN)
        return
    half = (w - 24) / 2
    _test(c, trace, d, x, y + 26, half)
    right = x + half + 24
    c.text(right, y + 42, f"accept α = {num(d.alpha)}", fill="green-ink")
    c.text(right + half, y + 42, f"reject β = {num(max(0.0, 1 - d.alpha))}", fill="red-ink", anchor="end")
    _split(c, right, y + 49, half, d.alpha)
    _table(c, lines(trace, cycle, d, name), x, y + 84, w)


def _test(c: Canvas, trace: Trace, d: Decision, x: float, y: float, w: float) -> None:
    if d.u is None or d.accept_probability is None:
        greedy = trace.meta.sampling.get("temperature") == 0
        what = (
            "the target's likeliest token"
            if greedy
            else "the target's own draw"
            if d.status in ("accepted", "rejected")
            else "not judged"
        )
        verb = "" if what == "not judged" else (" agrees" if d.accepted else " differs")
        if verb and not greedy and trace.meta.verify in ("typical", "threshold"):
            what, verb = f"p = {num(d.p)} is", " enough for the rule" if d.accepted else " too little for the rule"
        c.text(x, y + 16, what + verb)
        if verb:
            _split(c, x, y + 23, w, float(d.accepted))
        return
    ratio = "p/q" if trace.meta.verify == "rejection" else "acceptance probability"
    digits = next((n for n in range(2, 7) if num(d.u, n) != num(d.accept_probability, n)), 7)
    sign = "<" if d.u < d.accept_probability else "≥"
    head = f"u = {num(d.u, digits)} {sign} " if trace.meta.verify == "rejection" else f"u = {num(d.u, digits)}, "
    c.text(
        x,
        y + 16,
        f"{head}{ratio}{' = ' if ratio == 'p/q' else ' '}{num(d.accept_probability, digits)}"
        + (" (capped at 1)" if (d.p or 0) > (d.q or 0) and ratio == "p/q" else ""),
    )
    _split(c, x, y + 23, w, d.accept_probability)
    at = x + round(d.u * w)
    c.box(at - 3, y + 19, 6, 22, "white")
    c.box(at - 1.5, y + 19, 3, 22, "ink")


def _split(c: Canvas, x: float, y: float, w: float, share: float) -> None:
    border = round(w * share)
    c.box(x, y, border, 14, "green")
    c.box(x + border, y, w - border, 14, "/red", stroke="red", wide=1)


def _table(c: Canvas, rows: list[Line], x: float, y: float, w: float) -> None:
    plot, numbers, residual = x + 150, x + w - 330, x + w - 150
    span = numbers - plot - 16
    top = max(max(r.p, r.q) for r in rows) or 1.0
    most = max((r.residual or 0 for r in rows), default=0) or 1.0
    c.text(x, y + 12, "token", size=12, fill="quiet")
    c.text(plot, y + 12, "p over q:", size=12, fill="quiet")
    for i, (fill, text) in enumerate((("green", "both"), ("blue", "p only"), ("/red", "q only"))):
        c.box(plot + 66 + 68 * i, y + 4, 14, 9, fill, stroke="red" if fill == "/red" else "none", wide=1)
        c.text(plot + 85 + 68 * i, y + 12, text, size=12, fill="quiet")
    for at, head in ((numbers + 48, "p"), (numbers + 102, "q"), (numbers + 156, "min"), (x + w, "residual")):
        c.text(at, y + 12, head, size=12, fill="quiet", anchor="end")
    for i, r in enumerate(rows):
        base = y + 20 + i * ROW
        c.path(f"M{x:.1f} {base:.1f}h{w:.1f}", stroke="fill", wide=1)
        if r.glyph:
            c.text(x, base + 17, r.glyph, fill=r.color, bold=True)
        quiet = "quiet" if r.label == "rest" and i == len(rows) - 1 else "ink"
        c.text(x + 18, base + 17, r.label, mono=quiet == "ink", fill=quiet, width=124, bold=bool(r.glyph))
        both, p_long, q_long = (round(value / top * span) for value in (r.least, r.p, r.q))
        c.box(plot, base + 4, both, 7, "green")
        c.box(plot + both, base + 4, p_long - both, 7, "blue")
        c.box(plot, base + 13, both, 7, "green")
        c.box(plot + both, base + 13, q_long - both, 7, "/red", stroke="red", wide=1)
        for at, value in ((48, r.p), (102, r.q), (156, r.least)):
            c.text(numbers + at, base + 17, num(value), anchor="end", fill=quiet)
        c.box(residual + 4, base + 8, round((r.residual or 0) / most * 96), 8, "blue")
        c.text(x + w, base + 17, num(r.residual), anchor="end", fill=quiet)


def draw_top(c: Canvas, trace: Trace, cycle: Cycle, top: Top, x: float, y: float, w: float) -> None:
    """Draw the distribution that the last token came from."""
    c.text(x, y + 16, "the next token is drawn from p", size=15, bold=True)
    shown = list(top.tokens[:SHOWN])
    if cycle.last not in [token for token, _ in shown]:
        shown = shown[:-1] + [pair for pair in top.tokens if pair[0] == cycle.last]
    rest = max(0.0, 1 - sum(p for _, p in shown))
    most = max([rest, *(p for _, p in shown)]) or 1.0
    for i, (token, p) in enumerate([*shown, (None, rest)]):
        base = y + 32 + i * ROW
        c.path(f"M{x:.1f} {base:.1f}h{w:.1f}", stroke="fill", wide=1)
        if token is not None and token == cycle.last:
            c.text(x, base + 17, "★", fill="purple-ink", bold=True)
        label = "rest" if token is None else labels([token], trace.pieces)[0]
        c.text(x + 18, base + 17, label, mono=token is not None, fill="quiet" if token is None else "ink", width=124)
        c.box(x + 150, base + 6, round(p / most * (w - 230)), 11, "purple")
        c.text(x + w, base + 17, num(p), anchor="end")
