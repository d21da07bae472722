"""The law of one emitted token under the exact rule, and under five rules that look as good and are not.

Invariant: pure functions of p and q, and every law sums to 1. They mirror static/laws.js, and a test holds both
against the engine's enumerated laws. It does not know what is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["RULES", "accepted", "corrected", "distance", "laws"]

Law = tuple[float, ...]

RULES = {
    "exact": "accept with min(1, p/q), else draw from [p − q]₊",
    "redraw": "accept with min(1, p/q), else draw from p",
    "kept": "draft again until one is accepted",
    "threshold": "accept if p ≥ q, else draw from p",
    "argmax": "draft the likeliest token, divide by its q",
    "same_u": "one u for the test and for the residual",
}


def accepted(p: Sequence[float], q: Sequence[float]) -> Law:
    """Return min(p, q) by token; its sum is α.

    >>> [round(x, 2) for x in accepted([0.6, 0.3, 0.1], [0.2, 0.5, 0.3])]
    [0.2, 0.3, 0.1]
    """
    return tuple(map(min, p, q))


def corrected(p: Sequence[float], q: Sequence[float]) -> Law:
    """Return [p − q]₊ by token; its sum is β = 1 − α.

    >>> [round(x, 2) for x in corrected([0.6, 0.3, 0.1], [0.2, 0.5, 0.3])]
    [0.4, 0.0, 0.0]
    """
    return tuple(max(a - b, 0.0) for a, b in zip(p, q, strict=True))


def distance(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the total variation distance, Σ|a − b| / 2."""
    return sum(abs(x - y) for x, y in zip(a, b, strict=True)) / 2


def laws(p: Sequence[float], q: Sequence[float]) -> dict[str, Law]:
    """Return the law of the emitted token under every rule of `RULES`.

    >>> [round(x, 2) for x in laws([0.6, 0.3, 0.1], [0.2, 0.5, 0.3])["redraw"]]
    [0.44, 0.42, 0.14]
    """
    least, rest = accepted(p, q), corrected(p, q)
    alpha, beta = sum(least), sum(rest)
    good = sum(b for a, b in zip(p, q, strict=True) if a >= b)
    return {
        "exact": tuple(a + b for a, b in zip(least, rest, strict=True)),
        "redraw": tuple(a + (1 - alpha) * b for a, b in zip(least, p, strict=True)),
        "kept": tuple(a / alpha for a in least) if alpha > 0 else tuple(p),
        "threshold": tuple((b if a >= b else 0.0) + (1 - good) * a for a, b in zip(p, q, strict=True)),
        "argmax": _argmax(p, q, rest, beta),
        "same_u": _same_u(p, q, rest, beta),
    }


def _argmax(p: Sequence[float], q: Sequence[float], rest: Law, beta: float) -> Law:
    """The draft is certain; the test and the residual take its softmax for the law it was drawn from."""
    draft = max(range(len(q)), key=lambda i: (q[i], -i))
    chance = min(1.0, p[draft] / q[draft])
    after = [r / beta for r in rest] if beta > 0 else p
    return tuple(chance * (i == draft) + (1 - chance) * a for i, a in enumerate(after))


def _same_u(p: Sequence[float], q: Sequence[float], rest: Law, beta: float) -> Law:
    """After a rejection of x, u is uniform on (p/q, 1), and the residual is inverted at that u, not at a fresh one."""
    out = list(accepted(p, q))
    if beta <= 0:
        return tuple(out)
    for a, b in zip(p, q, strict=True):
        low, floor = a / b if b > a else 1.0, 0.0
        for i, r in enumerate(rest):
            edge = floor + r / beta
            out[i] += b * max(0.0, edge - max(floor, low))
            floor = edge
    return tuple(out)
