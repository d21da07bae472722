"""Measures a pair on a fixed sample: overlap, where rejections fall, wrong names, cost ratio.

Invariant: the same pair and seed give the same figures, the cost ratio excepted.
Does not know: how the pair was trained.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from specdec_teach.training.corpus import END_ID
from specdec_teach.training.export import load_model
from specdec_teach.training.network import Network
from specdec_teach.training.reader import count_names, find_mentions
from specdec_teach.training.sampling import Cache, sample, step

TEMPERATURE = 0.8
SEED = 2024
TOKENS = 300
ROUNDS = 2
PROMPTS = (
    "Once upon a time",
    "Mira had a red lantern and",
    "There was once a",
    "One day",
    "In a small town",
    "Tom",
    "Long ago, there lived",
    "It was a rainy evening in",
    "Everyone in Merrow knew",
    "Lucy and Ben were",
    "On the first day of spring",
    "Nora had a blue kite and",
    "When Otto was very small,",
    "A shy girl called Ivy",
    "Grandma Tilda was",
    '"Wake up, Finn!" called',
    "Far away,",
    "Do you know the story of",
    "Hana was brave.",
    "Once upon a time, a little girl named Sofia",
    "A long time ago",
    "Felix lived in",
    "The",
    "Rosa",
)


@dataclass(frozen=True, slots=True)
class Figures:
    """What the card records: overlap, shares of rejection mass, of positions, wrong-name rate, ended, cost ratio."""

    alpha: float
    fact_share: float
    name_share: float
    fact_positions: float
    fact_alpha: float
    wrong_name_rate: float
    later_names: int
    ended: float
    positions: int
    cost_ratio: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One text from the target: ids (prompt first), number of prompt tokens, text, letters in the prompt."""

    ids: list[int]
    prompt_tokens: int
    text: str
    prompt_letters: int


def overlap(target_logits: Tensor, draft_logits: Tensor, temperature: float) -> Tensor:
    """Sum over the vocabulary of min(p, q) at `temperature`, shape without the last axis."""
    p = torch.softmax(target_logits.float() / temperature, dim=-1)
    q = torch.softmax(draft_logits.float() / temperature, dim=-1)
    return torch.minimum(p, q).sum(-1)


def draw_samples(
    target: Network, tokenizer: Tokenizer, prompts: Sequence[str] = PROMPTS, rounds: int = ROUNDS, seed: int = SEED
) -> list[Sample]:
    """Sample `rounds` texts per prompt from the target at temperature 0.8."""
    generator = torch.Generator().manual_seed(seed)
    texts = [prompt for prompt in prompts for _ in range(rounds)]
    encoded = [tokenizer.encode(prompt).ids for prompt in texts]
    rows = sample(target, encoded, TOKENS, TEMPERATURE, generator)
    return [
        Sample(row, len(ids), tokenizer.decode(row, skip_special_tokens=True), len(prompt))
        for row, ids, prompt in zip(rows, encoded, texts, strict=True)
    ]


def recalled_positions(tokenizer: Tokenizer, item: Sample) -> tuple[Tensor, Tensor]:
    """Two masks over the tokens of a sample, (T,) bool: parts of facts told before, and of names told before."""
    facts, names = torch.zeros(len(item.ids), dtype=torch.bool), torch.zeros(len(item.ids), dtype=torch.bool)
    ends: list[int] = []
    letters = 0
    for token in item.ids:
        letters += len(tokenizer.decode([token], skip_special_tokens=True))
        ends.append(letters)
    starts = [0, *ends[:-1]]
    for mention in find_mentions(item.text):
        if not mention.again:
            continue
        for at, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if end > mention.start and start < mention.stop and end > start:
                facts[at] = True
                names[at] |= mention.is_name
    return facts, names


@torch.inference_mode()
def measure(target: Network, draft: Network, tokenizer: Tokenizer, rounds: int = ROUNDS, seed: int = SEED) -> Figures:
    """Recompute all figures on the fixed sample; about half a minute on two cores."""
    total = mass = fact_mass = name_mass = fact_overlap = 0.0
    positions = fact_count = wrong = later = ended = 0
    samples = draw_samples(target, tokenizer, rounds=rounds, seed=seed)
    for item in samples:
        ids = torch.tensor([item.ids])
        shared = overlap(target(ids[:, :-1]), draft(ids[:, :-1]), TEMPERATURE)[0, item.prompt_tokens - 1 :]
        facts, names = (mask[item.prompt_tokens :] for mask in recalled_positions(tokenizer, item))
        lost = 1.0 - shared
        total += float(shared.sum())
        mass += float(lost.sum())
        fact_mass += float(lost[facts].sum())
        name_mass += float(lost[names].sum())
        fact_overlap += float(shared[facts].sum())
        positions += len(shared)
        fact_count += int(facts.sum())
        item_wrong, item_later = count_names(item.text, item.prompt_letters)
        wrong, later = wrong + item_wrong, later + item_later
        ended += item.ids[-1] == END_ID
    return Figures(
        alpha=total / positions,
        fact_share=fact_mass / mass,
        name_share=name_mass / mass,
        fact_positions=fact_count / positions,
        fact_alpha=fact_overlap / max(fact_count, 1),
        wrong_name_rate=wrong / max(later, 1),
        later_names=later,
        ended=ended / len(samples),
        positions=positions,
        cost_ratio=cost_ratio(target, draft),
    )


@torch.inference_mode()
def cost_ratio(target: Network, draft: Network, tokens: int = 60) -> float:
    """Median time of one cached draft step over that of one target step, batch of one."""
    times = []
    for network in (target, draft):
        cache = Cache(network, 1, tokens)
        spans = []
        for position in range(tokens):
            began = time.perf_counter()
            step(network, torch.tensor([position + 1]), position, cache)
            spans.append(time.perf_counter() - began)
        times.append(statistics.median(spans[10:]))
    return times[1] / times[0]


def load_pair(weights: Path) -> tuple[Network, Network, Tokenizer]:
    """Target, draft and tokenizer of a weights folder, as shipped (rounded to fp16)."""
    tokenizer = Tokenizer.from_file(str(weights / "tokenizer.json"))
    return load_model(weights / "target"), load_model(weights / "draft"), tokenizer
