"""Everything that can draft for a pair, by name: one place that a bench, a check and a lesson can go through.

Invariant: each call makes drafters of its own, so nothing that one learns reaches another; a name stands for one
setting, whoever asks. It does not know engines, or which drafter is worth its cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from specdec_kernels.errors import InvalidInput
from specdec_teach.drafters.base import Drafter
from specdec_teach.drafters.early import EarlyExitDrafter
from specdec_teach.drafters.head import HeadDrafter
from specdec_teach.drafters.medusa import MedusaDrafter
from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.drafters.ngram import NgramDrafter
from specdec_teach.drafters.retrieval import RetrievalDrafter
from specdec_teach.drafters.shipped import belongs
from specdec_teach.drafters.tree import TreeDrafter
from specdec_teach.pairs import EMBEDDED, Pair
from specdec_teach.tree import spine

__all__ = ["drafters_for", "two_tokenizers"]

Made = dict[str, Drafter]

STORIES = 200
_SPINE = spine(8)  # two candidates for a place, and no more passes of the draft than a chain takes
_MODES: dict[str, Literal["sample", "argmax"]] = {"model": "sample", "model-argmax": "argmax"}


def drafters_for(pair: Pair) -> dict[str, Drafter]:
    """Return every drafter that `pair` has weights for, by name: those that need none, and those of its draft model.

    A pair without a draft model has the lookup drafters alone. "retrieval" looks things up in 200 stories of the kind
    that the embedded pair writes; with another pair it has no text until it is told to `remember` one.
    InvalidInput for what is no pair, and where the draft model cannot serve (see `ModelDrafter`).

    >>> from specdec_teach.testing import tiny_llama
    >>> list(drafters_for(Pair(tiny_llama(), None, None)))
    ['ngram', 'retrieval']
    """
    if not isinstance(pair, Pair):
        raise InvalidInput(f"the pair is a {type(pair).__name__}; give load_pair(), or Pair(target, draft, tokenizer)")
    made: Made = {}
    for family in _FAMILIES:
        made |= family(pair)
    return made


def _lookup(pair: Pair) -> Made:
    """Return the drafters that look drafts up in a text."""
    from specdec_teach.training.stories.generator import write_story

    embedded = pair.target.config.name_or_path == EMBEDDED
    corpus = [write_story(seed).text for seed in range(STORIES)] if embedded else []  # seeds that no training used
    return {"ngram": NgramDrafter(), "retrieval": RetrievalDrafter(corpus, tokenizer=pair.tokenizer)}


def _models(pair: Pair) -> Made:
    """Return the drafters over a smaller model."""
    if pair.draft is None:
        return {}
    both = two_tokenizers(pair)
    return {name: ModelDrafter(pair.draft, mode, **both) for name, mode in _MODES.items()}


def two_tokenizers(pair: Pair) -> dict[str, Any]:
    """Return the two tokenizers of a pair that has two, as a `ModelDrafter` is given them; nothing of another pair."""
    if pair.draft_tokenizer is None:
        return {}
    return {"tokenizer": pair.draft_tokenizer, "target_tokenizer": pair.tokenizer}


def _exits(pair: Pair) -> Made:
    """Return the drafter that is the target's own first layers, with the exit that was trained for it."""
    return {"early-exit": EarlyExitDrafter.of(pair)} if pair.target.config.name_or_path == EMBEDDED else {}


def _trees(pair: Pair) -> Made:
    """Return a tree that grows from a smaller model with the target's own tokenizer."""
    if pair.draft is None or pair.draft_tokenizer is not None:
        return {}
    return {"tree": TreeDrafter(ModelDrafter(pair.draft), _SPINE)}


def _heads(pair: Pair) -> Made:
    """Return the heads on the target's own hidden states."""
    made: Made = {kind: HeadDrafter.of(pair, kind) for kind in ("head", "head3") if belongs(kind, pair.target)}
    return made | ({"medusa": MedusaDrafter.of(pair)} if belongs("medusa", pair.target) else {})


def _head_trees(pair: Pair) -> Made:
    """Return trees over the heads: a lean one where each draft costs a pass of the head, a bushy one over Medusa's."""
    made: Made = {}
    if belongs("head3", pair.target):
        made["head-tree"] = TreeDrafter(HeadDrafter.of(pair, "head3"), _SPINE)
    if belongs("medusa", pair.target):
        made["medusa-tree"] = TreeDrafter(MedusaDrafter.of(pair), (4, 2, 1, 1))
    return made


_FAMILIES: tuple[Callable[[Pair], Made], ...] = (_models, _trees, _exits, _heads, _head_trees, _lookup)
"""Each returns the drafters of one kind that a pair has weights for, in the order in which they are shown."""
