"""Drafts from the target's own first layers: it stops early to draft, and goes on from there to verify.

The first E layers read the keys and values that the target has anyway, so there is no second model, no second cache
and no prefill of a draft. What they make of the pending token and of each draft travels with the proposal (`Stash`):
of γ + 1 tokens the verify forward takes only the last draft through those layers, and all of them through the rest.
Invariant: between cycles nothing is kept, so a rejection has nothing to take back. It does not know how drafts are
judged, or which layout the cache has.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, final

from torch import Tensor
from torch.nn import functional as F

from specdec_kernels.errors import InvalidInput, whole
from specdec_teach.drafters.base import Proposal
from specdec_teach.drafters.chain import Chain
from specdec_teach.hf import ModelRunner, load_tensors
from specdec_teach.sequence import Sequence
from specdec_teach.stash import Stash

__all__ = ["EarlyExitDrafter", "Exit"]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Exit:
    """A small trained way out behind a model's first layers, in front of its own output matrix.

    y = norm(x), then y + A·y + D·(silu(G·y) * U·y).
    `norm_N`: the weights of the root-mean-square norm; `adapter_NN`: A; `gate_IN`, `up_IN`, `down_NI`: G, U and D.

    >>> import torch
    >>> leave = Exit(torch.ones(2), torch.zeros(2, 2), torch.ones(1, 2), torch.ones(1, 2), torch.zeros(2, 1), 0.0)
    >>> leave(torch.tensor([[3.0, 3.0]])).tolist()
    [[1.0, 1.0]]
    """

    norm_N: Tensor
    adapter_NN: Tensor
    gate_IN: Tensor
    up_IN: Tensor
    down_NI: Tensor
    epsilon: float = 1e-5

    @classmethod
    def of(cls, weights: dict[str, Tensor], epsilon: float, like: Tensor) -> Exit:
        """Return the exit of a weights file, in the dtype and on the device of `like`."""
        norm, adapter, gate, up, down = (weights[name].to(like) for name in ("norm", "adapter", "gate", "up", "down"))
        return cls(norm, adapter, gate, up, down, epsilon)

    def __call__(self, x_TN: Tensor) -> Tensor:
        """Return what the head is to see of the hidden states `[T, N]`."""
        y_TN = F.rms_norm(x_TN, x_TN.shape[-1:], self.norm_N, self.epsilon)
        inside_TI = F.silu(F.linear(y_TN, self.gate_IN)) * F.linear(y_TN, self.up_IN)
        return y_TN + F.linear(y_TN, self.adapter_NN) + F.linear(inside_TI, self.down_NI)


@final
class EarlyExitDrafter:
    """Drafts with the first `layers` layers of the target itself (after LayerSkip: Elhoushi et al. 2024).

    `model`: the engine's own target. `leave`: a trained way out behind those layers; None: the target's last norm and
    head, which few models make sense of so early. Drafts are drawn from the processed distribution, which is reported.
    There is no cache to point at: `draft_kv` is None in a trace. Where the target's forward cannot stop between two
    layers any more (hooks were added to it), nothing is proposed.
    InvalidInput: a model that does not run on the compact decoder, or a number of layers that it does not have.

    >>> from specdec_teach.testing import tiny_llama
    >>> EarlyExitDrafter(tiny_llama(layers=3), 2).layers
    2
    """

    def __init__(self, model: object, layers: int = 2, *, leave: Exit | None = None) -> None:
        runner = ModelRunner(model, "target")
        if runner.decoder != "compact":
            raise InvalidInput(
                f"{type(runner.model).__name__} runs through transformers' own forward, which cannot stop between two "
                "layers; early exit needs plain weights of the Llama family, so use NgramDrafter or ModelDrafter"
            )
        depth = whole(layers)
        if depth is None or not 0 < depth < runner.layers:
            raise InvalidInput(f"layers={layers!r}; give how many of its {runner.layers} draft, from 1 to all but one")
        self.model_name: str | None = f"{runner.name}, first {depth} of {runner.layers} layers"
        self.revision: str | None = runner.revision
        self.layers = depth
        self.name = "early-exit"
        self.context: int | None = None
        self.exact = True
        self._target = runner.model
        self._leave = leave

    @classmethod
    def of(cls, pair: Any, layers: int | None = None) -> EarlyExitDrafter:
        """Return the drafter with the trained exit that comes with the embedded pair (None: behind as many layers).

        InvalidInput when there is none behind `layers`, or `pair` has another target.
        """
        folder = Path(str(files("specdec_teach"))) / "weights" / "exit"
        there = sorted(int(path.stem) for path in folder.glob("*.safetensors"))
        depth = there[0] if layers is None and there else layers
        if depth not in there:
            raise InvalidInput(
                f"layers={layers!r} has no trained exit, only {there} have; leave layers= out, or use "
                "EarlyExitDrafter(model, layers) without one"
            )
        weights, about = load_tensors(folder / f"{depth}.safetensors")
        revision = getattr(pair.target.config, "_commit_hash", None)
        if revision != about["target"]:
            raise InvalidInput(
                f"the exit was trained for the embedded target at revision {about['target']} and the target is "
                f"{pair.target.config.name_or_path or type(pair.target).__name__} at {revision}; "
                "use load_pair(), or EarlyExitDrafter(model) without trained weights"
            )
        return cls(pair.target, depth, leave=Exit.of(weights, float(about["epsilon"]), next(pair.target.parameters())))

    def check(self, vocab: int) -> None:
        """The vocabulary is the target's own."""

    def check_target(self, target: ModelRunner) -> None:
        """See `OnTarget.check_target`."""
        if target.model is not self._target:
            raise InvalidInput(
                f"the early exit was made for {self.model_name} and the engine's target is another model, "
                f"{target.name}; give both the same one"
            )
        if target.decoder != "compact":
            raise InvalidInput("decoder='hf' cannot stop between two layers; leave decoder= out to draft by early exit")

    def reset(self, sequence: Sequence, capacity: int) -> None:
        """Nothing to prepare: the target's own prefill is what drafts begin from."""

    def propose(
        self, sequences: Items[Sequence], counts: Items[int], hidden: Items[Tensor] | None = None
    ) -> list[Proposal]:
        """See `Drafter.propose`; each step is one forward through the first layers for all sequences that go on."""
        chains = [Chain(sequence, count) for sequence, count in zip(sequences, counts, strict=True)]
        stashes = [self._stash(sequence) for sequence in sequences]
        active = [
            (chain, stash)
            for chain, stash in zip(chains, stashes, strict=True)
            if chain.count > 0 and stash is not None
        ]
        while active:
            runner = active[0][0].sequence.runner
            assert runner is not None
            feeds = [chain.text[stash.pointer :] for chain, stash in active]
            rows = runner.stop_early([stash for _, stash in active], feeds, self._leave)
            active = [one for one, logits_1V in zip(active, rows, strict=True) if one[0].take(logits_1V)]
        return [replace(chain.proposal(), stash=stash) for chain, stash in zip(chains, stashes, strict=True)]

    def _stash(self, sequence: Sequence) -> Stash | None:
        assert sequence.runner is not None, "the engine says who computes its sequences"
        return sequence.runner.stash(sequence.cache, self.layers)

    def commit(self, sequence: Sequence) -> None:
        """Nothing to forget."""

    def pointer(self, sequence: Sequence) -> None:
        """There is no cache of its own."""
