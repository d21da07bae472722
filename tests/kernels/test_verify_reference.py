"""The torch reference: its exact law by enumeration, the law of its draws by chi-square, and the crafted cases."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from specdec_kernels import noise, race
from specdec_kernels.rejection import residual
from specdec_kernels.verify import verify_chain
from tests.kernels.laws import Models, emitted_law, expected_accepted, outcomes, target_law

TOLERANCE = 1e-12
RULES = ("rejection", "block")


def _same(found: dict[tuple[int, ...], float], right: dict[tuple[int, ...], float]) -> None:
    worst = max(abs(found.get(key, 0.0) - right.get(key, 0.0)) for key in found.keys() | right.keys())
    assert worst < TOLERANCE, f"the laws differ by {worst:.3g}"


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("one_hot", [False, True])
@pytest.mark.parametrize(("width", "length"), [(3, 1), (4, 1), (3, 2), (4, 2), (3, 3)])
def test_the_law_is_the_targets(rule: str, one_hot: bool, width: int, length: int) -> None:
    """Every draft, every cell of the numbers, every token that can follow: together the target's own law."""
    for seed in range(3):
        models = Models.random(100 * width + 10 * length + seed, width, length, one_hot)
        _same(emitted_law(models, rule), target_law(models))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("p", "q", "alpha"),
    [
        ([0.6, 0.3, 0.1], [0.2, 0.5, 0.3], 0.6),
        ([0.6, 0.3, 0.1], [0.0, 1.0, 0.0], 0.3),
        ([4 / 7, 3 / 7, 0.0, 0.0], [0.1 / 0.45, 0.35 / 0.45, 0.0, 0.0], 0.1 / 0.45 + 3 / 7),
        ([0.4, 0.3, 0.2, 0.1], [0.1, 0.15, 0.25, 0.5], 0.55),
    ],
    ids=["textbook", "one-hot", "top-k 2", "four tokens"],
)
def test_crafted_cases(rule: str, p: list[float], q: list[float], alpha: float) -> None:
    """The law is p and the first draft stands with chance α, with one draft and with three."""
    single = Models.constant(p, q, 1)
    _same(emitted_law(single, rule), target_law(single))
    assert expected_accepted(single, rule) == pytest.approx(alpha, abs=TOLERANCE)
    triple = Models.constant(p, q, 3)
    _same(emitted_law(triple, rule), target_law(triple))


def test_block_accepts_at_least_as_many() -> None:
    """In exact expectation, on 60 random pairs; and more on most of them, so that the two are not one rule."""
    gains = []
    for seed in range(60):
        models = Models.random(seed, 3, 2 + seed % 2, sharpness=1.0)
        gains.append(expected_accepted(models, "block") - expected_accepted(models, "rejection"))
    assert min(gains) > -TOLERANCE
    assert sum(gain > 1e-4 for gain in gains) > 40


def test_block_equals_rejection_for_one_draft() -> None:
    models = Models.random(5, 4, 1)
    first, second = (outcomes(models, rule) for rule in RULES)
    for one, other in zip(first, second, strict=True):
        assert one[:2] == other[:2]
        np.testing.assert_allclose(one[3], other[3], atol=TOLERANCE)


@pytest.mark.parametrize("rule", RULES)
def test_seeded_runs_follow_the_target(rule: str) -> None:
    """Chi-square of 200 000 rows: drafts drawn from q, then real numbers and real draws; law of three tokens' worth."""
    p, q = torch.tensor([0.4, 0.3, 0.2, 0.1]), torch.tensor([0.1, 0.15, 0.25, 0.5])
    rows, length = 200_000, 2
    generator = torch.Generator().manual_seed(3)
    drafts = torch.multinomial(q, rows * length, replacement=True, generator=generator).view(rows, length)
    verdict = verify_chain(
        drafts,
        q.expand(rows, length, 4),
        p.expand(rows, length + 1, 4),
        seeds=torch.arange(rows),
        positions=torch.arange(rows) % 7,
        rule=rule,
    )
    # Rows that emit fewer than three tokens go on with the target's own.
    more = torch.multinomial(p, rows * length, replacement=True, generator=generator).view(rows, length)
    tokens = verdict.tokens.clone()
    tokens[:, 1:] = torch.where(tokens[:, 1:] < 0, more, tokens[:, 1:])
    counts = torch.bincount(tokens @ torch.tensor([16, 4, 1]), minlength=64).numpy()
    right = np.array([p[a] * p[b] * p[c] for a, b, c in itertools.product(range(4), repeat=3)], dtype=np.float64)
    assert stats.chisquare(counts, right / right.sum() * rows).pvalue > 1e-4


def test_the_race_follows_its_weights() -> None:
    """Chi-square of 400 000 races over weights that span four powers of ten, and independent of the acceptance draw."""
    weights = torch.tensor([1e-4, 0.3, 0.0, 2e-3, 0.5, 0.05, 0.1, 0.0477], dtype=torch.float32)
    rows = 400_000
    seeds = torch.arange(rows)
    times = noise.race_times(seeds, noise.TOKEN, torch.full((rows,), 2**33), 8)
    tokens = race.winner(weights.expand(rows, 8), times)
    counts = torch.bincount(tokens, minlength=8).numpy()
    assert counts[2] == 0
    live = weights.numpy() > 0
    right = weights.numpy()[live].astype(np.float64)
    assert stats.chisquare(counts[live], right / right.sum() * rows).pvalue > 1e-4
    u = noise.acceptance_uniforms(seeds, torch.full((rows,), 2**33), 1)[:, 0]
    split = [torch.bincount(tokens[half], minlength=8).numpy()[live] for half in (u < 0.5, u >= 0.5)]
    assert stats.chi2_contingency(np.array(split)).pvalue > 1e-4


# Coupled verification: identities, and its law.


def _coupled(drafts: Tensor, p: Tensor, seeds: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    verdict = verify_chain(drafts, None, p, seeds=seeds, positions=positions, rule="coupled")
    return verdict.accepted, verdict.tokens


def test_coupled_text_does_not_depend_on_the_drafts() -> None:
    """Whatever was drafted, the emitted tokens are those that plain decoding at these positions gives."""
    rows, length, width = 64, 4, 6
    p = torch.softmax(torch.randn(rows, length + 1, width, generator=torch.Generator().manual_seed(1)), -1)
    seeds, positions = torch.arange(rows), torch.arange(rows) * 3
    none = torch.zeros(rows, 0, dtype=torch.int64)
    plain = torch.stack(
        [_coupled(none, p[:, i : i + 1].contiguous(), seeds, positions + i)[1][:, 0] for i in range(length + 1)], -1
    )
    accepted, tokens = _coupled(plain[:, :length], p, seeds, positions)
    assert accepted.eq(length).all()
    assert torch.equal(tokens, plain)
    drafts = torch.randint(width, (rows, length), generator=torch.Generator().manual_seed(2))
    accepted, tokens = _coupled(drafts, p, seeds, positions)
    agrees = (drafts == plain[:, :length]).to(torch.int64).cumprod(-1).sum(-1)
    assert torch.equal(accepted, agrees)
    assert 0 < agrees.sum() < rows * length
    kept = torch.arange(length + 1) <= accepted[:, None]
    assert torch.equal(tokens, torch.where(kept, plain, -1))


def test_coupled_is_gumbel_max_with_the_law_of_p() -> None:
    """y = argmax(log p − log E), with a chi-square; a one-hot draft stands with chance p(draft)."""
    p = torch.tensor([0.4, 0.3, 0.2, 0.1])
    rows = 200_000
    seeds, positions = torch.arange(rows), torch.arange(rows) % 11
    accepted, tokens = _coupled(torch.full((rows, 1), 1), p.expand(rows, 2, 4), seeds, positions)
    counts = torch.bincount(tokens[:, 0], minlength=4).numpy()
    assert stats.chisquare(counts, p.double().numpy() / p.double().sum().item() * rows).pvalue > 1e-4
    assert int(accepted.sum()) == counts[1]
    gumbel = -noise.race_times(seeds[:1000], noise.COUPLED, positions[:1000], 4).double().log()
    assert torch.equal(tokens[:1000, 0], (p.double().log() + gumbel).argmax(-1))


# The edges of the rule.


def _one(
    drafts: list[int], q: list[list[float]] | None, p: list[list[float]], u: list[float] | None, rule: str = "rejection"
) -> tuple[int, list[int], bool]:
    zero = torch.zeros(1, dtype=torch.int64)
    verdict = verify_chain(
        torch.tensor([drafts]),
        None if q is None else torch.tensor([q]),
        torch.tensor([p]),
        seeds=zero,
        positions=zero,
        uniforms=None if u is None else torch.tensor([u]),
        rule=rule,
    )
    return int(verdict.accepted), verdict.tokens[0].tolist(), bool(verdict.degenerate)


def test_acceptance_is_strict() -> None:
    """u·q < p: equality is a refusal, and p = 0 is never accepted, not even at q = 0."""
    q, p = [[0.5, 0.5]], [[0.75, 0.25], [1.0, 0.0]]
    assert _one([1], q, p, [0.5])[0] == 0
    assert _one([1], q, p, [0.49999997])[0] == 1
    for rule in RULES:
        assert _one([1], [[1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]], [1e-7], rule)[:2] == (0, [0, -1])
        assert _one([1], None, [[1.0, 0.0], [1.0, 0.0]], [1e-7], rule)[:2] == (0, [0, -1])


@pytest.mark.parametrize("rule", RULES)
def test_an_empty_residual_is_counted(rule: str) -> None:
    """q ≥ p everywhere, by rounding: the token comes from p, and the verdict says so."""
    assert _one([0], [[0.6, 0.41]], [[0.59, 0.41], [0.5, 0.5]], [0.99], rule) in [(0, [t, -1], True) for t in (0, 1)]
    assert _one([1], None, [[0.0, 0.9], [0.5, 0.5]], [0.99], rule) == (0, [1, -1], True)
    assert not _one([0], [[0.6, 0.4]], [[0.5, 0.5], [0.5, 0.5]], [0.99], rule)[2]


def test_a_bonus_is_never_degenerate() -> None:
    accepted, tokens, degenerate = _one([0, 0], None, [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], None)
    assert (accepted, tokens, degenerate) == (2, [0, 0, 1], False)


def test_small_residuals_are_exact() -> None:
    """151 000 tokens with p = q but for two: the mass of 1e-3 lies on one token, which is the correction every time."""
    width, zero = 151_000, torch.arange(8)
    q = torch.full((width,), 1.0 / width)
    p = q.clone()
    p[7], p[8] = p[7] + 1e-3, 0.0
    for rule in RULES:
        verdict = verify_chain(
            torch.full((8, 1), 8), q.expand(8, 1, width), p.expand(8, 2, width), seeds=zero, positions=zero, rule=rule
        )
        assert verdict.tokens.tolist() == [[7, -1]] * 8


def test_ragged_rows_are_rows_alone() -> None:
    """A row's outcome does not depend on its neighbours or on what lies behind its end."""
    generator = torch.Generator().manual_seed(5)
    rows, length, width = 6, 4, 5
    p = torch.softmax(torch.randn(rows, length + 1, width, generator=generator), -1)
    q = torch.softmax(torch.randn(rows, length, width, generator=generator), -1)
    drafts = torch.randint(width, (rows, length), generator=generator)
    sizes = [0, 1, 2, 3, 4, 4]
    for row, size in enumerate(sizes):
        drafts[row, size:] = -1
        p[row, size + 1 :] = float("nan")
        q[row, size:] = float("nan")
    seeds, positions = torch.arange(rows) + 50, torch.arange(rows) * 9
    for rule in (*RULES, "coupled"):
        whole = verify_chain(drafts, q, p, seeds=seeds, positions=positions, rule=rule)
        for row, size in enumerate(sizes):
            at = slice(row, row + 1)
            alone = verify_chain(
                drafts[at, :size],
                q[at, :size],
                p[at, : size + 1],
                seeds=seeds[at],
                positions=positions[at],
                rule=rule,
            )
            assert alone.accepted[0] == whole.accepted[row]
            assert alone.tokens[0].tolist() == whole.tokens[row, : size + 1].tolist()
            assert whole.tokens[row, size + 1 :].eq(-1).all()


def test_the_engines_residual_is_this_one() -> None:
    """`specdec_kernels.rejection`, which the engine uses row by row, agrees with what the draw is given here."""
    models = Models.random(9, 4, 1)
    for block, accepted, _, law in outcomes(models, "rejection"):
        if accepted == 0:
            p, q = torch.tensor(models.target[()]), torch.tensor(models.draft[()])
            rest, mass = residual(p, q, torch.tensor(block[0]))
            np.testing.assert_allclose(law, (rest / mass).numpy(), atol=TOLERANCE)


@pytest.mark.parametrize("rule", RULES)
def test_each_purpose_has_its_documented_number(rule: str) -> None:
    """Acceptance: stream 1 at position + i. The token behind n drafts: stream 2 at position + n, from the residual."""
    generator = torch.Generator().manual_seed(8)
    rows, length, width = 300, 3, 5
    p = torch.softmax(torch.randn(rows, length + 1, width, generator=generator), -1)
    q = torch.softmax(torch.randn(rows, length, width, generator=generator), -1)
    drafts = torch.multinomial(q.flatten(0, 1), 1, generator=generator).view(rows, length)
    numbers = {"seeds": torch.arange(rows) - 150, "positions": torch.arange(rows) * 2**30}
    verdict = verify_chain(drafts, q, p, rule=rule, **numbers)
    u = noise.acceptance_uniforms(numbers["seeds"], numbers["positions"], length)
    assert torch.equal(verify_chain(drafts, q, p, rule=rule, uniforms=u, **numbers).tokens, verdict.tokens)
    times = noise.race_times(numbers["seeds"], noise.TOKEN, numbers["positions"] + verdict.accepted, width)
    for row, n in enumerate(verdict.accepted.tolist()):
        if rule == "rejection" or n in (0, length):
            rest = p[row, n] if n == length else residual(p[row, n], q[row, n], drafts[row, n])[0]
            assert verdict.tokens[row, n] == race.winner(rest[None], times[row : row + 1])[0]
    assert {0, 1, length} <= set(verdict.accepted.tolist())


def test_the_lowest_id_wins_ties() -> None:
    assert race.winner(torch.tensor([[0.0, 0.2, 0.4, 0.4]]), torch.tensor([[1.0, 1.0, 2.0, 2.0]])).tolist() == [1]
