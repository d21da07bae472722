"""Run any causal LM of transformers on our caches.

Feed each sequence its tokens at its write pointer, get the logits rows that were asked for. The Llama family runs on
the compact decoder, everything else through transformers: masks are made by it, so windowed attention works too, all
keys stay in the cache and the window lives in the mask. Sequences of different lengths share a forward, and a model
that would mistake the padding for tokens is fed row by row. One with a state of its own is fed by `states`.
Invariant: after a forward every pointer stands as many tokens further as were fed, or the caches are as they were.
It does not know proposals, verification or sampling.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence as Items
from functools import cached_property
from typing import Any, cast, final

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import Cache as TransformersCache
from transformers.cache_utils import DummyLayer, DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from specdec_kernels.errors import EngineFailure, InvalidInput, shown, unknown_name
from specdec_teach.caches import KINDS, BlockPool, Cache, SnapshotCache, new_cache
from specdec_teach.decoder import CompactDecoder, Norm
from specdec_teach.hf.rows import RowsLayer
from specdec_teach.hf.trees import follows_trees, masks_of, places
from specdec_teach.hidden import Hidden
from specdec_teach.stash import Stash
from specdec_teach.states import StateFeeder
from specdec_teach.tree import Parents
from specdec_teach.trial import cache_argument, context_of, differs, mixes_tokens, probe_ids

__all__ = ["DECODERS", "ModelRunner"]

DECODERS = ("auto", "compact", "hf")
_KEYS_ONLY = (DynamicLayer, DynamicSlidingWindowLayer, DummyLayer)


@final
class ModelRunner:
    """A causal LM that can be fed at a cache's pointer and rolled back.

    `rolls_back`: its caches rewind to any position; a model with a state of its own gets snapshots. `shares`: rows of
    different lengths share a forward, or else have one each. `at_once`: several tokens of a row fit in a forward.
    `decoder`: "compact" for the Llama family, "hf" for transformers' own forward, which that name forces; `backend`:
    who attends over paged caches in the compact one. `compact`: the former, None while the latter runs.
    InvalidInput when `model` is no causal LM of transformers, takes no cache, answers otherwise with a cache than
    without, keeps a state that cannot be restored, mixes the tokens of a forward, or is in training mode.
    """

    def __init__(self, model: object, role: str, *, decoder: str = "auto", backend: str = "auto") -> None:
        if decoder not in DECODERS:
            raise unknown_name("decoder=", decoder, DECODERS)
        if not isinstance(model, PreTrainedModel) or not hasattr(model, "get_output_embeddings"):
            raise InvalidInput(
                f"the {role} is a {type(model).__name__}; give a causal language model of transformers, "
                "such as load_pair().target"
            )
        config = model.config.get_text_config(decoder=True)
        if model.config.is_encoder_decoder:
            raise InvalidInput(
                f"the {role} {type(model).__name__} is an encoder-decoder model; give a decoder-only one"
            )
        if model.training:
            raise InvalidInput(f"the {role} is in training mode, where dropout changes its answers; call .eval() on it")
        parameters = inspect.signature(model.forward).parameters
        if cache_argument(parameters) is None:
            raise InvalidInput(
                f"the {role} {type(model).__name__} takes no cache, so it cannot be fed at a pointer; "
                "give a model whose forward takes past_key_values"
            )
        if mixes_tokens(model, int(config.vocab_size)):
            raise InvalidInput(
                f"the {role} {type(model).__name__} quantises activations by a scale of the whole forward, so what it "
                "says after a token depends on the tokens behind it; quantise its weights alone, or each token alone"
            )
        self.model = model
        self.layers = int(config.num_hidden_layers)
        self.vocab = int(config.vocab_size)
        self.context = context_of(config)
        self.name = str(model.config.name_or_path or type(model).__name__)
        self.revision = str(getattr(model.config, "_commit_hash", None) or "local")
        self.dtype = str(model.dtype).removeprefix("torch.")
        self.rolls_back = not model._is_stateful and _keeps_only_keys(config)
        self._positions, self._rows = "position_ids" in parameters, "logits_to_keep" in parameters
        self._states = None if self.rolls_back else StateFeeder(model, role, self.vocab)
        self.at_once = self._states is None or self._states.at_once
        self.decoder = "compact" if decoder != "hf" and CompactDecoder.fits(model) else "hf"
        if decoder == "compact" and self.decoder == "hf":
            raise InvalidInput(
                f"decoder='compact' does not know the {role} {type(model).__name__}, its weights or its hooks; "
                "leave decoder= out"
            )
        self._backend = backend
        self.compact: CompactDecoder | None = None
        self._weights: tuple[tuple[int, int], ...] = ()
        self.shares = self.rolls_back and (self._positions or self._tried(role))

    @cached_property
    def branches(self) -> bool:
        """Whether the nodes of a draft tree fit in one forward; a model of transformers is tried out once."""
        if self._states is not None or not self._positions:
            return False
        return self.decoder == "compact" or follows_trees(self)

    def layout(self, kind: str) -> str:
        """Return the kind of cache that a sequence gets where `kind` is asked for.

        InvalidInput for an unknown kind, and for one that this model cannot have.
        """
        if self.rolls_back:
            if kind not in KINDS:
                raise unknown_name("cache=", kind, KINDS)
            if kind == "masked" and not self.shares:
                raise InvalidInput(
                    f"cache='masked' leaves stale keys in front, and {type(self.model).__name__} counts its positions "
                    "by what lies in front; give another cache"
                )
            return kind
        if kind not in ("contiguous", "snapshot"):
            raise InvalidInput(
                f"cache={shown(kind)} holds keys and values by slot, and {type(self.model).__name__} keeps a state "
                "that has none; give 'snapshot', or leave cache= out"
            )
        return "snapshot"

    def new_cache(self, capacity: int, kind: str = "contiguous", pool: BlockPool | None = None) -> Cache:
        """Return an empty cache for one sequence of at most `capacity` tokens."""
        self.refresh()
        return new_cache(self.layout(kind), capacity, pool)

    def forward(self, cache: Cache, ids: list[int], keep: int) -> Tensor:
        """Feed `ids` at the pointer of `cache` and return the logits `[keep, V]` of the last `keep` of them.

        EngineFailure when there are fewer ids than rows wanted: the pointer has run ahead of the committed tokens.
        """
        return self.forward_rows([cache], [ids], [keep])[0]

    def forward_rows(
        self,
        caches: list[Cache],
        ids: list[list[int]],
        keeps: list[int],
        hidden: Items[Hidden | None] = (),
        trees: Items[Parents | None] | None = None,
        stashes: Items[Stash | None] | None = None,
    ) -> list[Tensor]:
        """Feed every sequence its own `ids`; return for each the logits `[keep, V]` of its last `keep`.

        One forward serves all of them where the model `shares`. Rows may differ in length and in pointer. All caches
        move, or none does. `hidden`: for each sequence who takes its hidden states, all the same layers; or None.
        `trees`: for each row the shape of a draft tree that its last tokens are, or None, for a runner that `branches`.
        `stashes`: for each row what `stop_early` has made of these ids and need not be made again, or None.
        EngineFailure as for `forward`.
        """
        trees = [None] * len(caches) if trees is None else trees
        for cache, fed, keep in zip(caches, ids, keeps, strict=True):
            if len(fed) < max(keep, 1):
                raise EngineFailure(
                    f"{keep} rows were asked of {len(fed)} tokens; the cache's pointer {cache.pointer} has run ahead"
                )
        for cache, fed in zip(caches, ids, strict=True):
            cache.reserve(len(fed))
        rows = list(zip(caches, ids, keeps, strict=True))
        seen: dict[int, list[Tensor]] = {layer: [] for one in hidden if one is not None for layer in one.layers}
        with torch.inference_mode():
            if self._states is not None:
                return self._by_state(self._states, rows)
            if self.compact is not None:
                logits = self.compact(caches, ids, keeps, seen, trees, stashes)
            elif self.shares or len(caches) == 1:
                logits = self._run(caches, ids, keeps, seen, trees)
            else:
                logits = [self._run([cache], [fed], [keep], seen, [None])[0] for cache, fed, keep in rows]
            for row, (one, cache) in enumerate(zip(hidden, caches, strict=False)):
                if one is not None:
                    one.put(cache.pointer, torch.cat([seen[layer][row] for layer in one.layers], dim=-1))
        for cache, fed in zip(caches, ids, strict=True):
            cache.advance(len(fed))
        return logits

    def check_layers(self, layers: tuple[int, ...]) -> None:
        """Refuse hidden states that this model does not have, or cannot hand on."""
        wrong = next((layer for layer in layers if not 0 <= layer <= self.layers), None)
        if wrong is not None:
            raise InvalidInput(
                f"the drafter reads hidden state {wrong} and the target has 0 to {self.layers}; give a drafter that "
                "was made for this target"
            )
        if layers and not self.rolls_back:
            raise InvalidInput(
                f"the drafter reads hidden states, and {type(self.model).__name__} keeps a state of its own, whose "
                "snapshots hold none; give another drafter"
            )

    def stash(self, cache: Cache, layers: int) -> Stash | None:
        """Return an empty stash at the pointer of `cache`, None where the forward cannot stop between two layers."""
        return None if self.compact is None else Stash(cache, layers, self.compact)

    def stop_early(self, stashes: list[Stash], ids: list[list[int]], norm: Norm | None = None) -> list[Tensor]:
        """Feed every stash its own `ids` in its layers alone; return the logits `[1, V]` behind the last of them.

        They are the target's head's, behind `norm` (None: the target's last norm). No cache moves; it has room made.
        """
        for stash, fed in zip(stashes, ids, strict=True):
            stash.cache.reserve(len(stash.tokens) + len(fed))
        with torch.inference_mode():
            return cast(CompactDecoder, stashes[0].maker).stop_early(stashes, ids, norm)

    def refresh(self) -> None:
        """Look at the model again before a request begins: its weights or hooks may have changed."""
        if self.decoder == "hf":
            return
        weights = tuple((w.data_ptr(), 0 if w.is_inference() else w._version) for w in self.model.parameters())
        if not CompactDecoder.fits(self.model):
            self.compact = None
        elif self.compact is None or weights != self._weights:
            self.compact, self._weights = CompactDecoder(self.model, self._backend), weights

    def _run(
        self,
        caches: list[Cache],
        ids: list[list[int]],
        keeps: list[int],
        seen: dict[int, list[Tensor]],
        trees: Items[Parents | None],
    ) -> list[Tensor]:
        """Run one forward over all rows; no cache moves. `seen` is given each row's hidden states `[T, N]`."""
        counts = [len(fed) for fed in ids]
        longest, past = max(counts), max(c.span(n) - n for c, n in zip(caches, counts, strict=True))
        mask: object = None
        if any(tree is not None for tree in trees):
            mask = masks_of(self.model, caches, counts, trees, past)
        elif len(caches) > 1 or past != caches[0].pointer:
            mask = self._mask(caches, counts, longest, past)
        first = min([n - keep for n, keep in zip(counts, keeps, strict=True) if keep], default=longest - 1)
        device = self.model.device
        given: dict[str, Any] = {"logits_to_keep": longest - first} if self._rows else {}
        if seen:
            given["output_hidden_states"] = True
        if self._positions:
            given["position_ids"] = torch.tensor(places(caches, counts, trees, longest), device=device)
        out = self.model(
            input_ids=torch.tensor([fed + fed[-1:] * (longest - len(fed)) for fed in ids], device=device),
            attention_mask=mask,
            past_key_values=TransformersCache(
                layers=[RowsLayer(caches, layer, counts, past) for layer in range(self.layers)]
            ),
            use_cache=True,
            **given,
        )
        logits: Tensor = out.logits
        if logits.dim() != 3 or logits.shape[1] < longest - first:
            raise EngineFailure(
                f"{self.name} returned logits of shape {tuple(logits.shape)}; "
                f"expected [{len(caches)}, {longest - first}, V]"
            )
        if seen and not getattr(out, "hidden_states", None):
            raise EngineFailure(f"{self.name} hands out no hidden states, and the drafter reads them; give another one")
        for layer, states in seen.items():
            states_BTN = out.hidden_states[layer].to(logits.device)
            states.extend(states_BTN[row, :count] for row, count in enumerate(counts))
        start = longest - logits.shape[1]
        return [logits[r, n - keep - start : n - start] for r, (n, keep) in enumerate(zip(counts, keeps, strict=True))]

    def _by_state(self, states: StateFeeder, rows: list[tuple[Cache, list[int], int]]) -> list[Tensor]:
        """Feed rows whose caches hold whole states, one row after the other."""
        made = [states.feed(cast(SnapshotCache, cache), fed, keep) for cache, fed, keep in rows]
        for (cache, _, _), (steps, _) in zip(rows, made, strict=True):
            for count, state in steps:
                cast(SnapshotCache, cache).put(state)
                cache.advance(count)
        return [logits for _, logits in made]

    def _mask(self, caches: list[Cache], counts: list[int], longest: int, past: int) -> Tensor:
        """Return which keys are real, int64 `[B, past + T]`: neither padding nor stale."""
        rows = [
            [0] * (past - cache.pointer) + [1] * (cache.pointer + count) + [0] * (longest - count)
            for cache, count in zip(caches, counts, strict=True)
        ]
        return torch.tensor(rows, device=self.model.device)

    @torch.inference_mode()
    def _tried(self, role: str) -> bool:
        """Try a model that is not told positions: whether rows of two lengths come out of a shared forward as alone.

        InvalidInput when it answers otherwise with a cache than without.
        """
        ids = probe_ids(9, self.vocab)
        rows = [(ids[3:], 1), (ids, 5)]
        try:
            fresh = [self.model(input_ids=torch.tensor([row], device=self.model.device)).logits[0] for row, _ in rows]
            alone, together = self._twice(rows, shares=False), self._twice(rows, shares=True)
        except Exception as error:  # whatever a strange model throws is a reason to refuse it
            raise InvalidInput(
                f"the {role} {type(self.model).__name__} fails when it is fed at a pointer ({shown(error)}); "
                "give another model"
            ) from None
        if any(differs(a, f[-len(a) :]) for a, f in zip(alone, fresh, strict=True)):
            raise InvalidInput(
                f"the {role} {type(self.model).__name__} answers otherwise with a cache than without, so what it says "
                "after a rejection cannot be trusted; give another model"
            )
        return not any(differs(t, a) for t, a in zip(together, alone, strict=True))

    def _twice(self, rows: list[tuple[list[int], int]], *, shares: bool) -> list[Tensor]:
        """Feed each row up to its split, then the rest; return the logits of the rest."""
        self.shares = shares
        caches: list[Cache] = [new_cache("contiguous", len(row)) for row, _ in rows]
        self.forward_rows(caches, [row[:split] for row, split in rows], [0] * len(rows))
        return self.forward_rows(caches, [row[n:] for row, n in rows], [len(row) - n for row, n in rows])


def _keeps_only_keys(config: Any) -> bool:
    """Whether transformers itself would keep nothing but keys and values for such a model."""
    return all(type(layer) in _KEYS_ONLY for layer in DynamicCache(config=config).layers)
