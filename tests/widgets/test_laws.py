"""The laws of the lab's rules against the engine: every random choice enumerated, with the rule's mistake in it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.engine import Engine
from specdec_teach.exercises.laws import engine_with, first_token, model_of
from specdec_teach.labs import first_tokens
from specdec_widgets.laws import RULES, accepted, corrected, distance, laws

TEXTBOOK = ([0.6, 0.3, 0.1], [0.2, 0.5, 0.3])
FOUR = ([0.4, 0.3, 0.2, 0.1], [0.1, 0.15, 0.25, 0.5])


def some_laws(count: int, seed: int = 3) -> list[tuple[list[float], list[float]]]:
    rng, out = random.Random(seed), [TEXTBOOK, FOUR]
    for _ in range(count):
        n = rng.randint(2, 5)
        a, b = ([rng.random() ** 2 + 0.01 for _ in range(n)] for _ in range(2))
        out.append(([x / sum(a) for x in a], [x / sum(b) for x in b]))
    return out


def ratio(p: list[float], q: list[float], token: int) -> float:
    return min(1.0, p[token] / q[token])


def rest(p: list[float], q: list[float], token: int) -> Sequence[float]:
    return [max(a - b, 0.0) for a, b in zip(p, q, strict=True)]


@pytest.mark.parametrize(("p", "q"), some_laws(12))
def test_every_rule_has_the_law_that_the_engine_has_with_it(p: list[float], q: list[float]) -> None:
    found, target, drafter = laws(p, q), model_of(p), ModelDrafter(model_of(q))
    honest = first_token(Engine(target, drafter=drafter, gamma=1))
    assert honest == pytest.approx(found["exact"], abs=1e-12)
    assert honest == pytest.approx(p, abs=1e-12)
    redraw = engine_with(target, drafter, ratio, lambda p, q, token: p)
    assert first_token(redraw) == pytest.approx(found["redraw"], abs=1e-12)
    threshold = engine_with(target, drafter, lambda p, q, token: float(p[token] >= q[token]), lambda p, q, token: p)
    assert first_token(threshold) == pytest.approx(found["threshold"], abs=1e-12)
    sure = ModelDrafter(model_of(q), mode="argmax")
    likeliest = engine_with(target, sure, lambda p, _, token: ratio(p, q, token), lambda p, _, token: rest(p, q, token))
    assert first_token(likeliest) == pytest.approx(found["argmax"], abs=1e-12)
    kept = engine_with(target, drafter, ratio, lambda p, q, token: list(map(min, p, q)))
    assert first_token(kept) == pytest.approx(found["kept"], abs=1e-12)


@pytest.mark.parametrize(("p", "q"), some_laws(6))
def test_one_u_for_both_is_what_inverting_the_residual_at_it_gives(p: list[float], q: list[float]) -> None:
    steps, out = 20_000, [0.0] * len(p)
    free, mass = corrected(p, q), sum(corrected(p, q))
    for token, share in enumerate(q):
        for i in range(steps):
            u = (i + 0.5) / steps
            drawn, at = token, u * mass
            if u * q[token] >= p[token]:
                drawn = next(k for k in range(len(p)) if sum(free[: k + 1]) > at)
            out[drawn] += share / steps
    assert laws(p, q)["same_u"] == pytest.approx(out, abs=2e-4)


def test_known_laws() -> None:
    found = laws(*TEXTBOOK)
    assert found["redraw"] == pytest.approx((0.44, 0.42, 0.14))
    assert found["kept"] == pytest.approx((1 / 3, 1 / 2, 1 / 6))
    assert found["threshold"] == pytest.approx((0.68, 0.24, 0.08))
    assert found["argmax"] == pytest.approx((0.4, 0.6, 0.0))
    assert laws(*FOUR)["same_u"] == pytest.approx((0.333, 0.367, 0.2, 0.1), abs=5e-4)


@pytest.mark.parametrize(("p", "q"), [*some_laws(20), ([1.0, 0.0], [0.0, 1.0]), ([0.5, 0.5], [0.5, 0.5])])
def test_masses_add_up(p: list[float], q: list[float]) -> None:
    assert sum(accepted(p, q)) + sum(corrected(p, q)) == pytest.approx(1)
    assert sum(corrected(p, q)) == pytest.approx(distance(p, q))
    for name, law in laws(p, q).items():
        assert sum(law) == pytest.approx(1), name
        assert min(law) >= 0
    assert laws(p, q).keys() == RULES.keys()


def test_the_engine_draws_from_p_and_never_twice_the_same_run() -> None:
    p, q = FOUR
    drawn = first_tokens(p, q, 0, 300)
    assert first_tokens(p, q, 100, 20) == drawn[100:120]
    freq = [drawn.count(token) / len(drawn) for token in range(4)]
    assert distance(freq, p) < 0.08 < distance(laws(p, q)["same_u"], p) + 0.02
