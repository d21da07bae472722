"""Kernels and their torch references: verification, attention over blocks, random numbers by counter, the error root.

Importing this package imports neither torch nor Triton: the functions are fetched when they are first named. It does
not know the engine, the models or the views.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specdec_kernels.attention import paged_attention
    from specdec_kernels.cache import advance_lengths, append_kv, compact_kv, rollback_lengths
    from specdec_kernels.logits import verify_chain_logits
    from specdec_kernels.verdict import Verdict
    from specdec_kernels.verify import verify_chain
    from specdec_kernels.workspace import Workspace, verify_workspace

__all__ = [
    "Verdict",
    "Workspace",
    "advance_lengths",
    "append_kv",
    "compact_kv",
    "paged_attention",
    "rollback_lengths",
    "verify_chain",
    "verify_chain_logits",
    "verify_workspace",
]

_HOMES = {
    "Verdict": "verdict",
    "Workspace": "workspace",
    "advance_lengths": "cache",
    "append_kv": "cache",
    "compact_kv": "cache",
    "paged_attention": "attention",
    "rollback_lengths": "cache",
    "verify_chain": "verify",
    "verify_chain_logits": "logits",
    "verify_workspace": "workspace",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
