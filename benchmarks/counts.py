"""Count the tokens that each forward of the target brings, for the drafters of the embedded pair, at one γ.

    python benchmarks/counts.py [--quick] [--write]

Counts depend on the weights and on the seeds, not on the machine or its clock. Each figure comes with its standard
error over requests (jackknife of a ratio). Below the table stand the differences that the line-up is chosen by: each
tree against its own chain and each head against the draft model. --write makes benchmarks/counts.md, --quick counts
less.
Differences are those on one and the same text, where its luck is common to both. Greedy runs write the same text
anyway. Two sampled runs part at the first draw that differs, so there the target writes the texts alone, and how many
forwards each drafter takes on average to write them is computed (`specdec_teach.bench.given`). The last table has other
shapes of the same trees. It does not know what a draft costs, so it says nothing about speed.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import torch
from torch import Tensor

import specdec_teach as sd
from specdec_teach.bench.given import chances, forwards, grown
from specdec_teach.bench.task import KINDS
from specdec_teach.training.evaluate import PROMPTS
from specdec_teach.tree import chain, spine

GAMMA, TOKENS, REQUESTS, DRAWS = 4, 96, 16, 4
HEATS = {"greedy": 0.0, "T = 0.8": 0.8}
DRAFTERS = ("model", "tree", "early-exit", "head", "head3", "head-tree", "medusa", "medusa-tree")
AGAINST = {
    "tree": "model", "head-tree": "head3", "medusa-tree": "medusa", "head3": "model", "head": "model",
    "medusa": "model",
}  # fmt: skip
SIBLINGS = {"model": 3, "head": 1, "head3": 3, "medusa": 4}
SIZES = (6, 8, 12, 16, 24)
NAMES = ("Ben", "Mia", "Tara", "Sam", "Alex", "Mira")
THINGS = ("ball", "kite", "hat", "drum", "lantern", "boat", "cup")

Ran = dict[tuple[str, str, str], list[float]]
"""The forwards of each request, by drafter, heat and kind; of plain texts, the mean over all ways to draft for them."""
Chances = dict[tuple[str, str], list[Tensor]]
"""How often drafts stand (`specdec_teach.bench.given.chances`) in each text, by the chain's drafter and kind."""


def prompts(kind: str) -> list[str]:
    """Return the prompts of one kind: those of the benchmark, then others of the same make."""
    found = list(KINDS[kind])
    for at in range(1, REQUESTS - len(found) + 1):
        who = [NAMES[(at + step) % len(NAMES)] for step in range(5)]
        what = [THINGS[(3 * at + step) % len(THINGS)] for step in range(4)]
        if kind == "story":
            found.append(PROMPTS[1 + at])
        elif kind == "copying":
            passage = (
                f"{who[0]} had a red {what[0]}. He took the red {what[0]} to the park. {who[1]} had a blue {what[1]}. "
                f"She took the blue {what[1]} to the hill. They played until the sun went down. "
            )
            found.append(f"{passage}{passage}{who[0]} had a red {what[0]}.")
        else:
            pairs = zip(who, ("red", "blue", "green", "gray"), what, strict=False)
            found.append(
                " ".join(f"{one} had a {colour} {thing}." for one, colour, thing in pairs) + f" {who[4]} had a"
            )
    return found


def spread(without: list[float]) -> float:
    """Return the standard error of a figure, given what it is when each request is left out in turn."""
    n, mean = len(without), sum(without) / len(without)
    return math.sqrt((n - 1) / n * sum((one - mean) ** 2 for one in without))


def rate(ran: list[float], tokens: int) -> tuple[float, float]:
    """Return tokens for each forward over requests of `tokens` tokens, and its standard error.

    >>> rate([2, 2], 4)
    (2.0, 0.0)
    """
    total, rest = sum(ran), (len(ran) - 1) * tokens
    return len(ran) * tokens / total, spread([rest / (total - one) for one in ran])


def more(ran: list[float], other: list[float]) -> tuple[float, float]:
    """Return how many percent more tokens a forward brings than another's, request by request, and the standard error.

    >>> more([2, 4], [3, 6])
    (50.0, 0.0)
    """
    mine, theirs = sum(ran), sum(other)
    left = [(theirs - b) / (mine - a) for a, b in zip(ran, other, strict=True)]
    return 100 * (theirs / mine - 1), 100 * spread(left)


def settings(temperature: float, count: int) -> list[sd.Sampling]:
    """Return the sampling of each request."""
    return [sd.Sampling(temperature=temperature, seed=1 + at, eos_token_id=None) for at in range(count)]


def count(pair: sd.Pair, requests: int, tokens: int) -> Ran:
    """Run every drafter on every kind of prompt, greedy and sampled; return the forwards of each request."""
    made, found = sd.drafters_for(pair), Ran()
    for name in DRAFTERS:
        engine = sd.Engine(pair.target, drafter=made[name], tokenizer=pair.tokenizer, gamma=GAMMA)
        for heat, temperature in HEATS.items():
            for kind in KINDS:
                texts, ways = prompts(kind)[:requests], settings(temperature, requests)
                results = engine.generate(texts, ways, max_new_tokens=tokens, trace=False)
                assert all(one.stats.emitted == tokens for one in results)
                found[name, heat, kind] = [one.stats.cycles for one in results]
                print(name, heat, kind, "{:.2f} ± {:.2f}".format(*rate(found[name, heat, kind], tokens)), flush=True)
    return found


def replay(pair: sd.Pair, requests: int, tokens: int) -> Chances:
    """Let the target write a text for each prompt at T = 0.8; return how often drafts of each kind stand there."""
    made, found, generator = sd.drafters_for(pair), Chances(), torch.Generator().manual_seed(1)
    plain = sd.Engine(pair.target, tokenizer=pair.tokenizer)
    for kind in KINDS:
        texts, ways = prompts(kind)[:requests], settings(HEATS["T = 0.8"], requests)
        written = plain.generate(texts, ways, max_new_tokens=tokens, speculate=False)
        for name, siblings in SIBLINGS.items():
            engine = sd.Engine(pair.target, drafter=made[name], tokenizer=pair.tokenizer, gamma=GAMMA)
            streams = [
                engine.stream(text, way, max_new_tokens=tokens + GAMMA, trace=False)
                for text, way in zip(texts, ways, strict=True)
            ]
            draws = DRAWS if siblings > 2 else 1
            found[name, kind] = chances(streams, [one.tokens for one in written], GAMMA, siblings, generator, draws)
            print(name, "on written texts,", kind, flush=True)
    return found


def judged(pair: sd.Pair, stand: Chances) -> Ran:
    """Return the mean forwards of each written text with the chains and the trees of the line-up."""
    made, found = sd.drafters_for(pair), Ran()
    for (name, kind), texts in stand.items():
        found[name, "T = 0.8", kind] = [forwards(one, chain(GAMMA), GAMMA) for one in texts]
    for name, base in AGAINST.items():
        if isinstance(tree := made[name], sd.TreeDrafter):
            shape = tree.planned(GAMMA)
            assert shape is not None
            for kind in KINDS:
                found[name, "T = 0.8", kind] = [forwards(one, shape, GAMMA) for one in stand[base, kind]]
    return found


def other_shapes(base: str, stand: Chances) -> dict[str, dict[str, list[float]]]:
    """Return the mean forwards with other trees over one drafter, by what they are and kind.

    Those of a size grow by the draft that stands most often, over all texts of all kinds.
    """
    every = torch.cat([one[:, :-GAMMA] for kind in KINDS for one in stand[base, kind]], dim=1)
    found = {f"{size} drafts, where they stand most often": (grown(every, size), torch.clone) for size in SIZES}
    found["line-up's shape, if a second candidate stood wherever the first fell"] = (spine(GAMMA), _saved)
    found["if every first candidate stood"] = (chain(GAMMA), torch.ones_like)
    return {
        what: {kind: [forwards(change(one), shape, GAMMA) for one in stand[base, kind]] for kind in KINDS}
        for what, (shape, change) in found.items()
    }


def _saved(standing_SND: Tensor) -> Tensor:
    return torch.stack([standing_SND[0], 1 - standing_SND[0]])


def table(head: list[str], rows: dict[str, list[str]]) -> list[str]:
    """Return the lines of a Markdown table and an empty one."""
    lines = [["", *head], ["---"] * (len(head) + 1), *([name, *cells] for name, cells in rows.items())]
    return ["|" + "|".join(f" {cell} " if cell else " " for cell in line) + "|" for line in lines] + [""]


def percent(ran: list[float], other: list[float]) -> str:
    """Return what `more` says as a cell."""
    return "{:+.1f} ± {:.1f}".format(*more(ran, other))


def render(ran: Ran, stand: Chances, given: Ran, tokens: int, requests: int) -> str:
    """Return the tables as Markdown."""
    columns = [(heat, kind) for heat in HEATS for kind in KINDS]
    head = [f"{heat}, {kind}" for heat, kind in columns]
    counted = {
        name: ["{:.2f} ± {:.2f}".format(*rate(ran[name, *column], tokens)) for column in columns] for name in DRAFTERS
    }
    found = {**ran, **given}
    against = {
        f"{name} over {other}": [percent(found[name, *column], found[other, *column]) for column in columns]
        for name, other in AGAINST.items()
    }
    bases = {name: AGAINST[name] for name in ("tree", "head-tree")}
    shapes = {"line-up's shape, 8 drafts": [
        percent(given[name, "T = 0.8", kind], given[base, "T = 0.8", kind])
        for name, base in bases.items() for kind in KINDS
    ]}  # fmt: skip
    others = {base: other_shapes(base, stand) for base in bases.values()}
    for what in others["model"]:
        shapes[what] = [
            percent(others[base][what][kind], given[base, "T = 0.8", kind]) for base in bases.values() for kind in KINDS
        ]
    return "\n".join([
        "# Tokens for each forward of the target", "",
        "Made by `python benchmarks/counts.py --write`: the embedded pair in float32, γ = 4, "
        f"{requests} prompts of each kind", f"with {tokens} new tokens each. ±: standard error over requests. "
        "Plain decoding has 1. Nothing here is a speed.", "", *table(head, counted),
        "What one has more than another on the same texts, in percent of the other's. At T = 0.8 the target wrote them",
        "alone, and the forwards that each drafter needs for them are computed, over all ways its drafts can fall:", "",
        *table(head, against),
        "Other shapes of the two lean trees, no deeper, at T = 0.8, in percent of their chains. In the line-up's",
        "one node a level asks the draft for more, as in a chain; the last two lines are bounds:", "",
        *table([f"{name}, {kind}" for name in bases for kind in KINDS], shapes),
        "As many drafts hung elsewhere bring little more, and ask the draft for several nodes a level. 16 bring",
        "more than twice as much, for eight rows more in each forward of the target. On stories a head's tree has",
        "little left to gain: the head's first candidates seldom fall.", "",
    ])  # fmt: skip


def main() -> None:
    """Count, show, and write if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three prompts, 16 tokens each")
    parser.add_argument("--write", action="store_true", help="make benchmarks/counts.md")
    args = parser.parse_args()
    torch.set_num_threads(1)
    requests, tokens = (3, 16) if args.quick else (REQUESTS, TOKENS)
    pair = sd.load_pair(dtype="float32")
    stand = replay(pair, requests, tokens)
    text = render(count(pair, requests, tokens), stand, judged(pair, stand), tokens, requests)
    print(text)
    if args.write:
        Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
