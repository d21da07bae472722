"""Engines that are alike but for the way their cycles run."""

from __future__ import annotations

from typing import Any

import specdec_teach as sd
from specdec_teach.graphs import Graphs
from specdec_teach.rules import rule_of
from specdec_teach.rules.kernel import ByKernel

from .tape import Tape

SAMPLINGS = {
    "greedy": sd.Sampling(temperature=0.0, seed=0),
    "drawn": sd.Sampling(seed=2**63 + 5),
    "filtered": sd.Sampling(seed=11, temperature=0.7, top_k=20, top_p=0.9, min_p=0.02),
}


def engine(
    tape: Tape | None, *, rule: str = "rejection", noise: float = 0.1, gamma: int = 3, **given: Any
) -> sd.Engine:
    """A tiny pair, judged by the kernels' reference; on a tape, or the general way."""
    mode, draft = given.pop("mode", "sample"), given.pop("draft", None) or sd.testing.tiny_llama(noise=noise)
    target = given.pop("target", None) or sd.testing.tiny_llama()
    made = sd.Engine(target, drafter=sd.ModelDrafter(draft, mode=mode), gamma=gamma, debug=True, **given)
    made.rule = ByKernel(rule_of(rule), "torch")
    made.graphs = None if tape is None else Graphs(tape)
    return made


def told(result: sd.Result) -> dict[str, Any]:
    """Everything that a result's trace says but for the time it took."""
    assert result.trace is not None
    plain: dict[str, Any] = result.trace.to_dict()
    plain["prefill"].pop("seconds")
    for cycle in plain["cycles"]:
        cycle.pop("seconds")
    return plain


def assert_alike(ours: Any, theirs: Any, where: str = "trace") -> None:
    """Equal but for the last bits of a float; the order of equally likely tokens is left open."""
    if isinstance(theirs, float):
        assert abs(ours - theirs) <= 1e-4, where
    elif isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), where
        for key, value in theirs.items():
            if key not in ("pieces", "p_top", "q_top", "residual_top", "last_top", "bars"):
                assert_alike(ours[key], value, f"{where}.{key}")
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs), where
        for at, pair in enumerate(zip(ours, theirs, strict=True)):
            assert_alike(*pair, f"{where}[{at}]")
    else:
        assert ours == theirs, where
