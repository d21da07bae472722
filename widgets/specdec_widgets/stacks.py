"""Draw why the standard rule is exact: for every token, accepted min(p, q) and corrected [p − q]₊ stack up to p.

Invariant: every height is a share of the same scale, in whole pixels; the ghost above a stack is what the draft
proposes too often, and all ghosts together are as large as all corrections. It does not know where p and q come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specdec_kernels.errors import InvalidInput
from specdec_teach.trace import Decision, Trace
from specdec_widgets.picture import Picture
from specdec_widgets.svg import CHAR, Canvas, wrap
from specdec_widgets.words import clip, columns, labels, num, quote

__all__ = ["identity", "identity_of"]

MARGIN, MOST, PLOT = 24.0, 8, 190
LEAST = 5e-4  # a column for less shows nothing


@dataclass(frozen=True, slots=True)
class Share:
    """One token, or the rest: what is accepted of it, what the correction adds, what the draft proposes."""

    label: str
    accepted: float
    corrected: float
    q: float
    role: str = ""

    @property
    def p(self) -> float:
        """The target's probability."""
        return self.accepted + self.corrected


def identity(
    p: Sequence[float],
    q: Sequence[float],
    *,
    labels: Sequence[str] | None = None,
    dark: bool = False,
    width: float = 980,
) -> Picture:
    """Return the picture of min(p, q) + [p − q]₊ = p for two distributions.

    `p`: the target's, `q`: the draft's, both `[V]` and summing to 1. `labels`: names of the tokens. `width`: in pixels,
    300 or more; tokens without room are one group called "rest". InvalidInput for anything else.

    >>> print(identity([0.6, 0.3, 0.1], [0.2, 0.5, 0.3], labels=["a", "b", "c"]).table)
    token   min(p, q)  [p − q]₊      p      q
    a             .20       .40    .60    .20
    b             .30         0    .30    .50
    c             .10         0    .10    .30
    all           .60       .40   1.00   1.00
    """
    target, draft = _law("p", p), _law("q", q)
    if len(target) != len(draft):
        raise InvalidInput(f"p has {len(target)} entries and q has {len(draft)}; give one for each token in both")
    names = [str(i) for i in range(len(target))] if labels is None else list(labels)
    if len(names) != len(target):
        raise InvalidInput(f"there are {len(names)} labels for {len(target)} tokens; give one each, or none")
    shares = [Share(n, min(a, b), max(a - b, 0.0), b) for n, a, b in zip(names, target, draft, strict=True)]
    return _picture(shares, "", dark, width)


def identity_of(trace: Trace, cycle: int = 0, position: int = 1, *, dark: bool = False, width: float = 980) -> Picture:
    """Return the picture of one decision of a run; `cycle` is its index, `position` counts its drafts from 1.

    InvalidInput when the trace holds no such decision, or does not tell p and q.
    """
    found = next((c for c in trace.cycles if c.index == cycle), None)
    if found is None:
        known = f"{trace.cycles[0].index} to {trace.cycles[-1].index}" if trace.cycles else "none"
        raise InvalidInput(f"cannot draw cycle {cycle!r}; the cycles of this trace: {known}")
    if isinstance(position, bool) or not isinstance(position, int) or not 1 <= position <= len(found.decisions):
        allowed = f"1 to {len(found.decisions)}" if found.decisions else "none, nothing was proposed"
        raise InvalidInput(f"cannot draw position {position!r} of cycle {cycle}; its positions: {allowed}")
    decision = found.decisions[position - 1]
    if decision.p is None or decision.alpha is None:
        raise InvalidInput("p and q of this position are unknown: whoever ran this did not record them")
    drawn = found.last if decision.status == "rejected" else None
    where = f"cycle {cycle}, position {position}"
    return _picture(_shares(trace, decision, drawn), where, dark, width)


def _law(name: str, values: Sequence[float]) -> list[float]:
    law = [float(value) for value in values]
    if len(law) < 2 or not all(0 <= value <= 1 for value in law) or abs(sum(law) - 1) > 1e-4:
        raise InvalidInput(f"{name} = {clip(str(law), 60)} is no distribution; give 2 or more numbers that sum to 1")
    return law


def _shares(trace: Trace, d: Decision, drawn: int | None) -> list[Share]:
    """The recorded tokens of a decision, likeliest first, and the rest of the vocabulary as one.

    A token with next to no mass and no part in the round belongs to the rest.
    """
    must = (d.token, drawn)
    ranked = sorted(d.bars, key=lambda b: (b.token not in must, -max(b.p, b.q), b.token))
    names = labels([b.token for b in ranked], {k: v for k, v in trace.pieces.items() if not v.startswith("<0x")})
    shares = [
        Share(name, min(b.p, b.q), max(b.p - b.q, 0.0), b.q, "proposed" if b.token == d.token else
              "drawn" if b.token == drawn else "")
        for name, b in zip(names, ranked, strict=True) if max(b.p, b.q) > (0 if b.token in must else LEAST)
    ]  # fmt: skip
    alpha = d.alpha or 0.0
    accepted = max(0.0, alpha - sum(s.accepted for s in shares))
    rest = Share(
        "rest", accepted, max(0.0, 1 - sum(s.p for s in shares) - accepted), max(0.0, 1 - sum(s.q for s in shares))
    )
    return [*shares, rest] if max(rest.p, rest.q) > 1e-9 else shares


def _fit(shares: list[Share], width: float) -> list[Share]:
    """Merge what has no room into the rest."""
    room = min(MOST, int((width - 2 * MARGIN) / (112 if width >= 620 else 68)))
    if len(shares) <= room:
        return shares
    if shares[-1].label != "rest":
        shares = sorted(shares, key=lambda s: -max(s.p, s.q))
    kept, merged = shares[: room - 1], shares[room - 1 :]
    rest = Share("rest", *(sum(getattr(s, key) for s in merged) for key in ("accepted", "corrected", "q")))
    return [*kept, rest]


def _sum(share: Share, lines: int) -> list[str]:
    """Return accepted + corrected = p on one to three lines."""
    first, second, total = num(share.accepted), f"+ {num(share.corrected)}", f"= {num(share.p)}"
    return {1: [f"{first} {second} {total}"], 2: [f"{first} {second}", total]}.get(lines, [first, second, total])


def _lines(shares: list[Share], each: float) -> int:
    """Return on how many lines every sum has room."""
    wide = {n: max(len(line) for share in shares for line in _sum(share, n)) for n in (1, 2)}
    return next((n for n, most in wide.items() if (most + 1) * 12 * CHAR <= each), 3)


def _words(shares: list[Share], alpha: float) -> str:
    head = "Left and right are equal for every token: what is accepted, min(p, q), and what a correction adds, [p − q]₊"
    if 1 - alpha < 5e-5:
        return f"{head}, make p. Here p and q are the same: every draft is accepted."
    over = max(shares, key=lambda s: s.q - s.p)
    less = max(shares, key=lambda s: s.corrected)
    beta = num(max(0.0, 1 - alpha))
    return (
        f"{head}, make p. Accepted are α = {num(alpha)} of all drafts; the other {beta}, most of it {_name(over)} at "
        f"p = {num(over.p)} under q = {num(over.q)}, is redrawn where q falls short, most at {_name(less)}."
    )


def _name(share: Share) -> str:
    return "the rest" if share.label == "rest" else quote(share.label)


def _table(shares: list[Share]) -> str:
    wide = max(7, *(columns(s.label) for s in shares))
    total = Share("all", *(sum(getattr(s, key) for s in shares) for key in ("accepted", "corrected", "q")))
    lines = [f"{'token':<{wide}} min(p, q)  [p − q]₊      p      q"]
    for s in [*shares, total]:
        name = s.label + " " * (wide - columns(s.label))
        lines.append(f"{name} {num(s.accepted):>9} {num(s.corrected):>9} {num(s.p):>6} {num(s.q):>6}")
    return "\n".join(lines)


def _picture(shares: list[Share], where: str, dark: bool, width: float) -> Picture:
    if not width >= 300:
        raise InvalidInput(f"width={width!r} leaves no room; give 300 or more pixels")
    shares = _fit(shares, width)
    alpha, inner = sum(s.accepted for s in shares), width - 2 * MARGIN
    words = _words(shares, alpha)
    told, narrow = wrap(words, int(inner / 7.9)), width < 620
    c = Canvas(dark=dark)
    strip = 84.0 if narrow else 62.0
    base = strip + 76 + (42 if narrow else 0) + PLOT
    each = inner / len(shares)
    lines = _lines(shares, each)
    below = base + 54 + 16 * max(2, lines)
    total = below + 10 + 20 * len(told)
    c.box(0.5, 0.5, width - 1, total - 1, "white", stroke="line", r=8)
    c.text(MARGIN, 34, "min(p, q) + [p − q]₊ = p", size=18, bold=True)
    if narrow:
        c.text(MARGIN, 56, where, fill="quiet")
    else:
        c.text(width - MARGIN, 34, where, fill="quiet", anchor="end")
    _strip(c, alpha, MARGIN, strip, inner, narrow)
    _legend(c, MARGIN, strip + 56, narrow)
    most = max(max(s.p, s.q) for s in shares) or 1.0
    c.path(f"M{MARGIN:.1f} {base + 0.5:.1f}h{inner:.1f}", stroke="valid", wide=1)
    for i, share in enumerate(shares):
        _group(c, share, MARGIN + (i + 0.5) * each, base, PLOT / most, each)
        for at, line in enumerate(_sum(share, lines)):
            c.text(MARGIN + (i + 0.5) * each, base + 42 + 16 * at, line, anchor="middle", size=12)
    for i, line in enumerate(told):
        c.text(MARGIN, below + 20 * i, line, size=14)
    return Picture(c.close(width, total, "Accepted and corrected make p", words), words, _table(shares))


def _strip(c: Canvas, alpha: float, x: float, y: float, w: float, narrow: bool) -> None:
    """All drafts as one strip: accepted, rejected."""
    border, beta = round(w * alpha), max(0.0, 1 - alpha)
    c.text(x, y + 12, f"✓ {'' if narrow else 'accepted '}α = {num(alpha)}", fill="green-ink", bold=True)
    c.text(x + w, y + 12, f"✗ {'' if narrow else 'rejected '}β = {num(beta)}", fill="red-ink", bold=True, anchor="end")
    c.box(x, y + 19, border, 12, "green")
    c.box(x + border, y + 19, w - border, 12, "/red", stroke="red", wide=1)


def _legend(c: Canvas, x: float, y: float, narrow: bool) -> None:
    over = "✗ rejected" if narrow else "✗ rejected: q above p"
    parts = (("green", "✓ accepted"), ("blue", "↺ corrected"), ("fill", "target p"), ("/red", over))
    for i, (fill, text) in enumerate(parts):
        at, low = (x + 130 * (i % 2), y + 21 * (i // 2)) if narrow else (x + 116 * i, y)
        c.box(at, low - 10, 13, 11, fill, stroke={"fill": "quiet", "/red": "red"}.get(fill, "none"), wide=1)
        c.text(at + 19, low, text, size=12, fill="quiet")


def _group(c: Canvas, s: Share, middle: float, base: float, scale: float, each: float) -> None:
    """One token: the stack and the ghost on the left, p on the right."""
    wide = round(min(34.0, each / 3.4))
    left, right = round(middle) - wide - 8, round(middle) + 8
    kept, high, q = (round(scale * value) for value in (s.accepted, s.p, s.q))
    if q > high:
        c.box(left, base - q, wide, q - high, "/red", stroke="red", wide=1)
    if high > kept:
        c.box(left, base - high, wide, high - kept, "blue")
    if kept:
        c.box(left, base - kept, wide, kept, "green")
    for low, top, glyph, fill in ((0, kept, "✓", "on-green"), (kept, high, "↺", "on-blue")):
        if top - low >= 20:
            c.text(left + wide / 2, base - (low + top) / 2 + 5, glyph, fill=fill, anchor="middle", bold=True)
    if high:
        c.box(right, base - high, wide, high, "fill", stroke="quiet", wide=1.2)
    c.path(f"M{left - 4:.1f} {base - high:.1f}H{right + wide + 4:.1f}", stroke="ink", wide=1, dash="2 3")
    glyph = {"proposed": "d ", "drawn": "↺ "}.get(s.role, "")
    shown = glyph + clip(s.label, max(2, int(each / (13 * CHAR)) - len(glyph) - 1))
    rest = s.label == "rest"
    c.text(middle, base + 22, shown, mono=not rest, anchor="middle", bold=bool(glyph), fill="quiet" if rest else "ink")
