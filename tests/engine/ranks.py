"""What one of several processes does in `test_distributed`: `python ranks.py FOLDER ACT`, started once for each rank.

It loads the pair in FOLDER, the target split over the processes, runs ACT, and leaves `rank<N>.json` in FOLDER.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import specdec_teach as sd
from specdec_teach.drafters.base import Proposal
from specdec_teach.noise import CounterNoise, Noise

PROMPT, OTHER, LENGTH = "Once upon a time", "The fox looked at the river and", 32
SERVED = (PROMPT, OTHER, PROMPT)
SEED = 7
DRAWN = sd.Sampling(temperature=0.8, top_p=0.95, seed=SEED)
TIMEOUT = 10.0  # seconds to wait for a rank that will be lost; the others get the default


def whole(engine: sd.Engine, seed: int) -> dict[str, Any]:
    """Run every kind of request once; `seed` is used where something is drawn. Return the tokens by kind."""
    drawn = sd.Sampling(temperature=0.8, top_p=0.95, seed=seed)
    one = {
        "greedy": engine.generate(PROMPT, sd.Sampling.greedy(), max_new_tokens=LENGTH),
        "drawn": engine.generate(PROMPT, drawn, max_new_tokens=LENGTH),
        "plain": engine.generate(PROMPT, drawn, max_new_tokens=8, speculate=False),
        "forced": engine.generate(PROMPT, drawn, max_new_tokens=12, reject_at=2),
    }
    both = engine.generate([PROMPT, OTHER], drawn, max_new_tokens=[12, 20])
    scheduler = sd.Scheduler(engine, max_batch=2, blocks=5)  # too few for three: somebody is preempted
    for prompt in SERVED:
        scheduler.submit(prompt, sd.Sampling.greedy(), max_new_tokens=40)
    served = scheduler.run()
    assert "preempted" in str(scheduler.timeline())
    many = {"batch": both, "served": served}
    return {name: list(r.tokens) for name, r in one.items()} | {
        name: [list(r.tokens) for r in results] for name, results in many.items()
    }


def texts(engine: sd.Engine, honest: sd.Engine, rank: int) -> dict[str, Any]:
    """Compare ranks that were given different seeds; then let them differ in earnest, in two ways."""
    made = whole(engine, SEED if rank == 0 else SEED + 100)
    run = engine.generate(PROMPT, sd.Sampling(temperature=0.8, seed=SEED + rank), max_new_tokens=LENGTH)
    assert run.trace is not None
    file = Path(sys.argv[1]) / f"trace{rank}.json"
    run.trace.save(file)
    made["trace"] = json.loads(file.read_text(encoding="utf-8"))
    made["faults"] = [str(fault) for fault in sd.invariants.check(run.trace)]
    verdict = engine.rule.judge(*_falls())
    made["law"] = [verdict.accepted, verdict.token, verdict.source, verdict.law_V.tolist()]
    lone = sd.distributed.shared(honest).variant(rule=honest.rule)
    made["unshared"] = _failure(lambda: lone.generate(PROMPT, sd.Sampling(seed=rank), max_new_tokens=LENGTH))
    made["prompts"] = _failure(lambda: sd.distributed.shared(honest).generate((PROMPT, OTHER)[rank], max_new_tokens=4))
    made["split draft"] = _failure(
        lambda: sd.distributed.shared(sd.Engine(honest.target_runner.model, drafter=sd.ModelDrafter(
            honest.target_runner.model)))
    )  # fmt: skip
    return made


def _falls() -> tuple[Proposal, torch.Tensor, Noise, int]:
    """Return two drafts of which the second is sure to fall, and what else a rule wants."""
    q_KV, p_RV = torch.tensor([[1.0, 0, 0, 0], [0.25, 0.75, 0, 0]]), torch.tensor([[1.0, 0, 0, 0], [0.5, 0, 0, 0.5]])
    return Proposal((0, 1), q_KV), torch.cat([p_RV, p_RV[:1]]), CounterNoise(SEED), 0


def _failure(act: Callable[[], object]) -> str:
    try:
        act()
    except sd.SpecDecError as error:
        return f"{type(error).__name__}: {error}"
    return "none"


class Leaver:
    """Sends this process a signal when it has seen some events of the engine."""

    def __init__(self, sign: int) -> None:
        self.left, self.sign = 25, sign

    def on_event(self, event: object) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), self.sign)


def main(folder: Path, act: str) -> None:
    torch.set_num_threads(1)
    with sd.distributed.group(timeout=60) as rank:
        pair = sd.load_pair(str(folder / "target"), draft=str(folder / "draft"), tensor_parallel=True)
        honest = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, debug=True)
        if act == "texts":
            found = texts(sd.distributed.shared(honest), honest, rank)
            (folder / f"rank{rank}.json").write_text(json.dumps(found), encoding="utf-8")
            return
        engine = sd.distributed.shared(honest, timeout=TIMEOUT)
        if rank == 1:
            engine.observers.append(Leaver(signal.Signals[act]))
        engine.generate([PROMPT, OTHER], DRAWN, max_new_tokens=LENGTH)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
