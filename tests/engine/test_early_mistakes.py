"""Mistakes of an early exit that the tests of the honest one must see: each is put in, and a check has to fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import specdec_teach as sd
from specdec_teach.caches import Cache
from specdec_teach.hf import ModelRunner
from specdec_teach.stash import Stash

from ..checks import greedy_equals_plain, pointers_and_caches

TARGET = sd.testing.tiny_llama(layers=4, context=320)
Patch = pytest.MonkeyPatch


def forgets_nothing(patch: Patch) -> None:
    """The stash of a cycle, rejected drafts and all, is there again in the next one."""
    kept: dict[int, Stash] = {}

    def stash(self: ModelRunner, cache: Cache, layers: int) -> Stash:
        old = kept.setdefault(id(cache), Stash(cache, layers, self.compact))
        old._start = cache.pointer - len(old.tokens)
        return old

    def agree(self: Stash, maker: object, cache: Cache, ids: list[int]) -> int:
        self._start = cache.pointer
        self.tokens = self.tokens[: len(ids) - 1]
        return len(self.tokens)

    patch.setattr(ModelRunner, "stash", stash)
    patch.setattr(Stash, "agree", agree)


def agrees_with_anything(patch: Patch) -> None:
    """Whatever is fed, the stash is taken to have it, even where another token was put in a draft's place."""
    patch.setattr(Stash, "agree", lambda self, maker, cache, ids: len(self.tokens))


def state_of_the_neighbour(patch: Patch) -> None:
    """The target goes on from each token with the state of the token before it."""
    patch.setattr(Stash, "hidden_TN", property(lambda self: torch.cat(self._hidden)[: len(self.tokens)].roll(1, 0)))


def keys_not_written(patch: Patch) -> None:
    """What drafting made of keys and values is lost before the target verifies."""
    honest = Stash.agree

    def agree(self: Stash, maker: object, cache: Cache, ids: list[int]) -> int:
        stays = honest(self, maker, cache, ids)
        lost: dict[int, tuple[Tensor, Tensor]] = {n: (k * 0, v * 0) for n, (k, v) in self._pairs.items()}
        self._pairs = lost
        return stays

    patch.setattr(Stash, "agree", agree)


def drafts_over_the_text(patch: Patch) -> None:
    """Keys of drafts go to the slots of the last committed tokens."""
    honest = Stash.write

    def write(self: Stash, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        found = honest(self, layer, keys, values)
        if self.cache.pointer > 1:
            self.cache.store.put(layer, slice(0, 1), keys[:, :, :1], values[:, :, :1])  # type: ignore[attr-defined]
        return found

    patch.setattr(Stash, "write", write)


def greedy(engine: sd.Engine) -> None:
    """Plain text, token for token."""
    greedy_equals_plain(engine, [[5], [7, 3, 9, 1, 4]], 40)


def caches(engine: sd.Engine) -> None:
    """A fresh prefill's keys and values after every cycle."""
    pointers_and_caches(engine.stream([7, 3], sd.Sampling(seed=4), max_new_tokens=40), TARGET, None)


def swapped(engine: sd.Engine) -> None:
    """The logits of a fresh forward, also where the second of three drafts was swapped for another token."""
    runner, logits = engine.target_runner, []
    for drafted in ([5, 6, 7], []):
        cache = runner.new_cache(8)
        stash = runner.stash(cache, 2)
        assert stash is not None
        for token in drafted:
            runner.stop_early([stash], [[token]])
        logits += runner.forward_rows([cache], [[5, 9, 7, 8]], [4], stashes=[stash])
    assert torch.allclose(logits[0], logits[1], atol=1e-5)


def engine() -> sd.Engine:
    return sd.Engine(TARGET, drafter=sd.EarlyExitDrafter(TARGET, 2), gamma=3)


MISTAKES: list[tuple[Callable[[Patch], None], Callable[[sd.Engine], None]]] = [
    (forgets_nothing, caches),
    (forgets_nothing, greedy),
    (state_of_the_neighbour, greedy),
    (state_of_the_neighbour, caches),
    (keys_not_written, caches),
    (drafts_over_the_text, caches),
    (agrees_with_anything, swapped),
]


@pytest.mark.parametrize("honest", [greedy, caches, swapped])
def test_the_honest_one_passes(honest: Any) -> None:
    honest(engine())


@pytest.mark.parametrize(("mistake", "look"), MISTAKES, ids=lambda one: one.__name__)
def test_a_mistake_is_seen(mistake: Any, look: Any, monkeypatch: Patch) -> None:
    mistake(monkeypatch)
    with pytest.raises((AssertionError, sd.EngineFailure, RuntimeError, KeyError)):
        look(engine())
