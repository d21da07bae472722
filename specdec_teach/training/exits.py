"""Trains ways out of the target behind its first layers: ``python -m specdec_teach.training exit --layers 1 2 3``.

The target does not learn. A way out is a norm, a matrix and a gated part in front of the target's own output matrix;
it begins as the least-squares map to what the target's last norm gives, and then learns the target's distribution of
the next token (Kullback-Leibler distance, temperature 1) on text that the target wrote itself.
Invariant: what is measured was not learnt from: the last tenth of the texts. Does not know: how drafts are made.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm  # type: ignore[import-untyped]

from specdec_teach.training.batches import load_batch
from specdec_teach.training.corpus import Corpus
from specdec_teach.training.evaluate import TEMPERATURE, load_pair, overlap
from specdec_teach.training.heads import hidden_states
from specdec_teach.training.network import EPSILON, Network
from specdec_teach.training.objective import teacher_losses
from specdec_teach.training.own_text import build_own_text

WEIGHTS = Path(__file__).resolve().parent.parent / "weights"
RIDGE, SPREAD = 1e-3, 0.08
INNER = 512
SIDE_BY_SIDE = 8


class Way(nn.Module):
    """A way out: y = norm(x), then y + A·y + D·(silu(G·y) * U·y); (T, width) -> (T, width)."""

    def __init__(self, width: int, inner: int, generator: torch.Generator) -> None:
        super().__init__()
        self.norm = nn.Parameter(torch.ones(width))
        self.adapter = nn.Parameter(torch.zeros(width, width))
        self.gate, self.up = (nn.Parameter(SPREAD * torch.randn(inner, width, generator=generator)) for _ in range(2))
        self.down = nn.Parameter(torch.zeros(width, inner))

    def forward(self, x: Tensor) -> Tensor:
        """What the output matrix is to see."""
        y = functional.rms_norm(x, (x.shape[-1],), self.norm, EPSILON)
        inside = functional.silu(functional.linear(y, self.gate)) * functional.linear(y, self.up)
        return y + functional.linear(y, self.adapter) + functional.linear(inside, self.down)

    @torch.no_grad()
    def fit(self, x: Tensor, wanted: Tensor) -> None:
        """Begin at the matrix that brings norm(x) nearest to `wanted`, both (T, width)."""
        y = functional.rms_norm(x, (x.shape[-1],), self.norm, EPSILON)
        gram = y.mT @ y + RIDGE * len(y) * torch.eye(y.shape[-1])
        self.adapter.copy_(torch.linalg.solve(gram, y.mT @ (wanted - y)).mT)


@torch.inference_mode()
def states_of(target: Network, corpus: Corpus, layers: list[int]) -> dict[int, Tensor]:
    """What stands behind each of `layers`, and behind the last norm, at every place of all texts: (T, width) each."""
    wanted = (*layers, target.shape.layers)
    parts: list[Tensor] = []
    for first in tqdm(range(0, len(corpus), SIDE_BY_SIDE), desc="states", mininterval=5):
        batch = load_batch(corpus, list(range(first, min(first + SIDE_BY_SIDE, len(corpus)))))
        states, _ = hidden_states(target, batch.inputs, wanted)
        parts.append(states[batch.valid].half())
    return dict(zip(wanted, torch.split(torch.cat(parts), target.shape.width, dim=-1), strict=True))


def train_ways(
    target: Network, states: dict[int, Tensor], layers: list[int], *, steps: int, rows: int, rate: float, seed: int
) -> dict[int, Way]:
    """Train one way out for each of `layers`, all on the same places of the texts."""
    embedding, last = target.model.embed_tokens.weight.detach(), states[target.shape.layers]
    generator = torch.Generator().manual_seed(seed)
    ways = {layer: Way(target.shape.width, INNER, generator) for layer in layers}
    for layer, way in ways.items():
        way.fit(states[layer].float(), last.float())
    learner = torch.optim.AdamW([w for way in ways.values() for w in way.parameters()], lr=rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(learner, max_lr=rate, total_steps=steps + 1, pct_start=0.1)
    with tqdm(range(steps), desc="exits", mininterval=5) as bar:
        for _ in bar:
            at = torch.randint(len(last), (rows,), generator=generator)
            wanted = functional.linear(last[at].float(), embedding)
            losses = [
                teacher_losses(functional.linear(way(states[layer][at].float()), embedding), wanted, 1.0).mean()
                for layer, way in ways.items()
            ]
            learner.zero_grad(set_to_none=True)
            torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
            learner.step()
            schedule.step()
            bar.set_postfix_str(" ".join(f"{float(loss.detach()):.3f}" for loss in losses))
    return ways


@torch.inference_mode()
def measure_way(target: Network, way: Way, x: Tensor, last: Tensor) -> dict[str, float]:
    """Overlap Σ min(p, q) at temperature 0.8, and the share of places where both have one favourite."""
    embedding, shared, same = target.model.embed_tokens.weight, 0.0, 0
    for here, there in zip(torch.split(x.float(), 1024), torch.split(last.float(), 1024), strict=True):
        p, q = functional.linear(there, embedding), functional.linear(way(here), embedding)
        shared += float(overlap(p, q, TEMPERATURE).sum())
        same += int((p.argmax(-1) == q.argmax(-1)).sum())
    return {"alpha": round(shared / len(x), 4), "same_favourite": round(same / len(x), 4)}


def save_way(way: Way, layers: int, weights: Path) -> int:
    """Write a way out in fp16, with the beginning of its target's SHA-256; return the bytes."""
    folder = weights / "exit"
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256((weights / "target" / "model.safetensors").read_bytes()).hexdigest()
    tensors = {name: value.detach().to(torch.float16).contiguous() for name, value in way.state_dict().items()}
    path = folder / f"{layers}.safetensors"
    save_file(tensors, path, metadata={"format": "pt", "target": digest[:12], "epsilon": str(EPSILON)})
    path.chmod(0o644)
    return path.stat().st_size


def make_exits(options: argparse.Namespace) -> None:
    """Train and write the ways out, and their card."""
    target, _, tokenizer = load_pair(options.out)
    corpus = build_own_text(target, tokenizer, options.texts, options.seed, options.work / "own")
    states = states_of(target, corpus, options.layers)
    held = sum(int(n) - 1 for n in corpus.lengths()[-max(1, len(corpus) // 10) :])
    last = target.shape.layers
    learnt = {layer: x[:-held] for layer, x in states.items()}
    ways = train_ways(
        target, learnt, options.layers, steps=options.steps, rows=options.rows, rate=options.rate, seed=options.seed
    )
    card: dict[str, dict[str, float]] = {
        "training": {"texts": len(corpus), "places": len(learnt[last]), "steps": options.steps, "rows": options.rows},
        "measured": {"places": held},
    }
    for layer, way in ways.items():
        card[str(layer)] = measure_way(target, way, states[layer][-held:], states[last][-held:])
        if layer in options.ship:
            card[str(layer)]["bytes"] = save_way(way, layer, options.out)
    (options.out / "exit" / "card.json").write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
    (options.out / "exit" / "CARD.md").write_text(render_card(card, options), encoding="utf-8")


def render_card(card: dict[str, dict[str, float]], options: argparse.Namespace) -> str:
    """The card as Markdown."""
    training, measured = card["training"], card["measured"]

    def size(row: dict[str, float]) -> str:
        return f"{row['bytes'] / 1e3:.0f} kB" if "bytes" in row else "not kept"

    lines = "\n".join(
        f"| {layer} | {card[str(layer)]['alpha']:.3f} | {card[str(layer)]['same_favourite']:.3f} "
        f"| {size(card[str(layer)])} |"
        for layer in options.layers
    )
    depths, shipped = (" ".join(map(str, some)) for some in (options.layers, options.ship))
    return f"""# Early exits of the embedded target

Ways out of the target behind its first E layers, for `sd.EarlyExitDrafter.of(pair)`: y = norm(x), then
y + A·y + D·(silu(G·y) * U·y), in front of the target's own output matrix. The layers are the target's; nothing else was
trained.

| E | overlap α with the target, T = 0.8 | same favourite | file (fp16) |
|---|---|---|---|
{lines}

Measured on {measured["places"]:,.0f} places of text that the target wrote itself and that nothing was learnt from.

Trained on {training["places"]:,.0f} places of {training["texts"]:,.0f} texts of the target's own, written at
temperatures up to 1 behind a few words of a story it has not seen: least squares to its last state, then
{training["steps"]:,.0f} steps of {training["rows"]:,.0f} places towards its distribution of the next token. Made with

    python -m specdec_teach.training exit --layers {depths} --ship {shipped} --steps {training["steps"]:.0f}

## License

Apache-2.0, as the pair.
"""


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and make the exits."""
    about = "Train ways out of the embedded target behind its first layers."
    parser = argparse.ArgumentParser(prog="python -m specdec_teach.training exit", description=about)
    parser.add_argument("--layers", type=int, nargs="+", default=[1, 2, 3], help="behind which layers")
    parser.add_argument("--ship", type=int, nargs="+", default=[1], help="which of them to write to the pair")
    parser.add_argument("--texts", type=int, default=400, help="texts that the target writes to learn from")
    parser.add_argument("--steps", type=int, default=900, help="steps of training")
    parser.add_argument("--rows", type=int, default=768, help="places in the texts for each step")
    parser.add_argument("--rate", type=float, default=0.003, help="peak learning rate")
    parser.add_argument("--seed", type=int, default=1, help="seed of texts and steps")
    parser.add_argument("--work", type=Path, default=Path(".training"), help="folder for the texts")
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="folder of the pair")
    options = parser.parse_args(arguments)
    depth = json.loads((options.out / "target" / "config.json").read_text(encoding="utf-8"))["num_hidden_layers"]
    if any(not 0 < layer < depth for layer in options.layers) or min(options.texts, options.steps, options.rows) <= 0:
        parser.error(f"--layers must lie between 1 and {depth - 1}; --texts, --steps and --rows must be positive")
    torch.set_num_threads(1)
    make_exits(options)
