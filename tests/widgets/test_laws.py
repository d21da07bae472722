"""The laws of the lab's rules against the engine: every random choice enumerated, with the rule's mistake in it."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from scipy.integrate import quad

from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.engine import Engine
from specdec_teach.exercises.laws import engine_with, first_token, model_of
from specdec_teach.labs import first_draws
from specdec_widgets.laws import ENGINE, RULES, accepted, agreed, corrected, distance, laws, stands
from tests.checks import expected_tokens

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
    target, drafter, sure = model_of(p), ModelDrafter(model_of(q)), ModelDrafter(model_of(q), mode="argmax")
    engines = {
        **{key: Engine(target, drafter=drafter, gamma=1, verify=rule) for rule, key in ENGINE.items()},
        "redraw": engine_with(target, drafter, ratio, lambda p, q, token: p),
        "threshold": engine_with(target, drafter, lambda p, q, y: float(p[y] >= q[y]), lambda p, q, token: p),
        "argmax": engine_with(target, sure, lambda p, _, y: ratio(p, q, y), lambda p, _, y: rest(p, q, y)),
        "kept": engine_with(target, drafter, ratio, lambda p, q, token: list(map(min, p, q))),
    }
    assert engines.keys() == RULES.keys() - {"same_u"}
    for key, engine in engines.items():
        assert first_token(engine) == pytest.approx(laws(p, q)[key], abs=1e-12), key
        assert expected_tokens(engine) - 1 == pytest.approx(stands(p, q)[key], abs=1e-12), key
    for key in ENGINE.values():
        assert laws(p, q)[key] == pytest.approx(p, abs=1e-12)


@pytest.mark.parametrize(("p", "q"), some_laws(4))
def test_block_with_one_draft_is_the_rejection_rule(p: list[float], q: list[float]) -> None:
    block = Engine(model_of(p), drafter=ModelDrafter(model_of(q)), gamma=1, verify="block")
    assert first_token(block) == pytest.approx(laws(p, q)["exact"], abs=1e-12)
    assert expected_tokens(block) - 1 == pytest.approx(stands(p, q)["exact"], abs=1e-12)


@pytest.mark.parametrize(("p", "q"), some_laws(6))
def test_draft_and_target_agree_as_often_as_the_integral_over_their_noise_says(p: list[float], q: list[float]) -> None:
    """Both choose a if every other exponential E_v rings later by either clock, E_v / p_v and E_v / q_v."""
    for a, share in enumerate(agreed(p, q)):

        def both(e: float, a: int = a) -> float:
            others = [v for v in range(len(p)) if v != a]
            return math.exp(-e) * math.prod(math.exp(-max(p[v] * e / p[a], q[v] * e / q[a])) for v in others)

        assert share == pytest.approx(quad(both, 0, math.inf)[0], abs=1e-7)
    alpha, beta = sum(accepted(p, q)), sum(corrected(p, q))
    assert (1 - beta) / (1 + beta) - 1e-12 <= stands(p, q)["coupled"] <= alpha + 1e-12


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
    assert laws(p, q).keys() == stands(p, q).keys() == RULES.keys()
    assert all(0 <= share <= 1 + 1e-12 for share in stands(p, q).values())


@pytest.mark.parametrize("rule", ENGINE)
def test_the_engine_draws_from_p_and_never_twice_the_same_run(rule: str) -> None:
    p, q = FOUR
    drawn = first_draws(p, q, 0, 1000, rule)
    assert first_draws(p, q, 100, 20, rule) == drawn[100:120]
    tokens, stood = zip(*drawn, strict=True)
    freq = [tokens.count(token) / len(drawn) for token in range(4)]
    assert distance(freq, p) < 0.045 < distance(laws(p, q)["same_u"], p)
    assert sum(stood) / len(drawn) == pytest.approx(stands(p, q)[ENGINE[rule]], abs=4 * 0.5 / len(drawn) ** 0.5)


def test_a_draft_that_is_certain_is_accepted_as_often_under_both_rules() -> None:
    """For one-hot q shared noise costs nothing; for the textbook's laws it does."""
    p, one_hot = TEXTBOOK[0], [0.0, 1.0, 0.0]
    assert stands(p, one_hot)["coupled"] == pytest.approx(stands(p, one_hot)["exact"]) == pytest.approx(0.3)
    assert agreed(*TEXTBOOK) == pytest.approx((1 / 5, 1 / 3.6, 1 / 10))
