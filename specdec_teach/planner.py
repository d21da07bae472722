"""The planner: chooses γ from what became of a request's drafts so far and from what cycles cost.

It asks for the γ ≥ 0 that promises the most tokens per second, E(γ) / (v(γ + 1) + d(γ)), and says when a draft under
way is not worth another token (`Patience`).
Invariant: as for everybody who plans (`pacing`); and the estimate counts only drafts that were looked at.
It does not know models, rules or how costs were measured.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass, field, replace
from typing import final

from specdec_kernels.errors import InvalidInput, shown, whole
from specdec_teach.costs import Costs
from specdec_teach.pacing import LEVELS, Patience, level

__all__ = ["MOST", "Estimate", "Planner", "expected_tokens"]

MOST = 8
"""The largest γ that the planner asks for, unless it is told otherwise."""


def expected_tokens(alpha: float, gamma: int) -> float:
    """Return E(γ), the tokens that a cycle is expected to emit when each draft is accepted with chance α.

    1 + α + … + α^γ. Source: Leviathan et al. 2023, equation 1.

    >>> expected_tokens(0.5, 2), expected_tokens(1.0, 4)
    (1.75, 5.0)
    """
    total = reach = 1.0
    for _ in range(gamma):
        reach *= alpha
        total += reach
    return total


@final
@dataclass(frozen=True, slots=True)
class Planner:
    """Plans by expected tokens per second: `gamma="auto"`.

    `costs`: of this machine; with given costs the same request gives the same trace. `most`: the largest γ. `prior`:
    accepted and rejected drafts that an estimate starts with.
    `memory`: what a cycle's counts are worth a cycle later.
    `probe`: after so many cycles without drafts one token is drafted, to look again; soon, since the first words
    behind a prompt are often the hardest to foresee. The wait doubles with each probe that is rejected, up to sixteen
    times as long; after one that is accepted the next cycle probes too. While nothing is drafted, the draft model lags;
    it computes what it lacks before the probe, and each further `chunk` of tokens counts as one more draft step.
    InvalidInput: numbers outside these meanings.

    >>> planner = Planner(Costs({1: 1.0, 9: 1.0}, 0.05))
    >>> start = planner.start()
    >>> start.gamma, start.after(4, 0, False).after(2, 0, False).gamma
    (4, 2)
    """

    costs: Costs = field(hash=False)
    most: int = MOST
    prior: tuple[float, float] = (1.5, 0.9)
    memory: float = 0.95
    probe: int = 4
    chunk: int = 16
    _times: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check, and work out what a cycle costs at every γ."""
        for name, value, low in (("most", self.most, 0), ("probe", self.probe, 1), ("chunk", self.chunk, 1)):
            number = whole(value)
            if number is None or number < low:
                raise InvalidInput(f"{name}={shown(value)}; give a whole number, {low} or more")
        if not (len(self.prior) == 2 and min(self.prior) > 0):
            raise InvalidInput(f"prior={shown(self.prior)}; give two counts above 0, of accepted and rejected drafts")
        if not 0 < self.memory <= 1:
            raise InvalidInput(f"memory={shown(self.memory)}; give a number above 0, at most 1 (nothing is forgotten)")
        times = tuple(self.costs.v(gamma + 1) + self.costs.d(gamma) for gamma in range(self.most + 1))
        object.__setattr__(self, "_times", times)

    @property
    def name(self) -> str:
        """See `Planning`."""
        return "auto"

    def start(self) -> Estimate:
        """See `Planning`."""
        return Estimate(self)

    def capped(self, most: int) -> Planner:
        """See `Planning`."""
        return self if most >= self.most else replace(self, most=most)

    def best(self, alpha: float, late: int = 0) -> int:
        """Return the γ with the most expected tokens per second, the smallest of equals.

        `late`: how many cycles the draft has to catch up with.
        """
        extra = (late // self.chunk) * (self.costs.c or 0.0)
        best, most, tokens, reach = 0, 0.0, 0.0, 1.0
        for gamma, time in enumerate(self._times):
            tokens += reach  # E(γ)
            reach *= alpha
            if (rate := tokens / (time + (extra if gamma else 0.0))) > most:
                best, most = gamma, rate
        return best

    def least(self, alpha: float, gamma: int) -> tuple[float, ...]:
        """Return the survival at which draft 2, 3, … γ just pays: its cost, at the rate of tokens of the whole plan."""
        rate = expected_tokens(alpha, gamma) / self._times[gamma]
        return tuple(rate * (b - a) / alpha for a, b in zip(self._times[1:], self._times[2 : gamma + 1], strict=False))


@final
@dataclass(frozen=True, slots=True)
class Estimate:
    """What a planner knows of one request, as counts of drafts that were looked at.

    Only positions up to and with the first rejection are known: k of K accepted are k successes, and a failure if
    k < K. What stands behind a rejection, or behind the end of the text, says nothing. With the planner's prior the
    counts are a Beta distribution, and `alpha` is its mean.
    `hits`, `misses`: by the draft's own probability, in the last place where it tells none. `idle`: cycles without
    drafts since the last one that had some; `wait`: how many there are before a probe.
    """

    planner: Planner
    hits: tuple[float, ...] = (0.0,) * (LEVELS + 1)
    misses: tuple[float, ...] = (0.0,) * (LEVELS + 1)
    idle: int = 0
    wait: int = 0

    @property
    def alpha(self) -> float:
        """The expected chance that a draft is accepted."""
        return self._mean(sum(self.hits), sum(self.misses))

    @property
    def gamma(self) -> int:
        """See `Outlook`."""
        best = self.planner.best(self.alpha, self.idle)
        return best or int(self.idle >= self.wait and self.planner.best(1.0) > 0)

    @property
    def patience(self) -> Patience | None:
        """See `Outlook`."""
        gamma, alpha = self.gamma, self.alpha
        if gamma < 2:
            return None
        levels = zip(self.hits[:-1], self.misses[:-1], strict=True)
        prior = sum(self.planner.prior)
        rates = tuple((alpha * prior + hits) / (prior + hits + misses) for hits, misses in levels)
        return Patience(rates, self.planner.least(alpha, gamma))

    def after(self, drafted: int, accepted: int, cut: bool, confidence: Items[float] = ()) -> Estimate:
        """See `Outlook`."""
        if drafted == 0:
            return replace(self, idle=self.idle + 1, wait=self.wait or self.planner.probe)
        keep = self.planner.memory
        hits, misses = [keep * n for n in self.hits], [keep * n for n in self.misses]
        for at in range(accepted):
            hits[level(confidence[at]) if confidence else -1] += 1.0
        stood = accepted == drafted or cut
        if not stood:
            misses[level(confidence[accepted]) if confidence else -1] += 1.0
        probed = self.idle >= self.wait > 0
        wait = 0 if stood else min(2 * self.wait, 16 * self.planner.probe) if probed else self.planner.probe
        return replace(self, hits=tuple(hits), misses=tuple(misses), idle=0, wait=wait)

    def reset(self) -> Estimate:
        """See `Outlook`."""
        return self.planner.start()

    def _mean(self, hits: float, misses: float) -> float:
        stood, fell = self.planner.prior
        return (stood + hits) / (stood + fell + hits + misses)
