"""Draft trees through transformers' own forward: positions, masks, and whether a model keeps to them.

A four-dimensional mask that is added to the scores is taken as it is by the models of transformers, so it holds all
that their own masks would: padding, stale keys, windows. What a model does with it is tried out once, on a few tokens.
Invariant: where no row has a tree, positions are those of a causal forward. It does not know proposals.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from specdec_teach.caches import Cache, new_cache
from specdec_teach.sight import hidden, positions
from specdec_teach.tree import Parents, path_to
from specdec_teach.trial import differs, probe_ids

if TYPE_CHECKING:
    from specdec_teach.hf.runner import ModelRunner

__all__ = ["follows_trees", "masks_of", "places"]

_SLIDING = "sliding_attention"
_FULL = "full_attention"


def places(caches: Items[Cache], counts: Items[int], trees: Items[Parents | None], longest: int) -> list[list[int]]:
    """Return the position of every token `[B, T]`, T = `longest`; padding repeats a row's last one."""
    rows = []
    for cache, count, tree in zip(caches, counts, trees, strict=True):
        fed = positions(cache.pointer + count, tree or ())[cache.pointer :]
        rows.append([*fed, *fed[-1:] * (longest - count)])
    return rows


def masks_of(
    model: Any, caches: Items[Cache], counts: Items[int], trees: Items[Parents | None], past: int
) -> Tensor | dict[str, Tensor]:
    """Return what is added to the scores, `[B, 1, T, past + T]`; by kind of layer where `model` has several."""
    windows = _windows(model.config.get_text_config(decoder=True))
    masks = {
        kind: _added(caches, counts, trees, past, window, model.dtype, model.device) for kind, window in windows.items()
    }
    return masks if len(masks) > 1 else next(iter(masks.values()))


def _added(
    caches: Items[Cache],
    counts: Items[int],
    trees: Items[Parents | None],
    past: int,
    window: int,
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor:
    """Return what is added to the scores, `[B, 1, T, past + T]`: 0 where a key is read, else the least number.

    Keys lie as `RowsLayer` lays them: a row's computed tokens end at `past`, its new ones follow.
    """
    longest = max(counts)
    shut_BTS = torch.ones(len(counts), longest, past + longest, dtype=torch.bool, device=device)
    for row, (cache, count, tree) in enumerate(zip(caches, counts, trees, strict=True)):
        read = slice(past - cache.pointer, past + count)
        shut_BTS[row, :count, read] = hidden(cache.pointer, count, tree or (), window, device)
        shut_BTS[row, count:, read] = shut_BTS[row, count - 1, read]  # padding reads something, and nobody reads it
    return torch.zeros_like(shut_BTS, dtype=dtype).masked_fill_(shut_BTS, torch.finfo(dtype).min)[:, None]


def _windows(config: Any) -> dict[str, int]:
    """Return how many positions back each kind of layer sees, 0 for all; transformers makes a mask for each kind."""
    size = int(getattr(config, "sliding_window", None) or 0)
    kinds = set(getattr(config, "layer_types", None) or [_SLIDING if size else _FULL])
    return {kind: size if kind == _SLIDING else 0 for kind in sorted(kinds)}


@torch.inference_mode()
def follows_trees(runner: ModelRunner) -> bool:
    """Try whether a tree in one forward gives what each of its ways gives in a forward of its own."""
    ids, parents = probe_ids(11, runner.vocab), (-1, -1, 0, 1, 0)
    text, nodes = ids[:6], ids[6:]
    try:
        cache = new_cache("contiguous", len(ids))
        runner.forward_rows([cache], [text[:4]], [0])
        rows_RV = runner.forward_rows([cache], [text[4:] + nodes], [len(nodes) + 1], trees=[parents])[0]
        for node in range(-1, len(nodes)):
            way = text + [nodes[at] for at in path_to(parents, node)]
            alone_RV = runner.model(input_ids=torch.tensor([way], device=runner.model.device)).logits[0, -1:]
            if differs(rows_RV[node + 1 : node + 2], alone_RV):
                return False
    except (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError, NotImplementedError):
        return False
    return True
