"""The `flashspec` package as a candidate, where it is installed (`pip install "specdec-teach[bench]"`).

It runs the same pair at a fixed draft length, without its lookup drafter and, as there is no GPU to capture graphs for,
eagerly. It does not know the race; where the package is missing or does not load, `missing` says so in a line.
"""

from __future__ import annotations

import importlib
import importlib.util
from importlib.metadata import version

from specdec_kernels.errors import shown
from specdec_teach.bench.records import Candidate
from specdec_teach.bench.task import Decode, Task, quiet
from specdec_teach.pairs import Pair

__all__ = ["candidate", "decode", "missing"]


def missing() -> str | None:
    """Return why flashspec cannot run here, None where it can."""
    if importlib.util.find_spec("flashspec") is None:
        return 'flashspec was left out: it is not installed; `pip install "specdec-teach[bench]"` adds it'
    try:
        importlib.import_module("flashspec.engine")
    except Exception as error:  # whatever a package throws that does not fit its surroundings
        return f"flashspec was left out: it is installed and does not load ({shown(error)})"
    return None


def candidate(gamma: int) -> Candidate:
    """Return flashspec as it is called in a race."""
    detail = f"flashspec {version('flashspec')}, one model drafter, gamma={gamma}, eager"
    return Candidate(f"flashspec γ={gamma}", "flashspec", detail, gamma, optional=True)


def decode(pair: Pair, task: Task, gamma: int) -> Decode:
    """Return flashspec's engine as a function from prompt to new ids."""
    import torch
    from flashspec import BanditConfig, FlashSpecConfig, SamplingConfig, SpeculativeEngine
    from flashspec.engine import HuggingFaceDrafter, TargetModel

    device, dtype = pair.target.device, pair.target.dtype
    target = TargetModel("target", device, dtype, model=pair.target)
    drafter = HuggingFaceDrafter("draft", device, dtype, temperature=task.temperature, model=pair.draft)

    def run(ids: list[int], seed: int) -> tuple[int, ...]:
        config = FlashSpecConfig(
            device=str(device),
            compile=False,
            drafter_strategy="bandit",
            bandit=BanditConfig(n_arms=1),
            sampling=SamplingConfig(gamma=gamma, temperature=task.temperature, seed=seed),
        )
        with quiet(), torch.inference_mode():
            engine = SpeculativeEngine(config, [drafter], target)
            result = engine.generate(torch.tensor([ids], device=device), max_new_tokens=task.tokens)
        return tuple(result.output_ids[0, : result.n_tokens_generated].tolist())

    return run
