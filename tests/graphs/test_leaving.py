"""What is left to the general way, what happens when recording fails, and mistakes that a tape has to find."""

from __future__ import annotations

import ctypes
import warnings
from typing import Any

import pytest
import torch

import specdec_teach as sd
from specdec_kernels import philox
from specdec_teach import noise
from specdec_teach.graphs import Graphs, Replayed, draw
from specdec_teach.graphs.board import Board
from specdec_teach.graphs.model import FixedModel
from specdec_teach.graphs.steps import Steps

from .cases import SAMPLINGS, engine
from .tape import Tape


def text(made: sd.Engine, sampling: sd.Sampling, prompt: Any = (1, 2), **given: Any) -> tuple[int, ...]:
    return made.generate(list(prompt), sampling, **{"max_new_tokens": 16} | given).tokens


def test_where_recording_fails_there_is_one_warning_and_the_general_way() -> None:
    """At each of the five records: the same text, one warning that says why, and never again."""
    right = text(engine(None), SAMPLINGS["drawn"])
    for breaks in range(1, 6):
        tape = Tape(breaks)
        made = engine(tape)
        with pytest.warns(RuntimeWarning, match="operation not permitted when stream is capturing") as seen:
            assert text(made, SAMPLINGS["drawn"]) == right
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert text(made, SAMPLINGS["drawn"]) == right
        assert len(seen) == 1
        assert tape.recorded == breaks
        assert made.graphs is not None
        assert "capturing" in (made.graphs.why or "")


@pytest.mark.parametrize(
    ("given", "sampling", "call"),
    [
        ({}, sd.Sampling(seed=1, repetition_penalty=1.3), {}),
        ({}, sd.Sampling(seed=1, banned=((3,),)), {}),
        ({"cache": "paged"}, sd.Sampling(seed=1), {}),
        ({"cache": "masked"}, sd.Sampling(seed=1), {}),
        ({"decoder": "hf"}, sd.Sampling(seed=1), {}),
        ({"rule": "block"}, sd.Sampling(seed=1), {}),
        ({}, sd.Sampling(seed=1), {"reject_at": 2}),
        ({"draft": sd.testing.tiny_llama(vocab=60)}, sd.Sampling(seed=1), {}),
    ],
)
def test_what_takes_the_general_way(given: dict[str, Any], sampling: sd.Sampling, call: dict[str, Any]) -> None:
    tape = Tape()
    found, right = (text(engine(it, **given), sampling, **call) for it in (tape, None))
    assert found == right
    assert tape.recorded == 0


def test_a_batch_takes_the_general_way() -> None:
    tape = Tape()
    made = engine(tape)
    results = made.generate([[1, 2], [3, 4]], SAMPLINGS["drawn"], max_new_tokens=8)
    assert len(results) == 2
    assert tape.recorded == 0


def test_enumeration_takes_the_general_way() -> None:
    """Every chance is a branch there, and none is drawn on a device."""
    tape = Tape()
    made = engine(tape, target=sd.testing.tiny_llama(vocab=3), draft=sd.testing.tiny_llama(1, vocab=3), gamma=1)
    law = sd.exact_law(made, [0, 1], 2, sd.Sampling())
    assert sum(law.values()) == pytest.approx(1.0)
    assert tape.recorded == 0


@pytest.mark.parametrize("who", ["target", "draft"])
@pytest.mark.parametrize("sampling", ["greedy", "drawn"])
def test_what_cannot_be_judged_is_said_by_the_general_way(who: str, sampling: str) -> None:
    """A model whose weights turn to NaN between two requests: the message is that of the general way."""
    messages = []
    for tape in (Tape(), None):
        models = {"target": sd.testing.tiny_llama(), "draft": sd.testing.tiny_llama(noise=0.1)}
        made = engine(tape, **models)
        text(made, SAMPLINGS[sampling])
        with torch.no_grad():
            models[who].lm_head.weight[7] = torch.nan
        with pytest.raises(sd.EngineFailure, match="not numbers") as failed:
            text(made, SAMPLINGS[sampling])
        messages.append(str(failed.value))
    assert messages[0] == messages[1]


def test_new_weights_are_recorded_anew() -> None:
    """A record holds the weights it was made with; a request that finds others makes another."""
    target = sd.testing.tiny_llama()
    tape = Tape()
    made = engine(tape, target=target, noise=0.0)
    before = text(made, SAMPLINGS["greedy"])
    with torch.no_grad():
        target.lm_head.weight.copy_(sd.testing.tiny_llama(5).lm_head.weight)
    after = text(made, SAMPLINGS["greedy"])
    assert after == text(engine(None, target=target, noise=0.0), SAMPLINGS["greedy"]) != before
    assert tape.recorded >= 9  # a draft that is never all accepted does not catch up by two


def test_a_longer_request_gets_a_larger_memory() -> None:
    """Until then one record serves all; requests shorter than the longest do not shrink it."""
    target, draft = (sd.testing.tiny_llama(noise=n, context=1024) for n in (0.0, 0.0))
    tape = Tape()
    made, other = engine(tape, target=target, draft=draft), engine(None, target=target, draft=draft)
    for length, records in ((4, 5), (200, 5), (300, 10), (4, 10)):
        prompt = [1 + n % 60 for n in range(length)]
        assert text(made, SAMPLINGS["greedy"], prompt) == text(other, SAMPLINGS["greedy"], prompt)
        assert tape.recorded == records


def test_a_variant_records_for_itself() -> None:
    """Two engines with one set of records would take each other's memory all the time."""
    made = engine(Tape())
    assert made.graphs is not made.variant(gamma=2).graphs
    assert engine(None).variant(gamma=2).graphs is None
    assert sd.faults.inject(made, sd.faults.names()[0]).graphs is None
    assert sd.Engine(sd.testing.tiny_llama()).graphs is None, "there is no GPU here"


def test_without_a_graph_the_work_is_run_again() -> None:
    made = engine(None)
    made.graphs = Graphs(Replayed())
    assert text(made, SAMPLINGS["drawn"]) == text(engine(None), SAMPLINGS["drawn"])
    assert made.graphs.cycles > 2


@pytest.mark.parametrize("width", [5, 64, 4096, 4097, 5000, 6144])
def test_a_device_draws_what_the_host_draws(width: int) -> None:
    """The same number at the same row: ends of the range, empty tokens, parts that are not full."""
    random = torch.Generator().manual_seed(width)
    weights_V = torch.rand(width, generator=random) ** 8
    weights_V[torch.rand(width, generator=random) < 0.3] = 0.0
    weights_V[1] = 0.5
    for number in range(300):
        seed = (number * 0x9E3779B97F4A7C15) % 2**64
        u = philox.uniform(seed, noise.StreamId.DRAFT, number)
        signed = seed - 2**64 if seed >= 2**63 else seed
        u_1 = draw.uniform(torch.tensor([signed]), noise.StreamId.DRAFT, torch.tensor([number]))
        assert float(u_1) == u
        assert int(draw.pick(weights_V, u_1)) == noise.pick(weights_V, u)
        coupled = draw.pick_coupled(weights_V, torch.tensor([signed]), torch.tensor([number]))
        assert int(coupled) == noise.CoupledNoise(seed).draw(noise.StreamId.DRAFT, number, weights_V)
    for u in (2.0**-52, 1.0 - 2.0**-52):
        token = int(draw.pick(weights_V, torch.tensor([u], dtype=torch.float64)))
        assert token == noise.pick(weights_V, u)
        assert weights_V[token] > 0
    lost = draw.pick(torch.full_like(weights_V, torch.nan), torch.tensor([0.5], dtype=torch.float64))
    assert 0 <= int(lost) < width


def _baked_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions that start at a Python number, read where no guard looks."""
    honest = Board.places

    def places(board: Board, start_1: torch.Tensor, count: int) -> torch.Tensor:
        start = ctypes.c_int64.from_address(start_1.data_ptr()).value
        return honest(board, torch.full_like(start_1, start), count)

    monkeypatch.setattr(Board, "places", places)


def _baked(name: str) -> Any:
    """A number of the board that is read when the verdict or the draw is recorded, past every guard."""

    def mistake(monkeypatch: pytest.MonkeyPatch) -> None:
        for way in ("_draw", "_verdict"):
            honest = getattr(Steps, way)

            def broken(steps: Steps, *given: Any, honest: Any = honest) -> Any:
                kept, fixed = getattr(steps.board, name), getattr(steps.board, name).clone()
                inner = honest(steps, *given)

                def work() -> None:
                    setattr(steps.board, name, fixed)
                    inner()
                    setattr(steps.board, name, kept)

                return work

            monkeypatch.setattr(Steps, way, broken)

    return mistake


def _unmoved_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    """A draft that never catches up by two: it feeds the last token alone."""
    honest = FixedModel.forward
    monkeypatch.setattr(
        FixedModel, "forward", lambda model, count, keep: honest(model, 1 if keep == 1 else count, keep)
    )


def _reads_what_lies_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention that sees one slot past its own token."""
    from specdec_teach.graphs import model

    honest = model._attend
    monkeypatch.setattr(model, "_attend", lambda q, k, v, places, *rest: honest(q, k, v, places + 1, *rest))


MISTAKES = {
    "length": _baked_length,
    "seed": _baked("seed"),
    "number": _baked("number"),
    "committed": _baked("committed"),
    "draft": _baked("draft"),
    "no catch-up": _unmoved_draft,
    "attention": _reads_what_lies_behind,
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these gives another text, or a broken invariant."""
    right = [text(engine(None), sd.Sampling(seed=seed, temperature=0.7), max_new_tokens=30) for seed in range(3)]
    MISTAKES[name](monkeypatch)
    made = engine(Tape())
    try:
        found = [text(made, sd.Sampling(seed=seed, temperature=0.7), max_new_tokens=30) for seed in range(3)]
    except (sd.EngineFailure, AssertionError):
        found = []
    assert found != right


@pytest.mark.parametrize("read", ["item", "tolist", "numpy", "bool"])
def test_a_read_while_recording_is_refused(read: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a capture would: the engine then goes on without."""
    honest = Board.read

    def nosy(board: Board, place_1: torch.Tensor, count: int) -> torch.Tensor:
        _ = bool(place_1 > 0) if read == "bool" else getattr(place_1, read)()
        return honest(board, place_1, count)

    monkeypatch.setattr(Board, "read", nosy)
    made = engine(Tape())
    with pytest.warns(RuntimeWarning, match="cycles cannot be recorded"):
        assert text(made, SAMPLINGS["drawn"]) == text(engine(None), SAMPLINGS["drawn"])


def test_a_mask_or_host_data_while_recording_is_refused() -> None:
    for work in (
        lambda: torch.arange(4)[torch.arange(4) > 2],
        lambda: torch.arange(4).nonzero(),
        lambda: torch.tensor([1, 2]),
        lambda: torch.zeros(3).resize_(5),
    ):
        with pytest.raises(RuntimeError, match="while recording"):
            Tape().record(work)  # type: ignore[arg-type]
