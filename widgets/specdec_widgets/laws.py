"""The law of one emitted token under two exact rules, and under five that look as good and are not.

One draft is judged, so block verification is the rejection rule here and has no entry of its own. Invariant: pure
functions of p and q, and every law sums to 1. They mirror static/laws.js, and a test holds both against the engine's
enumerated laws. It does not know what is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["ENGINE", "RULES", "accepted", "agreed", "corrected", "distance", "laws", "stands"]

Law = tuple[float, ...]

RULES = {
    "exact": "accept with min(1, p/q), else draw from [p − q]₊",
    "coupled": "one Gumbel noise for both, accept if they agree",
    "redraw": "accept with min(1, p/q), else draw from p",
    "kept": "draft again until one is accepted",
    "threshold": "accept if p ≥ q, else draw from p",
    "argmax": "draft the likeliest token, divide by its q",
    "same_u": "one u for the test and for the residual",
}
ENGINE = {"rejection": "exact", "coupled": "coupled"}
"""The engine's rules that the lab can draw under, and whose law each has."""


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


def agreed(p: Sequence[float], q: Sequence[float]) -> Law:
    """Return by token how often target and draft both choose it under shared Gumbel noise; the sum is coupled's α.

    With E_v independent exponentials, a choice is the smallest E_v / p_v; so both choose a with chance
    1 / Σ max(p_v / p_a, q_v / q_a). Source: Daliri et al. 2024.

    >>> round(sum(agreed([0.6, 0.3, 0.1], [0.2, 0.5, 0.3])), 4)
    0.5778
    """
    rows = list(zip(p, q, strict=True))
    return tuple(1 / sum(max(a / pa, b / qa) for a, b in rows) if pa > 0 and qa > 0 else 0.0 for pa, qa in rows)


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
    good = stands(p, q)["threshold"]
    return {
        "exact": tuple(a + b for a, b in zip(least, rest, strict=True)),
        "coupled": tuple(p),  # the draft or not, every token is the target's own choice
        "redraw": tuple(a + (1 - alpha) * b for a, b in zip(least, p, strict=True)),
        "kept": tuple(a / alpha for a in least) if alpha > 0 else tuple(p),
        "threshold": tuple((b if a >= b else 0.0) + (1 - good) * a for a, b in zip(p, q, strict=True)),
        "argmax": _argmax(p, q, rest, beta),
        "same_u": _same_u(p, q, rest, beta),
    }


def stands(p: Sequence[float], q: Sequence[float]) -> dict[str, float]:
    """Return how often a draft is accepted under every rule of `RULES`.

    >>> {rule: round(share, 2) for rule, share in stands([0.6, 0.3, 0.1], [0.2, 0.5, 0.3]).items()}
    {'exact': 0.6, 'coupled': 0.58, 'redraw': 0.6, 'kept': 0.6, 'threshold': 0.2, 'argmax': 0.6, 'same_u': 0.6}
    """
    alpha, draft = sum(accepted(p, q)), _likeliest(q)
    return {
        **dict.fromkeys(RULES, alpha),
        "coupled": sum(agreed(p, q)),
        "threshold": sum(b for a, b in zip(p, q, strict=True) if a >= b),
        "argmax": min(1.0, p[draft] / q[draft]),
    }


def _likeliest(q: Sequence[float]) -> int:
    return max(range(len(q)), key=lambda i: (q[i], -i))


def _argmax(p: Sequence[float], q: Sequence[float], rest: Law, beta: float) -> Law:
    """The draft is certain; the test and the residual take its softmax for the law it was drawn from."""
    draft = _likeliest(q)
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
