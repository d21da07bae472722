"""Writes the card of the heads: heads.json for the tests, HEADS.md for people.

Every figure is of the exported weights at γ = 4, greedy and at temperature 0.8, through the engine itself; the draft
model runs beside them. Does not know: how heads learn.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from specdec_teach.drafters.base import Drafter
from specdec_teach.drafters.head import HeadDrafter
from specdec_teach.drafters.medusa import MedusaDrafter
from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.drafters.shipped import belongs
from specdec_teach.engine import Engine
from specdec_teach.pairs import Pair, load_pair
from specdec_teach.sampling import Sampling
from specdec_teach.training.evaluate import PROMPTS
from specdec_teach.training.head_parts import HEADS
from specdec_teach.training.trainer import load_progress

GAMMA = 4
TOKENS = 160
SETTINGS = {"greedy": Sampling(temperature=0), "T = 0.8": Sampling(temperature=0.8, seed=2024)}
ABOUT = {
    "model": "the pair's draft model, for comparison",
    "head": "EAGLE-style: one layer on the last hidden state; learns the state and the distribution",
    "head3": "EAGLE-3-style: fuses hidden states 3, 7 and 10; learns from three steps of its own roll-outs",
    "medusa": "four independent heads on hidden states 7 and 10, sharing the target's output matrix",
}


def speed(pair: Pair, drafter: Drafter, prompts: int = len(PROMPTS), tokens: int = TOKENS) -> dict[str, dict[str, Any]]:
    """Tokens per target forward, and how often each place of a draft is accepted once it is reached, by setting."""
    engine = Engine(pair.target, drafter=drafter, tokenizer=pair.tokenizer, gamma=GAMMA)
    found: dict[str, dict[str, Any]] = {}
    for name, sampling in SETTINGS.items():
        results = engine.generate(list(PROMPTS[:prompts]), sampling, max_new_tokens=tokens)
        reached: Counter[int] = Counter()
        stood: Counter[int] = Counter()
        for cycle in (cycle for result in results if result.trace is not None for cycle in result.trace.cycles):
            for decision in cycle.decisions:
                reached[decision.position] += decision.status in ("accepted", "rejected")
                stood[decision.position] += decision.status == "accepted"
        cycles, emitted = (sum(getattr(r.stats, what) for r in results) for what in ("cycles", "emitted"))
        found[name] = {
            "tokens_per_forward": round(emitted / cycles, 3),
            "accepted": [round(stood[at] / reached[at], 3) for at in sorted(reached) if reached[at]],
        }
    return found


def write_head_card(work: Path, weights: Path) -> None:
    """Measure every shipped head and the draft model; write heads.json and HEADS.md to `weights`."""
    pair = load_pair()
    card: dict[str, dict[str, Any]] = {"model": {"figures": speed(pair, ModelDrafter(pair.draft))}}
    for kind in (kind for kind in HEADS if belongs(kind, pair.target)):
        drafter = MedusaDrafter.of(pair) if kind == "medusa" else HeadDrafter.of(pair, kind)
        done = load_progress(work / f"{kind}.pt")
        card[kind] = {
            "figures": speed(pair, drafter),
            "steps": done.step,
            "tokens": done.tokens,
            "minutes": round(done.seconds / 60, 1),
            "training_loss": round(done.loss, 4),
            "bytes": (weights / kind / "model.safetensors").stat().st_size,
        }
    (weights / "heads.json").write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
    (weights / "HEADS.md").write_text(render(card), encoding="utf-8")


def render(card: dict[str, dict[str, Any]]) -> str:
    """The card as Markdown."""
    lines = [
        "# Heads of the embedded target",
        "",
        "Drafters that go on from the target's own hidden states. They share its embedding and output matrix, so these",
        "files hold only what is theirs (fp16). Each belongs to one target, named in its config.json by the beginning",
        "of the SHA-256 of the target's weights; another target is refused.",
        "",
    ]
    lines += [f"- **{kind}**: {ABOUT[kind]}." for kind in card]
    lines += [
        "",
        f"Measured through the engine at γ = {GAMMA} on {len(PROMPTS)} prompts, {TOKENS} new tokens each: tokens for",
        "each target forward, and the share of drafts accepted at places 1 to 4 among those that were reached.",
        "",
        "| drafter | setting | tokens per forward | accepted at 1 · 2 · 3 · 4 |",
        "|---|---|---|---|",
    ]
    for kind, entry in card.items():
        for name, row in entry["figures"].items():
            shares = " · ".join(f"{share:.2f}" for share in row["accepted"])
            lines.append(f"| {kind} | {name} | {row['tokens_per_forward']:.2f} | {shares} |")
    lines += ["", "| head | steps | tokens seen | minutes | loss at the end | file |", "|---|---|---|---|---|---|"]
    for kind, entry in card.items():
        if "steps" in entry:
            lines.append(
                f"| {kind} | {entry['steps']:,} | {entry['tokens'] / 1e6:.1f} million | {entry['minutes']:.0f} | "
                f"{entry['training_loss']:.3f} | {entry['bytes'] / 1e6:.1f} MB |"
            )
    lines += [
        "",
        "Trained on the stories of the pair's corpus, each by distillation from the target: Kullback-Leibler distance",
        "to its distribution at temperature 1, later steps or heads fading by 0.8. The loss is a running mean. The",
        "minutes are those of one thread of a machine that did other work too. Made with",
        "",
        "    python -m specdec_teach.training --parts corpus head head3 medusa head-card --threads 1",
        "",
        "which goes on from its checkpoints when it is given again. Apache-2.0, as the pair.",
        "",
    ]
    return "\n".join(lines)
