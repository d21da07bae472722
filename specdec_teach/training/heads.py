"""How heads learn from a target: unrolled on their own states, or all at once from one hidden state.

Each learner takes ids `[B, T]` and gives a loss `[B, T]`, one number for each position, so that it trains by the same
loop as a model. The target runs along without learning. Row t of a head stands for (state t, token t + 1) and guesses
token t + 2, so a row is right when it says what the target says at t + 1.
Invariant: in step j of a roll-out a row reads the target's states up to j − 1 rows before it, and the head's own behind
them: what it will meet when it drafts j tokens. Does not know: drafting, caches, optimisers.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from specdec_teach.drafters.networks import HeadNetwork, MedusaNetwork
from specdec_teach.training.batches import Batch
from specdec_teach.training.network import Network, rotary_tables, rotate
from specdec_teach.training.objective import teacher_losses

FADE = 0.8


class Learner(Protocol):
    """What the training loop needs of a module beside its parameters."""

    def describe(self) -> dict[str, object]:
        """The sizes, for checkpoints."""


@torch.no_grad()
def hidden_states(target: Network, ids: Tensor, layers: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The target's states of `layers` side by side (B, T, W), and its logits (B, T, V)."""
    length = ids.shape[1]
    cos, sin = target.get_buffer("cos")[:length], target.get_buffer("sin")[:length]
    x = target.model.embed_tokens(ids)
    seen = {0: x}
    for number, layer in enumerate(target.model.layers, start=1):
        x = seen[number] = layer(x, cos, sin)
    seen[target.shape.layers] = last = target.model.norm(x)
    logits = functional.linear(last, target.model.embed_tokens.weight)
    return torch.cat([seen[layer].float() for layer in layers], dim=-1), logits


class HeadLearner(nn.Module):
    """A head that is unrolled for `steps` steps.

    `regression`: weight of the distance between its state and the target's next one, in step 1 (EAGLE); 0 learns from
    the target's distribution alone (EAGLE-3).
    """

    def __init__(self, head: HeadNetwork, target: Network, steps: int, regression: float) -> None:
        super().__init__()
        self.head, self.steps, self.regression = head, steps, regression
        self._target = [target]
        cos, sin = rotary_tables(head.shape.width // head.shape.heads, target.shape.context, head.shape.theta)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        with torch.no_grad():
            head.norm.weight.copy_(target.model.norm.weight)

    def describe(self) -> dict[str, object]:
        """See `Learner`."""
        return self.head.shape.as_dict() | {"steps": self.steps, "regression": self.regression}

    def forward(self, ids: Tensor) -> Tensor:
        """The loss (B, T) of every row, faded and summed over the steps; the last row has none."""
        target, head = self._target[0], self.head
        hidden, logits = hidden_states(target, ids, head.shape.features)
        embedding = target.model.embed_tokens.weight
        tokens, wanted = functional.embedding(ids[:, 1:], embedding), logits[:, 1:]
        states = head.state(hidden[:, :-1])
        losses = torch.zeros(ids.shape, dtype=torch.float32)
        keys: list[Tensor] = []
        values: list[Tensor] = []
        for step in range(self.steps):
            said = self._step(head.enter(tokens, states), keys, values)
            loss = teacher_losses(functional.linear(said, embedding), wanted, 1.0)
            if self.regression and step == 0:
                away = functional.smooth_l1_loss(said.float(), hidden[:, 1:], reduction="none", beta=0.1).mean(-1)
                loss = loss + self.regression * away
            known = torch.arange(loss.shape[1]) >= step
            losses[:, :-1] += FADE**step * loss * known
            states = torch.cat([said[:, :1], said[:, :-1]], dim=1)
        return losses / sum(FADE**step for step in range(self.steps))

    def _step(self, x: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
        """One step of the roll-out, (B, T, N): adds its keys and values to those of the steps before."""
        layer: Any = self.head.layer
        attention, batch, length = layer.self_attn, *x.shape[:2]
        split = (batch, length, self.head.shape.heads, -1)
        cos, sin = self.get_buffer("cos")[:length], self.get_buffer("sin")[:length]
        normed = layer.input_layernorm(x)
        query = rotate(attention.q_proj(normed).view(split).transpose(1, 2), cos, sin)
        keys.append(rotate(attention.k_proj(normed).view(split).transpose(1, 2), cos, sin))
        values.append(attention.v_proj(normed).view(split).transpose(1, 2))
        x = x + attention.o_proj(self._attend(query, keys, values).transpose(1, 2).reshape(x.shape))
        said: Tensor = self.head.norm(x + layer.mlp(layer.post_attention_layernorm(x)))
        return said

    def _attend(self, query: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
        """Read the target's rows up to `back` before, and one row of the head's own from each later step."""
        back, length = len(keys) - 1, query.shape[2]
        if back == 0:
            return functional.scaled_dot_product_attention(query, keys[0], values[0], is_causal=True)
        hidden = torch.ones(length, length, dtype=torch.bool).tril(-back).logical_not()
        hidden[:back] = False  # rows without enough before them are not counted, and must not be empty
        scores = (query @ keys[0].mT).float().masked_fill(hidden, -torch.inf)
        own = [(query * _later(key, back - at)).sum(-1, keepdim=True).float() for at, key in enumerate(keys[1:], 1)]
        weights = torch.cat([scores, *own], dim=-1).mul(query.shape[-1] ** -0.5).softmax(-1).to(values[0].dtype)
        out = weights[..., :length] @ values[0]
        for at, value in enumerate(values[1:], 1):
            out = out + weights[..., length + at - 1, None] * _later(value, back - at)
        return out


def _later(x: Tensor, rows: int) -> Tensor:
    """Move rows (B, H, T, D) down: row t is what row t − `rows` was."""
    return x if rows == 0 else torch.cat([x[:, :, :rows], x[:, :, :-rows]], dim=2)


class MedusaLearner(nn.Module):
    """Medusa heads that learn the target's distributions 1, 2, … places behind what it says itself."""

    def __init__(self, heads: MedusaNetwork, target: Network) -> None:
        super().__init__()
        self.heads = heads
        self._target = [target]
        with torch.no_grad():
            for norm in heads.norms:
                norm.weight.copy_(target.model.norm.weight)

    def describe(self) -> dict[str, object]:
        """See `Learner`."""
        return self.heads.shape.as_dict()

    def forward(self, ids: Tensor) -> Tensor:
        """The loss (B, T) of every position, faded and summed over the heads."""
        target, count = self._target[0], self.heads.shape.count
        hidden, logits = hidden_states(target, ids, self.heads.shape.features)
        said = functional.linear(self.heads(hidden), target.model.embed_tokens.weight)
        losses = torch.zeros(ids.shape, dtype=torch.float32)
        for at in range(1, count + 1):
            losses[:, :-at] += FADE ** (at - 1) * teacher_losses(said[at - 1, :, :-at], logits[:, at:], 1.0)
        return losses / sum(FADE**at for at in range(count))


def rows_loss(losses: Tensor, batch: Batch) -> Tensor:
    """The mean over rows whose answer lies inside its story."""
    counted = functional.pad(batch.valid[:, 1:], (0, 1)).float()
    return (losses * counted).sum() / counted.sum().clamp_min(1.0)
