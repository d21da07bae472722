"""Stores text that a target writes itself: what a drafter that learns from the target's own words is trained on.

Invariant: text `i` is a function of the target and the seed, and is stored as a story is, the end token last; a text
that did not end is cut where the sample was. Does not know: who learns from it.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from tqdm import tqdm  # type: ignore[import-untyped]

from specdec_teach.training.corpus import CONTEXT, Corpus, open_corpus
from specdec_teach.training.network import Network
from specdec_teach.training.sampling import sample
from specdec_teach.training.stories.generator import write_story

BASE = 700_000_000
SIDE_BY_SIDE = 48
TOKENS = 400
TEMPERATURES = (0.8, 0.8, 1.0, 0.4)


def build_own_text(target: Network, tokenizer: Tokenizer, texts: int, seed: int, folder: Path) -> Corpus:
    """Sample `texts` texts, each behind a few words of a story that the target has not seen, and open them.

    Temperatures take turns. What is there already is opened as it is.
    """
    if (folder / "starts.i64").exists():
        return open_corpus(folder)
    folder.mkdir(parents=True, exist_ok=True)
    generator, chance = torch.Generator().manual_seed(seed), random.Random(seed)
    rows: list[list[int]] = []
    for first in tqdm(range(0, texts, SIDE_BY_SIDE), desc="own text", mininterval=5):
        count = min(SIDE_BY_SIDE, texts - first)
        starts = [
            tokenizer.encode(write_story(BASE + first + at).text[:400]).ids[: chance.randint(2, 40)]
            for at in range(count)
        ]
        heat = TEMPERATURES[first // SIDE_BY_SIDE % len(TEMPERATURES)]
        rows += sample(target, starts, TOKENS, heat, generator)
    assert max(map(len, rows)) <= CONTEXT
    tokens = np.asarray([token for row in rows for token in row], dtype=np.uint16)
    tokens.tofile(folder / "tokens.u16")
    np.zeros(len(tokens), dtype=np.uint8).tofile(folder / "marks.u8")
    np.cumsum([0, *map(len, rows)], dtype=np.int64).tofile(folder / "starts.i64")
    return open_corpus(folder)
