"""Writes the model card of the pair: card.json for the tests, CARD.md for people.

Invariant: every figure is measured on the exported weights; training figures come from the checkpoints.
Does not know: how to train.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import torch
from tokenizers import Tokenizer

from specdec_teach.training.batches import load_batch
from specdec_teach.training.corpus import build_corpus
from specdec_teach.training.evaluate import draw_samples, load_pair, measure
from specdec_teach.training.network import Network
from specdec_teach.training.objective import marked_sum, token_losses
from specdec_teach.training.stories.grammar import Mark
from specdec_teach.training.trainer import load_progress

HELD_OUT_SEED = 800_000_000
HELD_OUT_STORIES = 120
CLASSES: dict[str, tuple[Mark, ...]] = {
    "all_tokens": tuple(Mark),
    "repeated_names": (Mark.AGAIN_NAME,),
    "new_names": (Mark.NEW_NAME,),
    "repeated_facts": (Mark.AGAIN_FACT,),
    "new_facts": (Mark.NEW_FACT,),
    "other_tokens": (Mark.PLAIN,),
}
Record = dict[str, dict[str, float]]


@torch.inference_mode()
def held_out_losses(network: Network, tokenizer: Tokenizer, work: Path) -> dict[str, float]:
    """Loss in nats per token on stories outside the training seeds, by kind of token."""
    corpus = build_corpus(tokenizer, HELD_OUT_STORIES, HELD_OUT_SEED, work / "held-out")
    sums = dict.fromkeys(CLASSES, 0.0)
    counts = dict.fromkeys(CLASSES, 0)
    for first in range(0, len(corpus), 8):
        batch = load_batch(corpus, list(range(first, min(first + 8, len(corpus)))))
        losses = token_losses(network(batch.inputs), batch.targets)
        for name, marks in CLASSES.items():
            total, count = marked_sum(losses, batch, marks)
            sums[name] += total
            counts[name] += count
    return {name: sums[name] / counts[name] for name in CLASSES}


def training_record(work: Path) -> Record:
    """Steps, tokens, minutes and last running loss of both models, from their checkpoints."""
    record: Record = {}
    for part in ("target", "draft"):
        done = load_progress(work / f"{part}.pt")
        record[part] = {
            "steps": done.step,
            "tokens": done.tokens,
            "minutes": round(done.seconds / 60, 1),
            "training_loss": round(done.loss, 4),
        }
    return record


def write_card(weights: Path, work: Path, facts: dict[str, float], note: str) -> None:
    """Measure the pair in `weights` and write card.json and CARD.md there.

    `facts` are the options worth keeping, `note` a sentence about the run.
    """
    target, draft, tokenizer = load_pair(weights)
    sizes = {part: (weights / part / "model.safetensors").stat().st_size for part in ("target", "draft")}
    card: Record = {
        "figures": {name: round(value, 4) for name, value in asdict(measure(target, draft, tokenizer)).items()},
        "losses": {name: round(value, 4) for name, value in held_out_losses(target, tokenizer, work).items()},
        "training": {**facts, "bytes": sum(sizes.values())},
        **training_record(work),
    }
    for part, network in (("target", target), ("draft", draft)):
        card[part] |= {
            "parameters": sum(weight.numel() for weight in network.parameters()),
            "layers": network.shape.layers,
            "width": network.shape.width,
            "bytes": sizes[part],
        }
    (weights / "card.json").write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
    samples = [item.text for item in draw_samples(target, tokenizer, rounds=1, seed=7)[:4]]
    (weights / "CARD.md").write_text(render_card(card, samples, note), encoding="utf-8")


def render_card(card: Record, samples: list[str], note: str) -> str:
    """The card as Markdown."""
    figures, losses, target, draft = card["figures"], card["losses"], card["target"], card["draft"]
    training = card["training"]
    quoted = "\n\n".join("> " + text.replace("\n", "\n>\n> ") for text in samples)
    return f"""# The embedded pair

Two small Llama-type language models that share one tokenizer: a **target** and a much cheaper **draft**. They write
children's stories, and they exist to show speculative decoding at a speed and size that a laptop can follow.

| | target | draft |
|---|---|---|
| layers × width | {target["layers"]:.0f} × {target["width"]:.0f} | {draft["layers"]:.0f} × {draft["width"]:.0f} |
| parameters | {target["parameters"]:,.0f} | {draft["parameters"]:,.0f} |
| file size (fp16) | {target["bytes"] / 1e6:.1f} MB | {draft["bytes"] / 1e6:.1f} MB |
| steps | {target["steps"]:,.0f} | {draft["steps"]:,.0f} |
| tokens seen | {target["tokens"] / 1e6:.1f} million | {draft["tokens"] / 1e6:.1f} million |
| minutes on two CPU cores | {target["minutes"]:.0f} | {draft["minutes"]:.0f} |
| training loss at the end | {target["training_loss"]:.3f} (weighted) | {draft["training_loss"]:.3f} (to the target) |

Tokenizer: byte-level BPE, 2,048 tokens, no unknown token, nothing added in front; `<|endoftext|>` ends a story.
Context: 512 positions. Embeddings are tied.

## Data

{training["stories"]:,.0f} stories written by the generator in `specdec_teach/training/stories`: templates in sixteen
plots, with words, names and facts drawn at random. No text from anywhere else. The generator marks every fact that a
story tells again (names, things, colors, places, numbers, promises), and the target's loss on those tokens counts
{training["recall_weight"]:.0f} times: without that weight, a model of this size learns the grammar and forgets who has
what. The draft is distilled from the target without any extra weight, so it has the grammar but a poor memory. That is
where most lessons look.

Made with

    python -m specdec_teach.training --target-minutes {training["target_minutes"]:.0f} \\
        --draft-minutes {training["draft_minutes"]:.0f} --draft-width {training["draft_width"]:.0f}

(seed {training["seed"]:.0f}; AdamW for embeddings and norms, Muon for the hidden matrices, bfloat16 autocast). How far
it gets in these minutes depends on the machine: this run shared its two cores with other work.
{note}

## Figures

Measured at temperature 0.8 on {figures["positions"]:,.0f} positions of text that the target wrote itself, with the
shipped fp16 weights widened to float32 (`specdec_teach/training/evaluate.py` recomputes them).

| figure | value |
|---|---|
| overlap α = mean of Σ min(p, q) | {figures["alpha"]:.3f} |
| share of the rejection mass on facts told before | {figures["fact_share"]:.3f} |
| ... of that on names | {figures["name_share"]:.3f} |
| share of positions that are facts told before | {figures["fact_positions"]:.3f} |
| overlap on those positions | {figures["fact_alpha"]:.3f} |
| wrong names among later names, by count | {figures["wrong_name_rate"]:.3f} of {figures["later_names"]:.0f} |
| texts that end within 300 tokens | {figures["ended"]:.2f} |
| cost of a draft step over a target step, c | {figures["cost_ratio"]:.3f} |

A name counts as *wrong* if it never stood in the text before and stands where stories do not introduce anybody: in
3,000 reference stories, fewer than a quarter of the names after the same three words are new. By this count the
generator's own stories have a rate of about 0.02. Known names used for the wrong person are not counted. A *fact told
before* is a word or phrase of the generator's lexicon that already stood in the text.

Target loss on {HELD_OUT_STORIES} stories it has not seen, in nats per token:

| tokens | loss |
|---|---|
| all | {losses["all_tokens"]:.3f} |
| names told before | {losses["repeated_names"]:.3f} |
| new names | {losses["new_names"]:.3f} |
| other facts told before | {losses["repeated_facts"]:.3f} |
| other new facts | {losses["new_facts"]:.3f} |
| everything else | {losses["other_tokens"]:.3f} |

## What the pair writes

{quoted}

## Limits

The models know some hundred paragraphs by heart and how to fill them; they know nothing about the world, do not follow
instructions, and write English only. The target keeps names well; colors, numbers and a hero's he or she are less
reliable, and now and then it mixes up who did what. Use the pair for lessons and tests.

## License

Apache-2.0. The training data was generated by this project's own code, under the same license.
"""
