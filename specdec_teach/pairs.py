"""Load a target and a draft that speak the same tokens: the embedded pair, a fetched model, or any other.

Invariant: a `Pair` that exists has one vocabulary, or says that its draft has another; two tokenizers that differ are
refused, with the first id that does, unless they were asked to meet in what they share.
It does not know engines.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from specdec_kernels.errors import InvalidInput, unknown_name
from specdec_teach import shelf

if TYPE_CHECKING:
    import torch

__all__ = ["EMBEDDED", "Pair", "load_pair"]

EMBEDDED = "embedded target"
"""The name of the embedded pair's target."""

_MEET = ("same", "shared")
_KINDS = ("float32", "bfloat16")


@final
@dataclass(frozen=True, slots=True)
class Pair:
    """Two causal LMs of transformers and their tokenizer. `draft` is None where there is no draft model.

    `draft_tokenizer`: the draft's own, where it is another one; `ModelDrafter` then takes both.
    """

    target: Any
    draft: Any
    tokenizer: Any
    draft_tokenizer: Any = None


def load_pair(
    target: str | None = None,
    draft: str | None = None,
    *,
    device: str | torch.device | None = None,
    dtype: torch.dtype | str | None = None,
    device_map: str | dict[str, Any] | None = None,
    tensor_parallel: bool = False,
    tokenizers: str = "same",
) -> Pair:
    """Load the embedded pair (no network), or models by path, hub id or the name of a fetched model ("smollm2").

    `device`: where to put both models (None: the CPU, or where transformers puts them). `dtype`: float32 unless given;
    a torch dtype or its name, or "auto": for each model float32 or bfloat16, whichever its part of a cycle is measured
    to be quicker in on this machine. For a target that is too big for one device: `device_map` ("auto", or as in
    transformers) lays its layers over several, `tensor_parallel` splits each layer over the processes that torchrun
    started (see `specdec_teach.distributed`); the draft then lies whole on the target's first device.
    `tokenizers`: "same" refuses a draft whose tokenizer has another token at an id; ids that one of them has more, or
    embeddings padded to other widths, are fine. "shared" takes any draft, for the tokens that both know
    (`sd.drafters_for`, or `sd.ModelDrafter` with both tokenizers).
    InvalidInput: a name that cannot be loaded or was not fetched, a `draft` without a `target`, two tokenizers that
    differ, or two ways to place the target.

    >>> pair = load_pair()
    >>> pair.target.dtype, pair.draft is None
    (torch.float32, False)
    """
    if tokenizers not in _MEET:
        raise unknown_name("tokenizers=", tokenizers, _MEET)
    placed = device_map is not None or tensor_parallel
    if placed:
        _can_place(target, device, dtype, device_map, tensor_parallel)
    if isinstance(dtype, str) and dtype == "auto":
        from specdec_teach.probe import fastest

        pairs = {
            kind: load_pair(target, draft, device=device, dtype=kind, device_map=device_map, tokenizers=tokenizers)
            for kind in _KINDS
        }
        return fastest(pairs)
    kind = _dtype(dtype)
    if target is None:
        if draft is not None:
            raise InvalidInput(
                f"draft={draft!r} was given without a target; name both, or neither for the embedded pair"
            )
        return _embedded(device or "cpu", kind)
    if placed:
        from specdec_teach.hf import load_any

        model, tokenizer = load_any(
            target, device=None, dtype=kind, device_map=device_map, tensor_parallel=tensor_parallel
        )
        device = None if model.device.type == "meta" else model.device
    else:
        model, tokenizer = _one(target, device, kind)
    if draft is None:
        return Pair(model, None, tokenizer)
    small, other = _one(draft, device, kind)
    return Pair(model, small, tokenizer, _other(tokenizer, other, tokenizers))


def _can_place(target: str | None, device: object, dtype: object, device_map: object, tensor_parallel: bool) -> None:
    """Refuse to spread a target that is not loaded through transformers, or that is spread in two ways."""
    if target is None or target in shelf.PARCELS:
        raise InvalidInput(
            f"{target or 'the embedded pair'} fits on one device; device_map= and tensor_parallel= are for a target "
            "that is named by a path or a hub id"
        )
    if device is not None or (device_map is not None and tensor_parallel):
        raise InvalidInput(
            f"device={device!r}, device_map={device_map!r}, tensor_parallel={tensor_parallel}; give one of them"
        )
    if not tensor_parallel:
        return
    if isinstance(dtype, str) and dtype == "auto":
        raise InvalidInput("dtype='auto' measures in each process, and they may differ; name a dtype")
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_initialized():
        raise InvalidInput(
            "tensor_parallel=True splits the target over processes, and there is only this one; load it inside "
            "`with sd.distributed.group():` in a script that torchrun starts"
        )


def _one(name: str, device: str | torch.device | None, dtype: torch.dtype) -> tuple[Any, Any]:
    if name in shelf.PARCELS:
        folder = shelf.require(name)
        from specdec_teach.hf import gguf

        return gguf.load(folder, device=device, dtype=dtype)
    from specdec_teach.hf import load_any

    return load_any(name, device=device, dtype=dtype)


def _embedded(device: str | torch.device, dtype: torch.dtype) -> Pair:
    from specdec_teach.hf import load_llama, load_tokenizer

    folder = Path(str(files("specdec_teach"))) / "weights"
    if not (folder / "target" / "model.safetensors").is_file():
        raise InvalidInput(f"the embedded pair is missing from {folder}; install the project again")
    models = []
    for role in ("target", "draft"):
        model = load_llama(folder / role, device=device, dtype=dtype)
        model.config.name_or_path = EMBEDDED if role == "target" else f"embedded {role}"
        digest = hashlib.sha256((folder / role / "model.safetensors").read_bytes()).hexdigest()
        model.config._commit_hash = digest[:12]
        models.append(model)
    return Pair(models[0], models[1], load_tokenizer(folder))


def _dtype(given: torch.dtype | str | None) -> torch.dtype:
    import torch

    found = torch.float32 if given is None else getattr(torch, given, None) if isinstance(given, str) else given
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise InvalidInput(
            f"dtype={given!r}; give 'auto' or a floating-point dtype of torch, such as 'float32' or 'bfloat16'"
        )
    return found


def _other(target: Any, draft: Any, tokenizers: str) -> Any:
    """Return the draft's tokenizer where it is another one, None where it is the target's; refuse it if it must be."""
    from specdec_teach.bridge import first_difference

    token = first_difference(target, draft)
    if token is not None and tokenizers == "same":
        ours, theirs = (one.convert_ids_to_tokens(token) for one in (target, draft))
        raise InvalidInput(
            f"the tokenizers differ at id {token}: {ours!r} in the target's, {theirs!r} in the draft's; a draft must "
            'speak the target\'s tokens, so choose one of the same family, or give tokenizers="shared" to draft what '
            "both know"
        )
    return None if target.get_vocab() == draft.get_vocab() else draft
