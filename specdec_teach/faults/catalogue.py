"""What is wrong with each broken engine: the answers, for teachers.

Invariant: every entry swaps one component of the engine it is given, and brings along no more than the mistake needs to
show. Lessons print the names alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from specdec_teach.engine import Engine
from specdec_teach.faults import drafting, judging, memory, planning, requests

__all__ = ["CATALOGUE", "Entry"]


@final
@dataclass(frozen=True, slots=True)
class Entry:
    """One mistake: how it is called, the thought behind it, what one sees of it, and how it is built."""

    title: str
    thought: str
    symptom: str
    build: Callable[[Engine], Engine]


CATALOGUE: dict[str, Entry] = {
    "engine_a": Entry(
        "The dropped bonus",
        "every draft stood, so the cycle is complete",
        "The text is right and follows the right law; a full cycle yields γ tokens where it should yield γ + 1.",
        requests.no_bonus,
    ),
    "engine_b": Entry(
        "Redraw",
        "the draft was refused, so ask the target again",
        "Fluent text from a flattened law: [.44, .42, .14] where the target says [.6, .3, .1].",
        judging.redraw,
    ),
    "engine_c": Entry(
        "The hole",
        "the last draft was drawn, so the draft's cache has it",
        "Perfect output; fewer drafts are accepted after every cycle in which all of them were.",
        drafting.hole,
    ),
    "engine_d": Entry(
        "The end at the end",
        "a cycle ends with one new token: is it the end-of-sequence token?",
        "Now and then the text goes on behind its end; only where that falls inside an accepted block.",
        requests.end_of_block_only,
    ),
    "engine_e": Entry(
        "Two filters",
        "q is the softmax of the draft's logits; the filters belong to the sampler",
        "Nothing at temperature 1 without filters; with top-k some tokens come far too often.",
        drafting.raw_q,
    ),
    "engine_f": Entry(
        "Ghost tokens",
        "the counter is set back, which is all that a rewind is",
        "Fluent up to the first rejection, then nonsense: refused drafts stay in the history.",
        memory.ghosts,
    ),
    "engine_g": Entry(
        "Count the ticks",
        "the number of accepted drafts is the sum of the flags",
        "Too many drafts are kept: also some that stand behind a refused one.",
        judging.count_the_ticks,
    ),
    "engine_h": Entry(
        "The blind penalty",
        "the history is what has been committed",
        "Penalties miss repetitions inside a block; with γ = 0 they work.",
        requests.blind_penalty,
    ),
    "engine_i": Entry(
        "Loaded dice",
        "one vector of noise for each position is enough",
        "A bias of .025 in one token's share; acceptance does not change.",
        requests.one_vector,
    ),
    "engine_j": Entry(
        "The early publisher",
        "the block's last token is committed, so the block is full",
        "The request itself is right; a later one with the same beginning reads a slot that was never computed.",
        memory.early_publisher,
    ),
    "engine_k": Entry(
        "Nobody judges the first",
        "the first row of the forward belongs to the first draft",
        "Each cycle keeps its first draft, whatever the target thinks of it.",
        judging.first_unverified,
    ),
    "engine_l": Entry(
        "Rewound too far",
        "better to forget one token too many than to keep a wrong one",
        "Perfect output; the draft computes tokens again that it had.",
        drafting.cut_too_far,
    ),
    "engine_m": Entry(
        "Sampled is computed",
        "the token is committed, so it is in the cache",
        "Right in the first cycle, wrong from the second on.",
        memory.runs_ahead,
    ),
    "engine_n": Entry(
        "The confident drafter",
        "the likeliest draft is the best draft; q stays what it is",
        "The draft's favourites are used too often: [.4, .6, 0] where the target says [.6, .3, .1].",
        drafting.favourites_with_soft_q,
    ),
    "engine_o": Entry(
        "Over the limit",
        "the limit is checked before each cycle",
        "Sometimes a few tokens more than were allowed.",
        requests.overshoot,
    ),
    "engine_p": Entry(
        "Numbers by position",
        "a position has its random number, whenever it is drawn",
        "Under block verification the law is wrong across cycles; within one cycle nothing can be seen.",
        drafting.keyed_by_position,
    ),
    "engine_q": Entry(
        "Second thoughts",
        "a draft that turned out unlikely will be refused anyway, so take it back before the target sees it",
        "Acceptance looks better than it is, and the law is wrong: the residual counts on drafts that were taken back.",
        drafting.second_thoughts,
    ),
    "engine_r": Entry(
        "The long memory",
        "what was learnt about γ is worth keeping, so the engine keeps it",
        "Each call is right and follows the right law; the same call made twice cuts its cycles differently.",
        planning.long_memory,
    ),
}
