"""The engine's own components over tabular models, whose answers are known on paper.

The exact law of the first tokens by enumeration, seeded runs against it, an end token at every draft index, penalties,
and the cap. Invariant: what is compared with is arithmetic on the tables, never another run of the engine.
It does not know caches: whatever the engine uses is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Items

import torch
from torch import Tensor

from specdec_kernels.errors import SpecDecError
from specdec_teach.branches import depth
from specdec_teach.checking.report import STOPPED, TIE, Row
from specdec_teach.drafters.base import Drafter
from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.drafters.tree import TreeDrafter
from specdec_teach.engine import Engine
from specdec_teach.exact import exact_law
from specdec_teach.hf import ModelRunner
from specdec_teach.policy import processed
from specdec_teach.result import Result
from specdec_teach.rules.kernel import ByKernel
from specdec_teach.sampling import Sampling
from specdec_teach.testing import TabularLM

__all__ = ["caps", "chi_square", "ends", "guarded", "laws", "over", "penalties"]

Law = dict[tuple[int, ...], float]
Step = Callable[[tuple[int, ...]], Items[float]]

P3, Q3 = (0.6, 0.3, 0.1), (0.2, 0.5, 0.3)
P4, Q4 = (0.4, 0.3, 0.2, 0.1), (0.1, 0.15, 0.25, 0.5)
Q_FILTER = (0.1, 0.35, 0.3, 0.25)
CLOSE = 1e-12
UNLIKELY = 1e-4


def over(engine: Engine, target: object, draft: object, gamma: int) -> Engine:
    """Return `engine` with its rule, parts, cache and kind of drafter over other models; a kernel is left out.

    A drafter that cannot be had over a table is replaced by a draft model.
    """
    again: Callable[[object], Drafter] = getattr(engine.drafter, "over", ModelDrafter)
    rule = engine.rule.rule if isinstance(engine.rule, ByKernel) else engine.rule
    cache = "contiguous" if engine.cache == "snapshot" else engine.cache
    runner = ModelRunner(target, "target")
    return engine.variant(
        target_runner=runner, drafter=again(draft), rule=rule, cache=cache, blocks=None, tokenizer=None, gamma=gamma
    )


def guarded(group: str, case: str, look: Callable[[], tuple[bool, float | None, str]]) -> Row:
    """Return the row of one case; an engine that stops on its own fails it, and an excused tie is told."""
    try:
        ok, worst, detail = look()
    except (SpecDecError, RuntimeError, IndexError, KeyError, AssertionError) as error:
        return Row(group, case, False, None, f"{STOPPED}{error or type(error).__name__}")
    return Row(group, case, ok, worst, "" if ok and not detail.startswith(TIE) else detail)


def laws(engine: Engine) -> Iterator[Row]:
    """Compare the exact law of the first tokens with the target's own, in cases that usual mistakes get wrong."""
    for group, case, p, q, gamma, count, sampling in _law_cases():
        right = _of_rows(p, sampling)
        both = _few(over(engine, TabularLM(p), TabularLM(q), gamma))
        yield guarded(group, case, lambda b=both, n=count, s=sampling, r=right: _compared(b, n, s, r))  # type: ignore[misc]
    both = _few(over(engine, TabularLM(_whole(1), vocab=3), TabularLM(_whole(2), vocab=3), 2))
    plain = Sampling(eos_token_id=None)

    def step(prefix: tuple[int, ...]) -> Items[float]:
        return _whole(1)(prefix).softmax(-1).tolist()

    yield guarded("law, T = 1", "logits that depend on every token before", lambda: _compared(both, 3, plain, step))
    counted = Sampling(frequency_penalty=1.0, presence_penalty=0.5, eos_token_id=None)
    tables = _few(over(engine, TabularLM(_logs(P3)), TabularLM(_logs(Q3)), 2))
    yield guarded(
        "law, penalty",
        "three tokens, frequency and presence penalties",
        lambda: _compared(tables, 3, counted, lambda prefix: _penalised(_logs(P3), prefix[1:]).softmax(-1).tolist()),
    )


def _few(engine: Engine) -> Engine:
    """Return the engine with trees whose ways can be counted: wide ones that are drawn have V^nodes of them.

    Two first drafts, one below each, and one more below the first: siblings are told apart, and so are their descents.
    """
    drafter = engine.drafter
    if not isinstance(drafter, TreeDrafter) or drafter.mode != "sample":
        return engine
    return engine.variant(drafter=TreeDrafter(ModelDrafter(drafter.model), (-1, -1, 0, 1, 2)))


def _law_cases() -> Iterator[tuple[str, str, Tensor, Tensor, int, int, Sampling]]:
    free, top2 = Sampling(eos_token_id=None), Sampling(top_k=2, eos_token_id=None)
    cool = Sampling(temperature=0.7, top_p=0.9, eos_token_id=None)
    chain = torch.tensor([[0.2, 1.6, 0.4], [1.1, 0.1, 2.0], [0.3, 0.9, 0.6]], dtype=torch.float64)
    yield "law, T = 1", "textbook, three tokens", _logs(P3), _logs(Q3), 2, 3, free
    yield "law, T = 1", "four tokens", _logs(P4), _logs(Q4), 2, 2, free
    yield "law, T = 1", "a chain, γ = 3", chain, chain.flip(0), 3, 2, free
    yield "law, top-k", "top-k 2 on both sides", _logs(P4), _logs(Q_FILTER), 2, 2, top2
    yield "law, top-k", "a chain, temperature and top-p", chain, chain.flip(1), 2, 2, cool


def _logs(law: Items[float]) -> Tensor:
    return torch.tensor(law, dtype=torch.float64).log()


def _of_rows(logits: Tensor, sampling: Sampling) -> Step:
    rows = processed(logits.reshape(-1, logits.shape[-1]), sampling).tolist()
    return lambda prefix: rows[prefix[-1] if len(rows) > 1 else 0]


def _whole(salt: int) -> Callable[[tuple[int, ...]], Tensor]:
    def logits(prefix: tuple[int, ...]) -> Tensor:
        mixed = sum(token * 7**at for at, token in enumerate(prefix)) + salt
        return torch.tensor([mixed * k % 11 / 4 for k in (3, 5, 8)], dtype=torch.float64)

    return logits


def _penalised(logits_V: Tensor, said: Items[int]) -> Tensor:
    counts_V = torch.tensor([float(list(said).count(token)) for token in range(len(logits_V))], dtype=torch.float64)
    return logits_V - counts_V - 0.5 * (counts_V > 0)


def _compared(engine: Engine, count: int, sampling: Sampling, step: Step) -> tuple[bool, float, str]:
    right: Law = {(): 1.0}
    for _ in range(count):
        right = {
            (*new, token): weight * chance
            for new, weight in right.items()
            for token, chance in enumerate(step((0, *new)))
            if chance > 0
        }
    found = exact_law(engine, [0], count, sampling)
    worst = max(found.keys() | right.keys(), key=lambda key: abs(found.get(key, 0.0) - right.get(key, 0.0)))
    delta = abs(found.get(worst, 0.0) - right.get(worst, 0.0))
    chances = f"{found.get(worst, 0):.4g}; the target's is {right.get(worst, 0):.4g}"
    return delta < CLOSE, delta, f"{worst} has probability {chances}"


def chi_square(engine: Engine) -> Iterator[Row]:
    """Count the tokens of long seeded runs: it sees noise that is used twice, which an enumeration cannot."""
    for case, p, q, gamma in (("four tokens", P4, Q4, 3), ("two tokens, γ = 4", (0.6, 0.4), (0.4, 0.6), 4)):
        both = over(engine, TabularLM(_logs(p)), TabularLM(_logs(q)), gamma)
        yield guarded("chi-square", case, lambda b=both, law=p: _counted(b, law))  # type: ignore[misc]


def _counted(engine: Engine, law: Items[float], rows: int = 64, length: int = 150) -> tuple[bool, None, str]:
    seeds = [Sampling(seed=seed, eos_token_id=None) for seed in range(rows)]
    results = engine.generate([[0]] * rows, seeds, max_new_tokens=length, trace=False)
    tokens = [token for result in results for token in result.tokens]
    counts = [tokens.count(token) for token in range(len(law))]
    total = sum(counts)
    value = sum((n - total * p) ** 2 / (total * p) for n, p in zip(counts, law, strict=True))
    half = torch.tensor([(len(law) - 1) / 2, value / 2], dtype=torch.float64)
    chance = float(torch.special.gammaincc(half[0], half[1]))
    shares = ", ".join(f"{n / total:.3f}" for n in counts)
    return chance > UNLIKELY, None, f"shares {shares} of {total} tokens; a chance of {chance:.1e} if the law were right"


_ROUND = [15, *range(16)]


def _chain() -> TabularLM:
    """Each token is followed by the next one, almost surely; behind a whole round, lookup drafters know it too."""
    return TabularLM(9.0 * torch.eye(_ROUND[-1] + 1, dtype=torch.float64).roll(1, dims=1))


def ends(engine: Engine) -> Iterator[Row]:
    """Put the end token at every place of two cycles in which every draft stands."""
    gamma, chain = min(engine.gamma, 6), _chain()
    both = over(engine, chain, chain, gamma)
    for place in range(2 * (gamma + 1)):

        def look(end: int = place) -> tuple[bool, None, str]:
            result = both.generate(_ROUND, Sampling(temperature=0, eos_token_id=end), max_new_tokens=15)
            fine = result.tokens == tuple(range(end + 1)) and result.finish_reason == "eos"
            return fine, None, f"{result.tokens} by {result.finish_reason}; the text ends with token {end}"

        yield guarded("EOS", f"at place {place} with γ = {gamma}", look)


def caps(engine: Engine) -> Iterator[Row]:
    """Allow fewer tokens than a cycle makes, as many, and more."""
    gamma, chain = min(engine.gamma, 6), _chain()
    both = over(engine, chain, chain, gamma)
    for cap in range(2 * gamma + 3):

        def look(most: int = cap) -> tuple[bool, None, str]:
            greedy = Sampling(temperature=0, eos_token_id=None)
            result: Result = both.generate(_ROUND, greedy, max_new_tokens=most)
            assert result.trace is not None
            last = most + len(_ROUND) - 1
            wide = [c for c in result.trace.cycles if depth(c) > max(0, last - c.committed_before)]
            fine = result.tokens == tuple(range(most)) and result.finish_reason == "length" and not wide
            return fine, None, f"{len(result.tokens)} tokens by {result.finish_reason}; {most} are allowed"

        yield guarded("length cap", f"{cap} tokens with γ = {gamma}", look)


def penalties(engine: Engine) -> Iterator[Row]:
    """Greedy text under penalties, worked out on paper from a table that would repeat itself."""
    logits = torch.tensor([3.07, 2.63, 2.41, 1.93, 1.12, 0.44], dtype=torch.float64)
    for gamma in range(1, min(engine.gamma, 4) + 1):
        both = over(engine, TabularLM(logits), TabularLM(logits), gamma)

        def look(broken: Engine = both) -> tuple[bool, None, str]:
            sampling = Sampling(
                temperature=0, repetition_penalty=1.3, frequency_penalty=0.4, presence_penalty=0.2, eos_token_id=None
            )
            said: list[int] = []
            for _ in range(12):
                row = logits.tolist()
                row = [z / 1.3 if token in (0, *said) else z for token, z in enumerate(row)]
                row = [z - 0.4 * said.count(token) - 0.2 * (token in said) for token, z in enumerate(row)]
                said.append(row.index(max(row)))
            found = broken.generate([0], sampling, max_new_tokens=12).tokens
            return found == tuple(said), None, f"{found}; on paper {tuple(said)}"

        yield guarded("penalty", f"greedy with γ = {gamma}", look)
