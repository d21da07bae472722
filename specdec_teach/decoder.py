"""A compact decoder for the Llama family: the same weights and logits as transformers', with less around them.

It runs Llama, SmolLM, Mistral, Qwen2 and Qwen3. What makes it quick on small models is what it leaves out: query, key
and value are one matrix product, gate and up another; rotary tables are made once; keys and values go straight into the
project's cache; only the rows that are asked for reach the vocabulary. Sequences of any lengths stand below each other
in every product, without padding; attention is done for each, or for all at once where they are paged (`paged`).
Invariant: the logits are transformers' up to rounding, for every cache layout. It does not know other families, nor
quantised or adapted weights: `fits` says so, and transformers' own forward serves them.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items
from itertools import accumulate
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from specdec_kernels import backend as backends
from specdec_teach.caches.base import Cache
from specdec_teach.linear import Linear
from specdec_teach.paged import PagedRows
from specdec_teach.sight import hidden, positions
from specdec_teach.stash import Row, Stash
from specdec_teach.tree import Parents

__all__ = ["Attend", "CompactDecoder"]

# (layer, queries [T, H, D], new keys and values [T, G, D], scale, window) -> what was found [T, H·D].
Attend = Callable[[int, Tensor, Tensor, Tensor, float, int], Tensor]
# Hidden states by layer, counted as in `Hidden`: an empty list asks for one.
Seen = dict[int, list[Tensor]]
# What stands in front of the head.
Norm = Callable[[Tensor], Tensor]

_FAMILIES = {"llama", "mistral", "qwen2", "qwen3"}
_NARROW, _LONG = {torch.bfloat16, torch.float16}, 128
_FIXED_ROPE = {"default", "linear", "llama3", "yarn"}
_SLEEPS = "transformers.utils.output_capturing"


@final
class CompactDecoder:
    """The decoder of `model`, a causal LM of transformers for which `fits` holds.

    `backend`: who attends over paged caches: the Triton kernel ("triton"; "auto" on a GPU), or torch.
    `kernel`: whether the former was chosen. `depth` layers; `groups` and `size` are G and D, `vocab` V.
    Shapes: T tokens of all sequences, hidden size N, H query heads and G key/value heads of size D, vocabulary V.
    """

    def __init__(self, model: Any, backend: str = "auto") -> None:
        config, body = model.config, model.model
        self.kernel = backends.choose(backend, model.lm_head.weight) == "triton"
        self.dtype, self.device = model.lm_head.weight.dtype, model.lm_head.weight.device
        self.vocab = len(model.lm_head.weight)
        self.depth, self.groups = len(body.layers), int(config.num_key_value_heads)
        self.size = int(body.layers[0].self_attn.head_dim)
        self._embedding, self._norm, self._head = body.embed_tokens, body.norm, Linear([model.lm_head])
        self._rotary = body.rotary_emb
        self._cos_PD = self._sin_PD = torch.empty(0, 0)
        self._layers = [Layer(layer, config, number) for number, layer in enumerate(body.layers)]
        self._windows = sorted({layer.window for layer in self._layers})

    @staticmethod
    def fits(model: Any) -> bool:
        """Return whether this decoder computes what `model` computes."""
        config = model.config
        body: Any = getattr(model, "model", None)
        own = type(model).__module__.startswith("transformers.models.")
        if not own or config.model_type not in _FAMILIES or config.hidden_act != "silu":
            return False
        rope = getattr(config, "rope_parameters", None) or {}
        linears = [model.lm_head, *(linear for layer in body.layers for linear in _linears(layer))]
        return (
            rope.get("rope_type", "default") in _FIXED_ROPE
            and all(type(module) is nn.Linear and type(module.weight) is nn.Parameter for module in linears)
            and len({(module.weight.dtype, module.weight.device) for module in linears}) == 1
            and not any(_hooked(module) for module in model.modules())
            and not any(hasattr(module, "_hf_hook") for module in model.modules())  # accelerate moves what it runs
        )

    def __call__(
        self,
        caches: Items[Cache],
        ids: Items[Items[int]],
        keeps: Items[int],
        seen: Seen | None = None,
        trees: Items[Parents | None] | None = None,
        stashes: Items[Stash | None] | None = None,
    ) -> list[Tensor]:
        """Feed every sequence its own ids at its own pointer; return for each the logits `[keep, V]` of its last rows.

        The caches have room; keys and values are written, and no pointer is moved. `seen` is given the hidden states
        `[T, N]` of every sequence. `trees`: the shape of a draft tree whose nodes are a sequence's last tokens, or None
        (`specdec_teach.sight`). `stashes`: what `stop_early` made of a sequence's ids, which go on from there; where
        hidden states are wanted, they begin anew.
        """
        counts, trees = [len(fed) for fed in ids], [None] * len(ids) if trees is None else trees
        x_TN, split = self._entered(caches, ids, [None] * len(ids) if seen or stashes is None else stashes)
        x_TN = self._rows_through(x_TN, caches, counts, trees, range(split, len(self._layers)), seen)
        for states in (seen or {}).values():
            states[:] = torch.split(states[0], counts)
        return _parts(self._say(_last(x_TN, counts, keeps)), keeps)

    def stop_early(self, stashes: Items[Stash], ids: Items[Items[int]], norm: Norm | None = None) -> list[Tensor]:
        """Feed every sequence its own ids through the first layers alone, behind what its stash has; no pointer moves.

        Return for each the logits `[1, V]` of the last id, by the target's head behind `norm` (None: its last norm).
        """
        counts, ones = [len(fed) for fed in ids], [1] * len(ids)
        x_TN = self._rows_through(self._embed(ids), stashes, counts, [None] * len(ids), range(stashes[0].layers))
        for stash, fed, part in zip(stashes, ids, torch.split(x_TN, counts), strict=True):
            stash.add(fed, part)
        return _parts(self._say(_last(x_TN, counts, ones), norm), ones)

    def _entered(
        self, caches: Items[Cache], ids: Items[Items[int]], stashes: Items[Stash | None]
    ) -> tuple[Tensor, int]:
        """Take all ids to the layer from which they can go on together; return their states and that layer."""
        kept = [
            stash if stash is not None and stash.agree(self, cache, fed) else None
            for stash, cache, fed in zip(stashes, caches, ids, strict=True)
        ]
        split = max((stash.layers for stash in kept if stash is not None), default=0)
        if split == 0:
            return self._embed(ids), 0
        rows = [cache if stash is None else stash for stash, cache in zip(kept, caches, strict=True)]
        fresh = [fed if stash is None else fed[len(stash.tokens) :] for stash, fed in zip(kept, ids, strict=True)]
        counts = [len(fed) for fed in fresh]
        x_TN = self._rows_through(self._embed(fresh), rows, counts, [None] * len(rows), range(split))
        parts: list[Tensor] = []
        for stash, part in zip(kept, torch.split(x_TN, counts), strict=True):
            parts += [part] if stash is None else [stash.hidden_TN, part]
        return torch.cat(parts), split

    def _embed(self, ids: Items[Items[int]]) -> Tensor:
        flat = torch.tensor([token for fed in ids for token in fed], device=self._embedding.weight.device)
        x_TN: Tensor = self._embedding(flat)
        return x_TN

    def _rows_through(
        self,
        x_TN: Tensor,
        rows: Items[Row],
        counts: list[int],
        trees: Items[Parents | None],
        layers: Items[int],
        seen: Seen | None = None,
    ) -> Tensor:
        """Send the new tokens of all rows, `counts[b]` of row b, through some layers, each behind its row's pointer."""
        cos_T1D, sin_T1D = self._turns(rows, counts, x_TN, trees)
        return self._through(x_TN, cos_T1D, sin_T1D, self._way(rows, counts, x_TN, trees), seen, layers)

    def at(self, ids_T: Tensor, places_T: Tensor, tables: tuple[Tensor, Tensor], keep: int, attend: Attend) -> Tensor:
        """Return the logits `[keep, V]` of the last of T tokens, which stand at `places_T`; `attend` keeps them.

        Ids, places and rotary `tables` (of `turns`) are tensors on the device, and no value of them is read here.
        """
        cos_T1D, sin_T1D = (table.index_select(0, places_T)[:, None] for table in tables)
        x_TN = self._through(self._embedding(ids_T), cos_T1D, sin_T1D, attend)
        return self._say(x_TN[len(ids_T) - keep :])

    def turns(self, places: int) -> tuple[Tensor, Tensor]:
        """Return cos and sin `[P, D]` of all positions below `places`; the first half of sin is negative."""
        like = self._embedding.weight
        cos, sin = (table[0] for table in self._rotary(like, torch.arange(places, device=like.device)[None]))
        half = sin.shape[-1] // 2
        return cos, torch.cat([-sin[:, :half], sin[:, half:]], dim=-1)

    def _through(
        self,
        x_TN: Tensor,
        cos_T1D: Tensor,
        sin_T1D: Tensor,
        attend: Attend,
        seen: Seen | None = None,
        layers: Items[int] | None = None,
    ) -> Tensor:
        """Send tokens through all layers, or some; `seen` is given what stands between those that are its keys."""
        for number in range(len(self._layers)) if layers is None else layers:
            layer = self._layers[number]
            if seen and number in seen:
                seen[number].append(x_TN)
            q_THD, k_TGD, v_TGD = layer.project(x_TN, cos_T1D, sin_T1D)
            x_TN = layer.mix(x_TN, attend(number, q_THD, k_TGD, v_TGD, layer.scale, layer.window))
        if seen and len(self._layers) in seen:
            seen[len(self._layers)].append(normed(self._norm, x_TN))
        return x_TN

    def _say(self, x_RN: Tensor, norm: Norm | None = None) -> Tensor:
        """Return the logits `[R, V]` of finished rows, by the head behind the last norm or another one."""
        return self._head(normed(self._norm, x_RN) if norm is None else norm(x_RN))

    def _way(self, caches: Items[Row], counts: list[int], like: Tensor, trees: Items[Parents | None]) -> Attend:
        """Return how this forward attends: all rows at once where they lie, or one after the other."""
        paged = PagedRows.of(caches, counts, like.device, trees) if self.kernel else None
        if paged is not None:
            return paged.attend
        rows = zip(caches, counts, trees, strict=True)
        masks = [{w: self._mask(c, n, w, like, tree) for w in self._windows} for c, n, tree in rows]
        spans = [slice(end - count, end) for end, count in zip(accumulate(counts), counts, strict=True)]

        def gathered(layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float, window: int) -> Tensor:
            mixed = [
                attended(layer, cache, q[span], k[span], v[span], mask[window], scale)
                for cache, span, mask in zip(caches, spans, masks, strict=True)
            ]
            return _joined(mixed)

        return gathered

    def _turns(
        self, caches: Items[Row], counts: Items[int], like: Tensor, trees: Items[Parents | None]
    ) -> tuple[Tensor, Tensor]:
        """Return cos and sin `[T, 1, D]` of every token's position."""
        last = max(cache.pointer + count for cache, count in zip(caches, counts, strict=True))
        if last > len(self._cos_PD) or self._cos_PD.dtype != like.dtype or self._cos_PD.device != like.device:
            self._cos_PD, self._sin_PD = self.turns(max(256, 2 * last))
        spans = [
            slice(cache.pointer, cache.pointer + count)
            if tree is None
            else torch.tensor(positions(cache.pointer + count, tree)[cache.pointer :], device=like.device)
            for cache, count, tree in zip(caches, counts, trees, strict=True)
        ]
        cos_TD, sin_TD = (_joined([table[span] for span in spans]) for table in (self._cos_PD, self._sin_PD))
        return cos_TD[:, None], sin_TD[:, None]

    def _mask(self, cache: Row, count: int, window: int, like: Tensor, tree: Parents | None) -> Tensor | None:
        """Return what is added to the scores `[T, S]`, −inf where a key must not be read; None where all are read."""
        pointer, width = cache.pointer, cache.span(count)
        if tree is not None:
            hidden_TS = hidden(pointer, count, tree, window, like.device)
            hidden_TS = F.pad(hidden_TS, (0, width - pointer - count), value=True)
            return like.new_zeros(count, width).masked_fill_(hidden_TS, -torch.inf)
        if count == 1 and width == pointer + 1 and (window == 0 or width <= window):
            return None
        places_T1 = torch.arange(pointer, pointer + count, device=like.device)[:, None]
        keys_S = torch.arange(width, device=like.device)
        hidden_TS = keys_S > places_T1
        if window:
            hidden_TS = hidden_TS | (keys_S <= places_T1 - window)
        return like.new_zeros(count, width).masked_fill_(hidden_TS, -torch.inf)


def attended(
    layer: int, cache: Row, q_THD: Tensor, k_TGD: Tensor, v_TGD: Tensor, mask_TS: Tensor | None, scale: float
) -> Tensor:
    """Write keys and values; return softmax(q·k·scale + mask)·v over all that is readable, `[T, H·D]`."""
    k, v = cache.write(layer, k_TGD.transpose(0, 1)[None], v_TGD.transpose(0, 1)[None])
    grouped, q, rows = q_THD.shape[1] != k.shape[1], q_THD.transpose(0, 1)[None], len(q_THD)
    if rows == 1 and k.shape[2] >= _LONG and q.dtype in _NARROW and q.device.type == "cpu":
        q = q.expand(-1, -1, 2, -1)  # torch's 16-bit kernel takes longer for one row than for two
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask_TS, scale=scale, enable_gqa=grouped)
    return out[0, :, :rows].transpose(0, 1).reshape(rows, -1)


def _last(x_TN: Tensor, counts: Items[int], keeps: Items[int]) -> Tensor:
    """Return the last `keeps[b]` of the `counts[b]` tokens of each row, below each other."""
    return _joined([x_TN[end - keep : end] for end, keep in zip(accumulate(counts), keeps, strict=True)])


def _joined(parts: list[Tensor]) -> Tensor:
    """Return the parts below each other; one alone as it is, since a call of torch counts for a small model."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _parts(rows_RV: Tensor, keeps: Items[int]) -> list[Tensor]:
    """Return the rows of each sequence."""
    return [rows_RV] if len(keeps) == 1 else list(torch.split(rows_RV, list(keeps)))


def _hooked(module: nn.Module) -> bool:
    """Whether somebody watches or changes what goes through; what transformers leaves behind does neither.

    It hooks every layer when hidden states are first asked for, for good; the hooks then sleep until the next time.
    """
    before, behind = module._forward_pre_hooks, module._forward_hooks
    return bool(before) or any(getattr(hook, "__module__", "") != _SLEEPS for hook in behind.values())


def _linears(layer: Any) -> list[Any]:
    """Return the seven matrices of a layer of transformers."""
    attention, mlp = layer.self_attn, layer.mlp
    heads = [attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj]
    return [*heads, mlp.gate_proj, mlp.up_proj, mlp.down_proj]


@final
class Layer:
    """One layer's weights: two fused products, two plain ones, the norms."""

    def __init__(self, layer: Any, config: Any, number: int) -> None:
        attention = layer.self_attn
        self.scale = float(attention.scaling)
        self.window = _window(config, number)
        self._heads, self._groups = config.num_attention_heads, config.num_key_value_heads
        self._size = int(attention.head_dim)
        self._before, self._between = layer.input_layernorm, layer.post_attention_layernorm
        self._q_norm, self._k_norm = getattr(attention, "q_norm", None), getattr(attention, "k_norm", None)
        q, k, v, out, gate, up, down = _linears(layer)
        self._qkv, self._gate_up = Linear([q, k, v]), Linear([gate, up])
        self._out, self._down = Linear([out]), Linear([down])

    def project(self, x_TN: Tensor, cos_T1D: Tensor, sin_T1D: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return q `[T, H, D]`, k and v `[T, G, D]`, the first two turned to their positions."""
        both = self._heads + self._groups
        qkv = self._qkv(normed(self._before, x_TN)).view(len(x_TN), both + self._groups, self._size)
        qk = qkv[:, :both]
        if self._q_norm is not None:
            qk = torch.cat(
                [normed(self._q_norm, qk[:, : self._heads]), normed(self._k_norm, qk[:, self._heads :])], dim=1
            )
        turned = torch.addcmul(qk * cos_T1D, qk.roll(self._size // 2, -1), sin_T1D)
        return turned[:, : self._heads], turned[:, self._heads :], qkv[:, both:]

    def mix(self, x_TN: Tensor, attended: Tensor) -> Tensor:
        """Return the layer's output from its input and what attention found."""
        x_TN = x_TN + self._out(attended)
        gate, up = self._gate_up(normed(self._between, x_TN)).chunk(2, dim=-1)
        return x_TN + self._down(F.silu(gate) * up)


def _window(config: Any, number: int) -> int:
    """Return how many keys back a layer looks, 0 for all."""
    kinds, size = getattr(config, "layer_types", None), int(getattr(config, "sliding_window", None) or 0)
    slides = kinds[number] == "sliding_attention" if kinds else config.model_type == "mistral"
    return size if slides else 0


def normed(module: Any, x: Tensor) -> Tensor:
    """Divide by the root mean square, in float32 at least, and weigh: five operations in place of nine."""
    wide = torch.float32 if x.dtype in (torch.bfloat16, torch.float16) else x.dtype
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=wide)
    scale = torch.rsqrt(length.square_().div_(x.shape[-1]).add_(module.variance_epsilon))
    weighed: Tensor = module.weight * (x * scale).to(x.dtype)
    return weighed
