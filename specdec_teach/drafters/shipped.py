"""The heads that come with the embedded target: their weights, and whether they belong to a model.

Invariant: weights are handed out only for the very target they were trained for, told by the beginning of the SHA-256
of its weights file. It does not know how heads draft.
"""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from specdec_kernels.errors import InvalidInput, unknown_name
from specdec_teach.drafters.networks import HeadNetwork, HeadShape, MedusaNetwork, MedusaShape
from specdec_teach.hf import load_tensors

__all__ = ["KINDS", "belongs", "present", "shipped"]

KINDS = ("head", "head3", "medusa")


def shipped(kind: str, target: Any) -> tuple[HeadNetwork | MedusaNetwork, str]:
    """Return the network of the shipped head `kind` and its revision; InvalidInput when `target` is another model."""
    if kind not in present():
        raise unknown_name("kind", kind, present())
    folder = _weights() / kind
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    given = str(getattr(target.config, "_commit_hash", None) or "local")
    if given != config["target"]:
        raise InvalidInput(
            f"the {kind} that comes with the package was trained for the embedded target {config['target']}, and this "
            f"is {target.config.name_or_path or type(target).__name__} {given}; give load_pair()'s, or train one"
        )
    network: HeadNetwork | MedusaNetwork
    sizes = {name: value for name, value in config.items() if name not in ("kind", "target")}
    sizes["features"] = tuple(sizes["features"])
    network = MedusaNetwork(MedusaShape(**sizes)) if kind == "medusa" else HeadNetwork(HeadShape(**sizes))
    tensors, _ = load_tensors(folder / "model.safetensors")
    network.load_state_dict({name: value.float() for name, value in tensors.items()})
    return network, hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()[:12]


def present() -> tuple[str, ...]:
    """Return the kinds of head whose weights lie in the package."""
    return tuple(kind for kind in KINDS if (_weights() / kind / "model.safetensors").is_file())


def belongs(kind: str, target: Any) -> bool:
    """Return whether there is a shipped head `kind` for this very target."""
    if kind not in present():
        return False
    config = json.loads((_weights() / kind / "config.json").read_text(encoding="utf-8"))
    return bool(getattr(target.config, "_commit_hash", None) == config["target"])


def _weights() -> Path:
    return Path(str(files("specdec_teach"))) / "weights"
