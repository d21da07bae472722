"""Count the tokens that each forward of the target brings, for the drafters of the embedded pair, at one γ.

    python benchmarks/counts.py [--quick] [--write]

Counts depend on the weights and on the seeds, not on the machine or its clock. Each figure comes with its standard
error over requests (jackknife of a ratio). Below the table stand the differences that the line-up is chosen by: each
tree against its own chain and each head against the draft model. --write makes benchmarks/counts.md, --quick counts
less.
Two runs part at the first draw that differs, so such a difference is uncertain. Of a lean tree, where all candidates
but the first end their way, one run tells more: in a cycle where a later candidate stood, the chain of first ones
brings exactly one token fewer. How often that happens is the last table. It does not know what a draft costs, so it
says nothing about speed.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import torch

import specdec_teach as sd
from specdec_teach.bench.task import KINDS
from specdec_teach.training.evaluate import PROMPTS

GAMMA, TOKENS, REQUESTS = 4, 96, 16
HEATS = {"greedy": 0.0, "T = 0.8": 0.8}
DRAFTERS = ("model", "tree", "early-exit", "head", "head3", "head-tree", "medusa", "medusa-tree")
AGAINST = {
    "tree": "model", "head-tree": "head3", "medusa-tree": "medusa", "head3": "model", "head": "model",
    "medusa": "model",
}  # fmt: skip
NAMES = ("Ben", "Mia", "Tara", "Sam", "Alex", "Mira")
THINGS = ("ball", "kite", "hat", "drum", "lantern", "boat", "cup")

LEAN = ("tree", "head-tree")

Found = dict[tuple[str, str, str], tuple[float, float]]


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


def rate(emitted: list[int], cycles: list[int]) -> tuple[float, float]:
    """Return tokens for each forward over all requests, and its standard error when each is left out in turn.

    >>> rate([4, 4], [2, 2])
    (2.0, 0.0)
    """
    n, tokens, forwards = len(cycles), sum(emitted), sum(cycles)
    without = [(tokens - e) / (forwards - c) for e, c in zip(emitted, cycles, strict=True)]
    mean = sum(without) / n
    return tokens / forwards, math.sqrt((n - 1) / n * sum((one - mean) ** 2 for one in without))


def later(trace: sd.Trace) -> int:
    """Return in how many cycles a candidate stood that was not the first for its place."""
    ways = [(cycle.path[-1], cycle.parents) for cycle in trace.cycles if cycle.path and cycle.parents]
    return sum(parents.index(parents[end]) != end for end, parents in ways)


def count(quick: bool) -> tuple[Found, Found]:
    """Run every drafter on every kind of prompt, greedy and sampled; return tokens, and second chances, a forward."""
    pair = sd.load_pair(dtype="float32")
    made, found, chances = sd.drafters_for(pair), Found(), Found()
    for name in DRAFTERS:
        engine = sd.Engine(pair.target, drafter=made[name], tokenizer=pair.tokenizer, gamma=GAMMA)
        for heat, temperature in HEATS.items():
            for kind in KINDS:
                texts = prompts(kind)[: 3 if quick else None]
                ways = [
                    sd.Sampling(temperature=temperature, seed=1 + at, eos_token_id=None) for at in range(len(texts))
                ]
                results = engine.generate(texts, ways, max_new_tokens=16 if quick else TOKENS)
                cycles = [one.stats.cycles for one in results]
                found[name, heat, kind] = rate([one.stats.emitted for one in results], cycles)
                if name in LEAN:
                    stood = [later(one.trace) for one in results if one.trace is not None]
                    chances[name, heat, kind] = rate(stood, cycles)
                print(name, heat, kind, "{:.2f} ± {:.2f}".format(*found[name, heat, kind]), flush=True)
    return found, chances


def render(found: Found, chances: Found) -> str:
    """Return the tables as Markdown."""
    columns = [(heat, kind) for heat in HEATS for kind in KINDS]
    head = "| | " + " | ".join(f"{heat}, {kind}" for heat, kind in columns) + " |"
    rule = "|---" * (len(columns) + 1) + "|"
    lines = [
        "# Tokens for each forward of the target", "",
        "Made by `python benchmarks/counts.py --write`: the embedded pair in float32, γ = 4, "
        f"{REQUESTS} prompts of each kind", f"with {TOKENS} new tokens each. ±: standard error over requests. "
        "Plain decoding has 1. Nothing here is a speed.", "", head, rule,
    ]  # fmt: skip
    for name in DRAFTERS:
        cells = ("{:.2f} ± {:.2f}".format(*found[name, heat, kind]) for heat, kind in columns)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", "What one has more than another, in percent of the other's:", "", head, rule]
    for name, other in AGAINST.items():
        cells = []
        for heat, kind in columns:
            (mine, error), (theirs, also) = found[name, heat, kind], found[other, heat, kind]
            cells.append(
                f"{100 * (mine / theirs - 1):+.0f} ± {100 * math.hypot(error, also * mine / theirs) / theirs:.0f}"
            )
        lines.append(f"| {name} over {other} | " + " | ".join(cells) + " |")
    lines += ["", "Tokens for each forward that a second candidate brings, in the same cycles:", "", head, rule]
    for name in LEAN:
        cells = ["{:.3f} ± {:.3f}".format(*chances[name, heat, kind]) for heat, kind in columns]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Count, show, and write if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three prompts, 16 tokens each")
    parser.add_argument("--write", action="store_true", help="make benchmarks/counts.md")
    args = parser.parse_args()
    torch.set_num_threads(1)
    text = render(*count(args.quick))
    print(text)
    if args.write:
        Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
