"""The one command that makes the embedded pair: ``python -m specdec_teach.training``.

Invariant: every part can be interrupted and goes on where it stopped when the command is given again.
Does not know: how the parts work.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from specdec_teach.training import exits
from specdec_teach.training.batches import Batch
from specdec_teach.training.card import write_card
from specdec_teach.training.corpus import Corpus, build_corpus, open_corpus, train_tokenizer
from specdec_teach.training.export import load_model, save_model, save_tokenizer
from specdec_teach.training.head_card import write_head_card
from specdec_teach.training.head_parts import HEADS, make_head
from specdec_teach.training.network import Network, Shape
from specdec_teach.training.objective import recall_weights, teacher_losses, token_losses, weighted_mean
from specdec_teach.training.trainer import Loss, Plan, train

TARGET = Shape()
PARTS = ("corpus", "target", "draft", "card", *HEADS, "head-card")
WEIGHTS = Path(__file__).resolve().parent.parent / "weights"


def parse_options(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line; exits with one line for a bad option."""
    about = "Make the embedded pair: corpus, target, draft, card; with --parts also its target's heads."
    parser = argparse.ArgumentParser(prog="python -m specdec_teach.training", description=about)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS[:4]), help="what to make")
    parser.add_argument("--stories", type=int, default=60000, help="stories in the corpus")
    parser.add_argument("--tokenizer-stories", type=int, default=20000, help="stories the tokenizer is trained on")
    parser.add_argument("--seed", type=int, default=1, help="seed of stories, weights and batches")
    parser.add_argument("--target-minutes", type=float, default=68.0, help="training time of the target")
    parser.add_argument("--draft-minutes", type=float, default=6.0, help="training time of the draft")
    parser.add_argument("--head-minutes", type=float, default=20.0, help="training time of each head")
    parser.add_argument("--draft-width", type=int, default=96, help="width of the draft model")
    parser.add_argument("--draft-heads", type=int, default=2, help="attention heads of the draft model")
    parser.add_argument("--draft-temperature", type=float, default=1.0, help="temperature of the distillation")
    parser.add_argument("--recall-weight", type=float, default=4.0, help="loss weight of facts told again")
    parser.add_argument("--muon-rate", type=float, default=0.02, help="peak learning rate of hidden matrices")
    parser.add_argument("--adam-rate", type=float, default=0.002, help="peak learning rate of the rest")
    parser.add_argument("--threads", type=int, default=2, help="threads; each works on its slice of every batch")
    parser.add_argument("--work", type=Path, default=Path(".training"), help="folder for corpus and checkpoints")
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="folder for the finished pair")
    parser.add_argument("--note", default="", help="a sentence about this run for the card")
    options = parser.parse_args(arguments)
    minutes = ("target_minutes", "draft_minutes", "head_minutes")
    for name in ("stories", "tokenizer_stories", *minutes, "draft_width", "threads"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name.replace('_', '-')} must be positive")
    return options


def make_corpus(options: argparse.Namespace) -> None:
    """Train the tokenizer and write the corpus, unless the work folder has them."""
    if (options.work / "corpus" / "starts.i64").exists():
        return
    base = options.seed * 10_000_000
    tokenizer = train_tokenizer(options.tokenizer_stories, base)
    save_tokenizer(tokenizer, options.work)
    build_corpus(tokenizer, options.stories, base, options.work / "corpus")


def make_target(options: argparse.Namespace, corpus: Corpus) -> None:
    """Train the target with extra weight on recalled facts and export it."""
    network = Network(TARGET, torch.Generator().manual_seed(options.seed))
    train(
        network,
        corpus,
        _recall_loss(options.recall_weight),
        _plan(options, options.target_minutes),
        options.work / "target.pt",
        "target",
    )
    save_model(network, options.out / "target")
    save_tokenizer(Tokenizer.from_file(str(options.work / "tokenizer.json")), options.out)


def make_draft(options: argparse.Namespace, corpus: Corpus) -> None:
    """Distil the draft from the exported target (no extra weight on recall) and export it."""
    width = options.draft_width
    shape = Shape(width=width, layers=1, heads=options.draft_heads, inner=2 * width)
    network = Network(shape, torch.Generator().manual_seed(options.seed + 1))
    loss = _teacher_loss(load_model(options.out / "target"), options.draft_temperature)
    train(network, corpus, loss, _plan(options, options.draft_minutes), options.work / "draft.pt", "draft")
    save_model(network, options.out / "draft")


def _recall_loss(weight: float) -> Loss:
    def loss(logits: Tensor, batch: Batch) -> Tensor:
        return weighted_mean(token_losses(logits, batch.targets), recall_weights(batch, weight))

    return loss


def _teacher_loss(teacher: Network, temperature: float) -> Loss:
    def loss(logits: Tensor, batch: Batch) -> Tensor:
        with torch.no_grad():
            wanted = teacher(batch.inputs)
        return weighted_mean(teacher_losses(logits, wanted, temperature), batch.valid.float())

    return loss


def _plan(options: argparse.Namespace, minutes: float) -> Plan:
    return Plan(
        minutes=minutes,
        muon_rate=options.muon_rate,
        adam_rate=options.adam_rate,
        seed=options.seed,
        replicas=options.threads,
    )


def main(arguments: list[str] | None = None) -> None:
    """Make the parts asked for, in order; `exit` and its own options make the target's early exits."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["exit"]:
        exits.main(given[1:])
        return
    options = parse_options(given)
    torch.set_num_threads(1)
    if "corpus" in options.parts:
        make_corpus(options)
    if "target" in options.parts:
        make_target(options, open_corpus(options.work / "corpus"))
    if "draft" in options.parts:
        make_draft(options, open_corpus(options.work / "corpus"))
    for kind in (kind for kind in HEADS if kind in options.parts):
        plan = _plan(options, options.head_minutes)
        make_head(kind, open_corpus(options.work / "corpus"), plan, options.work, options.out)
    if "head-card" in options.parts:
        write_head_card(options.work, options.out)
    if "card" in options.parts:
        names = ("stories", "seed", "recall_weight", "target_minutes", "draft_minutes", "draft_width")
        write_card(options.out, options.work, {name: float(getattr(options, name)) for name in names}, options.note)


if __name__ == "__main__":
    main()
