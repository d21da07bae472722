"""Turns stories into numbers: trains the shared tokenizer and stores tokens with one mark each.

Invariant: story `i` of a corpus comes from seed `base + i`; a stored story ends with the end token and starts at
position 0 without any special token.
Does not know: models and losses.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from tqdm import tqdm  # type: ignore[import-untyped]

from specdec_teach.training.stories import lexicon
from specdec_teach.training.stories.generator import write_story

END_TEXT = "<|endoftext|>"
END_ID = 0
VOCAB = 2048
CONTEXT = 512
CHUNK = 2000


@dataclass(frozen=True, slots=True)
class Corpus:
    """Stored stories: `tokens` (N,) uint16, `marks` (N,) uint8, `starts` (stories + 1,) int64 offsets into both."""

    tokens: NDArray[np.uint16]
    marks: NDArray[np.uint8]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def lengths(self) -> NDArray[np.int64]:
        """Tokens per story, end token included, shape (stories,)."""
        return np.diff(self.starts)


def train_tokenizer(stories: int, base: int, vocab: int = VOCAB) -> Tokenizer:
    """Train the byte-level BPE (no unknown token, nothing put in front) on `stories` stories from seed `base` on.

    Fact words that stories use rarely are shown extra, so that each becomes one token.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=[END_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = (write_story(seed).text for seed in range(base, base + stories))
    words = " ".join(("", *lexicon.TRAITS, *lexicon.OUTDOORS, *lexicon.BAGS, *lexicon.TOWNS))
    tokenizer.train_from_iterator(itertools.chain(texts, itertools.repeat(words, stories // 20)), trainer)
    return tokenizer


def token_marks(offsets: list[tuple[int, int]], marks: tuple[int, ...]) -> list[int]:
    """One mark per token: the mark of the token's last letter (a token's leading space carries none)."""
    return [marks[end - 1] for _, end in offsets]


def encode_stories(tokenizer: Tokenizer, seeds: range) -> Iterator[tuple[list[int], list[int]]]:
    """Yield (token ids, marks) of each story that fits the context, the end token last."""
    for first in range(seeds.start, seeds.stop, CHUNK):
        stories = [write_story(seed) for seed in range(first, min(first + CHUNK, seeds.stop))]
        for story, encoding in zip(stories, tokenizer.encode_batch([story.text for story in stories]), strict=True):
            if len(encoding.ids) < CONTEXT:
                yield [*encoding.ids, END_ID], [*token_marks(encoding.offsets, story.marks), 0]


def build_corpus(tokenizer: Tokenizer, stories: int, base: int, folder: Path) -> Corpus:
    """Write the stories of seeds base .. base + stories - 1 to `folder` and open them."""
    folder.mkdir(parents=True, exist_ok=True)
    starts = [0]
    with (folder / "tokens.u16").open("wb") as tokens_file, (folder / "marks.u8").open("wb") as marks_file:
        encoded = encode_stories(tokenizer, range(base, base + stories))
        for ids, marks in tqdm(encoded, total=stories, desc="stories", mininterval=2):
            np.asarray(ids, dtype=np.uint16).tofile(tokens_file)
            np.asarray(marks, dtype=np.uint8).tofile(marks_file)
            starts.append(starts[-1] + len(ids))
    np.asarray(starts, dtype=np.int64).tofile(folder / "starts.i64")
    return open_corpus(folder)


def open_corpus(folder: Path) -> Corpus:
    """Open a stored corpus; tokens and marks stay on disk. FileNotFoundError if there is none."""
    return Corpus(
        tokens=np.memmap(folder / "tokens.u16", dtype=np.uint16, mode="r"),
        marks=np.memmap(folder / "marks.u8", dtype=np.uint8, mode="r"),
        starts=np.fromfile(folder / "starts.i64", dtype=np.int64),
    )
