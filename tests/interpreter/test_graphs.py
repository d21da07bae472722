"""Recorded cycles with the interpreted kernels in them: attention over the fixed memory, and the verdict."""

from __future__ import annotations

import pytest
import torch

import specdec_teach as sd
from specdec_teach.decoder import CompactDecoder
from specdec_teach.graphs import Graphs
from specdec_teach.graphs.board import Board, Standing
from specdec_teach.graphs.model import FixedModel

from ..engine.test_decoder import model_of
from ..graphs.tape import Tape


@pytest.mark.parametrize("name", ["llama", "mistral, window", "qwen3, window"])
def test_a_fixed_forward_says_what_the_twin_says(name: str) -> None:
    """The kernel and torch over one memory, at lengths that no record knows, with NaN behind what counts."""
    model = model_of(name)
    said = []
    for backend in ("triton", "torch"):
        board = Board(64, torch.device("cpu"))
        with torch.inference_mode():
            fixed = FixedModel(CompactDecoder(model, backend), 64, board, board.target, Tape())
            rows = []
            for count, start in ((3, 0), (1, 3), (3, 2), (3, 12), (1, 5)):
                board.write([(7 * at) % 60 for at in range(20)], Standing(20, start, 0, 0), 0)
                replay = fixed.forward(count, count)
                board.write([(7 * at) % 60 for at in range(20)], Standing(20, start, 0, 0), 0)
                fixed._store.fill(slice(start, None), torch.nan)
                if start == 12:
                    fixed._store.fill(slice(5, 12), 0.5)
                replay()
                assert board.target.tolist() == [start + count]
                rows.append(fixed.logits(count).clone())
        said.append(rows)
    for ours, theirs in zip(*said, strict=True):
        assert ours.isfinite().all()
        assert torch.allclose(ours, theirs, atol=2e-5)


@pytest.mark.parametrize("rule", ["rejection", "coupled"])
def test_an_engine_of_kernels_alone(rule: str) -> None:
    """Target, draft and verdict by kernels, recorded; the same text as the general way by the same kernels."""
    for sampling in (sd.Sampling.greedy(), sd.Sampling(seed=5, temperature=0.8, top_p=0.9)):
        texts = []
        for tape in (Tape(), None):
            drafter = sd.ModelDrafter(sd.testing.tiny_llama(noise=0.1))
            drafter.runner._backend = "triton"
            engine = sd.Engine(sd.testing.tiny_llama(), drafter=drafter, gamma=2, verify=rule, backend="triton")
            engine.graphs = None if tape is None else Graphs(tape)
            texts.append(engine.generate([1, 2], sampling, max_new_tokens=12).tokens)
            if engine.graphs is not None:
                assert (engine.graphs.why, engine.graphs.cycles > 2) == (None, True)
        assert texts[0] == texts[1]
