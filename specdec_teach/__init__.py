"""Speculative decoding to learn from: a real engine whose every number can be seen.

    import specdec_teach as sd
    pair = sd.load_pair()
    engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4)
    print(engine.generate("Once upon a time", sd.Sampling(temperature=0.8, seed=7)).text)

Names are looked up when they are first used: importing the package loads no torch, plotly, matplotlib or Triton.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specdec_kernels.errors import EngineFailure as EngineFailure
    from specdec_kernels.errors import InvalidInput as InvalidInput
    from specdec_kernels.errors import SpecDecError as SpecDecError
    from specdec_teach import distributed as distributed
    from specdec_teach import events as events
    from specdec_teach import faults as faults
    from specdec_teach import invariants as invariants
    from specdec_teach import labs as labs
    from specdec_teach import rules as rules
    from specdec_teach import testing as testing
    from specdec_teach import traces as traces
    from specdec_teach.checking import Report as Report
    from specdec_teach.checking import check as check
    from specdec_teach.drafters.base import Drafter as Drafter
    from specdec_teach.drafters.base import Proposal as Proposal
    from specdec_teach.drafters.early import EarlyExitDrafter as EarlyExitDrafter
    from specdec_teach.drafters.head import HeadDrafter as HeadDrafter
    from specdec_teach.drafters.medusa import MedusaDrafter as MedusaDrafter
    from specdec_teach.drafters.model import ModelDrafter as ModelDrafter
    from specdec_teach.drafters.ngram import NgramDrafter as NgramDrafter
    from specdec_teach.drafters.retrieval import RetrievalDrafter as RetrievalDrafter
    from specdec_teach.drafters.scripted import ScriptedDrafter as ScriptedDrafter
    from specdec_teach.drafters.tree import TreeDrafter as TreeDrafter
    from specdec_teach.engine import Engine as Engine
    from specdec_teach.exact import exact_law as exact_law
    from specdec_teach.grammar import Grammar as Grammar
    from specdec_teach.lineup import drafters_for as drafters_for
    from specdec_teach.pairs import Pair as Pair
    from specdec_teach.pairs import load_pair as load_pair
    from specdec_teach.play import play as play
    from specdec_teach.request import Request as Request
    from specdec_teach.result import Result as Result
    from specdec_teach.result import Stats as Stats
    from specdec_teach.sampling import Sampling as Sampling
    from specdec_teach.scheduler import Scheduler as Scheduler
    from specdec_teach.timeline import Timeline as Timeline
    from specdec_teach.trace import Cycle as Cycle
    from specdec_teach.trace import Decision as Decision
    from specdec_teach.trace import Trace as Trace

__version__ = "0.1.0"

_HOME = {
    "Cycle": "specdec_teach.trace",
    "Decision": "specdec_teach.trace",
    "Drafter": "specdec_teach.drafters.base",
    "EarlyExitDrafter": "specdec_teach.drafters.early",
    "Engine": "specdec_teach.engine",
    "EngineFailure": "specdec_kernels.errors",
    "Grammar": "specdec_teach.grammar",
    "HeadDrafter": "specdec_teach.drafters.head",
    "InvalidInput": "specdec_kernels.errors",
    "MedusaDrafter": "specdec_teach.drafters.medusa",
    "ModelDrafter": "specdec_teach.drafters.model",
    "NgramDrafter": "specdec_teach.drafters.ngram",
    "Pair": "specdec_teach.pairs",
    "Proposal": "specdec_teach.drafters.base",
    "Report": "specdec_teach.checking",
    "Request": "specdec_teach.request",
    "Result": "specdec_teach.result",
    "RetrievalDrafter": "specdec_teach.drafters.retrieval",
    "Sampling": "specdec_teach.sampling",
    "ScriptedDrafter": "specdec_teach.drafters.scripted",
    "Scheduler": "specdec_teach.scheduler",
    "SpecDecError": "specdec_kernels.errors",
    "Stats": "specdec_teach.result",
    "Timeline": "specdec_teach.timeline",
    "Trace": "specdec_teach.trace",
    "TreeDrafter": "specdec_teach.drafters.tree",
    "check": "specdec_teach.checking",
    "drafters_for": "specdec_teach.lineup",
    "exact_law": "specdec_teach.exact",
    "load_pair": "specdec_teach.pairs",
    "play": "specdec_teach.play",
}
_MODULES = ("distributed", "events", "faults", "invariants", "labs", "rules", "testing", "traces")

__all__ = sorted([*_HOME, *_MODULES])


def __getattr__(name: str) -> object:
    if name in _HOME:
        value: object = getattr(importlib.import_module(_HOME[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"specdec_teach.{name}")
    else:
        raise AttributeError(f"module 'specdec_teach' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
