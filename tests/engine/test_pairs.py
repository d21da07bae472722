"""Loading pairs: the embedded one offline, others from a path through transformers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

import specdec_teach as sd
from specdec_teach import hf


def test_the_embedded_pair(pair: sd.Pair) -> None:
    """One vocabulary, float32, 512 positions or more, 20 MB on disk and 3 MB for each further drafter, an end token."""
    weights = Path(sd.__file__).parent / "weights"
    sizes = {path.relative_to(weights): path.stat().st_size for path in weights.rglob("*.safetensors")}
    assert sum(size for path, size in sizes.items() if path.parts[0] in ("target", "draft")) <= 20e6
    assert all(size <= 3e6 for path, size in sizes.items() if path.parts[0] not in ("target", "draft"))
    assert pair.target.config.vocab_size == pair.draft.config.vocab_size == len(pair.tokenizer)
    assert pair.target.dtype == pair.draft.dtype == torch.float32
    assert pair.target.config.max_position_embeddings >= 512
    assert pair.target.generation_config.eos_token_id == pair.tokenizer.eos_token_id is not None
    assert not pair.target.training


def test_any_text_survives_the_tokenizer(pair: sd.Pair) -> None:
    """Every character goes in and comes out: there is no unknown token."""
    for text in ("Once upon a time", "naïve café — “quotes”", "狐狸 🦊\n\ttab", "x" * 300):
        assert pair.tokenizer.decode(pair.tokenizer(text).input_ids) == text


def test_the_direct_loader_gives_what_transformers_gives(pair: sd.Pair) -> None:
    """Same logits as from_pretrained, to the last bit."""
    folder = Path(sd.__file__).parent / "weights" / "target"
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.tensor([pair.tokenizer("Once upon a time there was a fox").input_ids])
    with torch.inference_mode():
        assert torch.equal(pair.target(ids).logits, theirs(ids).logits)


def test_another_pair_from_a_path(pair: sd.Pair, tmp_path: Path) -> None:
    """Folders that save_pretrained wrote; the same text as the embedded pair."""
    for name, model in (("t", pair.target), ("d", pair.draft)):
        model.save_pretrained(tmp_path / name)
        pair.tokenizer.save_pretrained(tmp_path / name)
    other = sd.load_pair(str(tmp_path / "t"), draft=str(tmp_path / "d"))
    alone = sd.load_pair(str(tmp_path / "t"), dtype="bfloat16")
    assert alone.draft is None
    assert alone.target.dtype == torch.bfloat16
    runs = [
        sd.Engine(p.target, drafter=sd.ModelDrafter(p.draft), tokenizer=p.tokenizer).generate(
            "Once upon a time", sd.Sampling(temperature=0.8, seed=3), max_new_tokens=24
        )
        for p in (pair, other)
    ]
    assert runs[0].text == runs[1].text
    assert runs[1].trace is not None
    assert runs[1].trace.meta.dtype == "float32"


def test_weights_that_do_not_fit_their_config(tmp_path: Path) -> None:
    """A damaged folder is refused by name."""
    shape = {"vocab_size": 8, "hidden_size": 8, "intermediate_size": 8}
    shape |= {"num_hidden_layers": 1, "num_attention_heads": 1}
    (tmp_path / "config.json").write_text(json.dumps(shape))
    save_file({"other": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(sd.InvalidInput, match="does not hold the weights"):
        hf.load_llama(tmp_path)
