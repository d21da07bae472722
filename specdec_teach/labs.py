"""Views that call a real engine: the acceptance lab, live mode, the bug hunt, the cost explorer.

Invariant: a view gets functions and plain numbers; it never sees an engine, and draws no number itself.
It does not know how anything is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Items
from statistics import median
from typing import Any

from specdec_kernels.errors import InvalidInput, unknown_name
from specdec_teach import faults, hunting, views
from specdec_teach.drafters.base import Drafter
from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.engine import Engine
from specdec_teach.exercises.laws import model_of
from specdec_teach.invariants import Violation
from specdec_teach.lineup import drafters_for
from specdec_teach.pairs import Pair
from specdec_teach.probe import Costs, alternate, measure
from specdec_teach.sampling import Sampling
from specdec_teach.trace import Trace

__all__ = ["acceptance", "costs", "explorer", "first_draws", "hunt", "live", "runs"]

RULES = ("rejection", "block", "coupled", "typical", "threshold", "synthetic")
CACHES = ("contiguous", "paged", "masked")
NEVER, ALL = "–", "accept all"
FORCED = (NEVER, ALL, *map(str, range(1, 9)))


def acceptance(
    p: Items[float] = (0.6, 0.3, 0.1), q: Items[float] = (0.2, 0.5, 0.3), *, labels: Items[str] | None = None
) -> object:
    """Return the acceptance lab of two laws for a notebook: drag them, compare rules, let the engine draw.

    `p`: the target's probabilities, `q`: the draft's, both `[V]`. `labels`: names of the tokens.
    """
    return views.renderer().acceptance_lab(p, q, labels=labels, draws=first_draws)


def first_draws(
    p: Items[float], q: Items[float], first: int, count: int, rule: str = "rejection"
) -> list[tuple[int, bool]]:
    """Return (first token, whether the draft stood) of `count` runs of an engine: its target has law p, its draft q.

    The runs have the seeds `first`, `first + 1`, …; each is one cycle with γ = 1 under `rule`.

    >>> first_draws([1.0, 0.0], [0.0, 1.0], 0, 3)
    [(0, False), (0, False), (0, False)]
    """
    engine = Engine(model_of(p), drafter=ModelDrafter(model_of(q)), gamma=1, verify=rule)
    seeds = [Sampling(seed=seed) for seed in range(first, first + count)]
    results = engine.generate([[0]] * count, seeds, max_new_tokens=2, trace=False)
    return [(result.tokens[0], result.stats.accepted > 0) for result in results]


def live(
    pair: Pair,
    prompt: str = "Once upon a time",
    *,
    drafter: str | None = None,
    gamma: int = 4,
    temperature: float = 0.8,
    seed: int = 7,
    max_new_tokens: int = 32,
) -> object:
    """Return live mode for a notebook: a form whose settings run the engine again, cycle by cycle, above its player.

    `drafter`: a name of `sd.drafters_for(pair)`, or "none"; None takes the draft model where there is one. The other
    arguments are what the form starts with.
    """
    drafters: dict[str, Drafter | None] = {**drafters_for(pair), "none": None}
    first = drafter or ("model" if "model" in drafters else next(iter(drafters)))
    if first not in drafters:
        raise unknown_name("drafter", first, drafters)

    def run(settings: Mapping[str, Any]) -> Iterator[Callable[[], Trace]]:
        chosen, forced = drafters[settings["drafter"]], settings["reject"]
        engine = Engine(
            pair.target, drafter=chosen, tokenizer=pair.tokenizer, gamma=settings["gamma"] if chosen else 0,
            verify=settings["rule"], cache=settings["cache"],
        )  # fmt: skip
        stream = engine.stream(
            settings["prompt"],
            Sampling(temperature=settings["temperature"], seed=settings["seed"]),
            max_new_tokens=settings["tokens"],
            reject_at=None if forced == NEVER else 0 if forced == ALL else int(forced),
        )
        for _ in stream:
            yield stream.trace

    fields: list[dict[str, Any]] = [
        {"key": "prompt", "label": "prompt", "kind": "text", "value": prompt},
        {"key": "drafter", "label": "drafter", "kind": "choice", "value": first, "options": tuple(drafters)},
        {"key": "gamma", "label": "γ", "kind": "number", "value": gamma, "low": 0, "high": 16},
        {"key": "temperature", "label": "temperature", "kind": "number", "value": temperature, "high": 5, "step": 0.1},
        {"key": "seed", "label": "seed", "kind": "number", "value": seed, "high": 2**32 - 1},
        {"key": "tokens", "label": "new tokens", "kind": "number", "value": max_new_tokens, "low": 1, "high": 400},
        {"key": "rule", "label": "rule", "kind": "choice", "value": RULES[0], "options": RULES},
        {"key": "cache", "label": "cache", "kind": "choice", "value": CACHES[0], "options": CACHES},
        {"key": "reject", "label": "reject at", "kind": "choice", "value": NEVER, "options": FORCED},
    ]
    return views.renderer().live(run, fields)


def hunt(engine: Engine, prompt: str | Items[int], *, max_new_tokens: int = 32, seed: int = 7) -> object:
    """Return the bug hunt for a notebook: broken engines made of an honest one, by neutral names, and what they break.

    Each is run on `prompt` at temperature 0.8 with `seed`; one that breaks nothing there gets other settings, the same
    for all, and the view shows the first run that accuses it. What is wrong with them is not in the view.
    """

    def examine(name: str) -> tuple[Trace, list[Violation]]:
        return hunting.examine(engine, name, prompt, max_new_tokens, seed)

    return views.renderer().hunt(examine, faults.names(), hunting.descriptions())


def costs(
    engine: Engine,
    prompt: str | Items[int] = "Once upon a time",
    *,
    gammas: Items[int] = (1, 2, 4, 6, 8),
    max_new_tokens: int = 40,
    rounds: int = 5,
    seed: int = 7,
    dark: bool = False,
) -> object:
    """Return the cost explorer for a notebook: measures forwards and runs of `engine` now, then predicts from them.

    Each γ is timed in turn with plain decoding of the same prompt at temperature 0.8; a point is the ratio of the
    medians. `engine` needs a drafter over a model.
    """
    drafter = engine.drafter
    if not isinstance(drafter, ModelDrafter):
        raise InvalidInput("the cost explorer measures a draft model; give an engine with sd.ModelDrafter(...)")
    known = measure(engine.target_runner, drafter.runner, positions=(1, 2, 3, 5, 7, 9, 13))
    points = runs(engine, prompt, gammas, Sampling(temperature=0.8, seed=seed), max_new_tokens, rounds)
    return explorer(known, points, dark=dark)


def explorer(known: Costs, points: Items[tuple[int, float, float]] = (), *, dark: bool = False) -> object:
    """Return the cost explorer of costs that were measured before; `points` as (γ, α, speed-up)."""
    return views.renderer().cost_explorer(known.target, known.draft or 0.0, points, dark=dark)


def runs(
    engine: Engine, prompt: str | Items[int], gammas: Items[int], sampling: Sampling, tokens: int, rounds: int
) -> list[tuple[int, float, float]]:
    """Return (γ, share of judged drafts that stood, speed-up over plain decoding) for each γ that judged any draft."""

    def write(gamma: int) -> Callable[[], object]:
        return lambda: engine.generate(
            prompt, sampling, max_new_tokens=tokens, gamma=gamma or None, speculate=gamma > 0, trace=False
        )

    seconds = alternate({str(gamma): write(gamma) for gamma in (0, *gammas)}, rounds, warm_up=1)
    plain, found = median(seconds["0"]), []
    for gamma in gammas:
        trace = engine.generate(prompt, sampling, max_new_tokens=tokens, gamma=gamma).trace
        assert trace is not None
        stood = [d.accepted for c in trace.cycles for d in c.decisions if d.status in ("accepted", "rejected")]
        if stood:
            found.append((gamma, sum(stood) / len(stood), plain / median(seconds[str(gamma)])))
    return found
