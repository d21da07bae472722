"""Cuts a corpus into batches of stories of about the same length.

Invariant: the batches of an epoch are a pure function of (seed, epoch), so training can resume anywhere.
Does not know: what the batches are used for.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from specdec_teach.training.corpus import END_ID, Corpus

POOL = 512


@dataclass(frozen=True, slots=True)
class Batch:
    """Stories padded on the right: `inputs`, `targets` (B, T) int64, `marks` (B, T) uint8, `valid` (B, T) bool."""

    inputs: Tensor
    targets: Tensor
    marks: Tensor
    valid: Tensor


def plan_epoch(corpus: Corpus, budget: int, seed: int, epoch: int) -> list[list[int]]:
    """Group all stories into batches of at most `budget` padded tokens (one story at least), in random order."""
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(corpus))
    lengths = corpus.lengths()
    batches: list[list[int]] = []
    for first in range(0, len(order), POOL):
        pool = sorted(order[first : first + POOL].tolist(), key=lambda story: int(lengths[story]))
        group: list[int] = []
        for story in pool:
            if group and (len(group) + 1) * int(lengths[story]) > budget:
                batches.append(group)
                group = []
            group.append(story)
        batches.append(group)
    return [batches[at] for at in rng.permutation(len(batches)).tolist()]


def load_batch(corpus: Corpus, stories: list[int], multiple: int = 16) -> Batch:
    """Load stories as one batch whose width is a multiple of `multiple`; padding is the end token, not valid."""
    widest = max(int(corpus.starts[story + 1] - corpus.starts[story]) for story in stories) - 1
    width = -(-widest // multiple) * multiple
    rows = np.full((len(stories), width + 1), END_ID, dtype=np.int64)
    marks = np.zeros((len(stories), width), dtype=np.uint8)
    valid = np.zeros((len(stories), width), dtype=bool)
    for row, story in enumerate(stories):
        start, stop = int(corpus.starts[story]), int(corpus.starts[story + 1])
        rows[row, : stop - start] = corpus.tokens[start:stop]
        marks[row, : stop - start - 1] = corpus.marks[start + 1 : stop]
        valid[row, : stop - start - 1] = True
    ids = torch.from_numpy(rows)
    return Batch(ids[:, :-1].contiguous(), ids[:, 1:].contiguous(), torch.from_numpy(marks), torch.from_numpy(valid))


def split_batch(batch: Batch, parts: int) -> list[Batch]:
    """Cut a batch into at most `parts` batches of about as many rows each; none is empty."""
    rows = len(batch.inputs)
    edges = sorted({rows * part // parts for part in range(parts + 1)})
    return [
        Batch(batch.inputs[a:b], batch.targets[a:b], batch.marks[a:b], batch.valid[a:b])
        for a, b in itertools.pairwise(edges)
    ]
