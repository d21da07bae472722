"""Small models whose answers are known in advance: for proofs, crafted examples and tests.

Invariant: `TabularLM` reads the history it conditions on out of the key/value cache, so a cache that holds the wrong
tokens gives the wrong answer, as in a real model. It does not know the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items
from typing import Any, final

import torch
from torch import Tensor

from specdec_kernels.errors import InvalidInput
from specdec_teach.hf import (
    CausalLMOutputWithPast,
    GenerationMixin,
    PreTrainedConfig,
    PreTrainedModel,
    llama_from_config,
)

__all__ = ["TabularLM", "tiny_llama"]

Rule = Callable[[tuple[int, ...]], Tensor]


class _TabularConfig(PreTrainedConfig):
    model_type = "specdec_tabular"

    def __init__(self, vocab_size: int = 3, context: int = 4096, **rest: Any) -> None:
        self.vocab_size = vocab_size
        self.hidden_size = 1
        self.num_hidden_layers = 1
        self.num_attention_heads = 1
        self.max_position_embeddings = context
        super().__init__(**rest)


@final
class TabularLM(PreTrainedModel, GenerationMixin):
    """A causal LM of transformers, cache and all, whose next-token logits are a table or a function.

    `logits`: `[V]`, the same everywhere; `[V, V]`, row t for the tokens that follow t; or a function from the whole
    prefix (a tuple of ids) to `[V]`. Kept in float64. `vocab`: V of a function that cannot be asked about
    the prefix (0,). `context`: positions. No token ends its text. InvalidInput for a table of another shape.

    >>> lm = TabularLM([[0.0, 1.0], [1.0, 0.0]])
    >>> lm(input_ids=torch.tensor([[0, 1]])).logits.tolist()
    [[[0.0, 1.0], [1.0, 0.0]]]
    """

    config_class = _TabularConfig
    base_model_prefix = "tabular"
    main_input_name = "input_ids"

    def __init__(
        self,
        logits: Tensor | Items[float] | Items[Items[float]] | Rule,
        *,
        vocab: int | None = None,
        context: int = 4096,
    ) -> None:
        if callable(logits):
            rule, width = logits, vocab if vocab is not None else len(logits((0,)))
        else:
            table = torch.as_tensor(logits, dtype=torch.float64)
            width = table.shape[-1]
            if table.dim() not in (1, 2) or (table.dim() == 2 and table.shape[0] != width):
                raise InvalidInput(
                    f"logits has shape {tuple(table.shape)}; give [V], [V, V] or a function of the prefix"
                )
            rule = _constant(table) if table.dim() == 1 else _by_last(table)
        super().__init__(_TabularConfig(vocab_size=width, context=context))
        self._rule = rule
        self.register_buffer("anchor", torch.zeros(1, dtype=torch.float64), persistent=False)
        self.train(False)

    @property
    def dtype(self) -> torch.dtype:
        """float64, the precision of the table."""
        return torch.float64

    @property
    def device(self) -> torch.device:
        """The CPU."""
        return torch.device("cpu")

    def get_output_embeddings(self) -> None:
        """There are none: logits come from the table."""

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
        **kwargs: Any,
    ) -> CausalLMOutputWithPast:
        """Return logits `[B, T, V]` in float64 for ids `[B, T]`; earlier ids are read from the cache.

        `attention_mask` `[B, S]` hides padding and stale keys, as in any model; `[B, 1, T, S]` is added to the scores
        of each token in others, and is 0 where a key is read.
        """
        history_BS = ids_BT = input_ids
        if past_key_values is not None:
            states = ids_BT[:, None, :, None].to(torch.float64)
            keys_B1S1, _ = past_key_values.update(states, states, 0)
            history_BS = keys_B1S1[:, 0, :, 0]
        count, seen = ids_BT.shape[1], history_BS.shape[1]
        first = count - logits_to_keep if logits_to_keep else 0
        real_BTS = torch.ones(len(ids_BT), count, seen, dtype=torch.bool)
        if attention_mask is not None and attention_mask.dim() == 4:
            real_BTS = attention_mask[:, 0, :, -seen:] == 0
        elif attention_mask is not None:
            real_BTS = attention_mask[:, None, -seen:].bool().expand(-1, count, -1)
        rows = [
            torch.stack([self._row(history, real[i], seen - count + i + 1) for i in range(first, count)])
            for history, real in zip(history_BS.tolist(), real_BTS.tolist(), strict=True)
        ]
        return CausalLMOutputWithPast(logits=torch.stack(rows), past_key_values=past_key_values)

    def _row(self, history: list[float], real: list[bool], length: int) -> Tensor:
        """Answer for the first `length` keys, those left out that the mask hides."""
        prefix = [token for token, is_real in zip(history[:length], real, strict=False) if is_real]
        if any(token != token for token in prefix):
            return torch.full((self.config.vocab_size,), torch.nan, dtype=torch.float64)
        return torch.as_tensor(self._rule(tuple(map(int, prefix)) or (0,)), dtype=torch.float64)


def _constant(table: Tensor) -> Rule:
    return lambda prefix: table


def _by_last(table: Tensor) -> Rule:
    return lambda prefix: table[prefix[-1]]


def tiny_llama(
    seed: int = 0, *, vocab: int = 64, noise: float = 0.0, noise_seed: int = 1, context: int = 256, layers: int = 2
) -> PreTrainedModel:
    """Return a random Llama (float32, CPU, about 20k parameters) with decided opinions; equal seeds give equal models.

    `noise`: relative size of a disturbance added to every weight, for a draft that is near its target. Nothing ends
    its text.
    """
    fork = torch.random.get_rng_state()
    try:
        torch.manual_seed(seed)
        model = llama_from_config(
            {
                "vocab_size": vocab,
                "hidden_size": 32,
                "intermediate_size": 64,
                "num_hidden_layers": layers,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "max_position_embeddings": context,
                "initializer_range": 0.2,
                "bos_token_id": None,
                "eos_token_id": None,
                "pad_token_id": None,
            }
        )
        torch.manual_seed(noise_seed)
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight) * weight.std() * noise if weight.dim() > 1 else 0.0)
    finally:
        torch.random.set_rng_state(fork)
    return model
