"""Play a run in a notebook, with controls that run the real engine again.

Invariant: the view gets traces and a function that makes another; it never sees the engine.
It does not know how a trace is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdec_teach import views
from specdec_teach.sampling import Sampling

if TYPE_CHECKING:
    from collections.abc import Sequence as Items

    from specdec_teach.engine import Engine
    from specdec_teach.trace import Trace

__all__ = ["play"]


def play(
    engine: Engine,
    prompt: str | Items[int],
    sampling: Sampling = Sampling(),  # noqa: B008 (frozen)
    *,
    max_new_tokens: int = 32,
    gamma: int | None = None,
    reject_at: int | None = None,
) -> object:
    """Run `engine` once and return the cycle player, live: "reject at position j" in it runs the engine again.

    Arguments and errors as in `Engine.generate`: `max_new_tokens` and `gamma` in tokens, `reject_at` a position among
    the drafts, from 0. The first run's seed is kept for the later ones. EngineFailure where no renderer is installed.
    """
    settings = sampling

    def run(reject: int | None) -> Trace:
        result = engine.generate(prompt, settings, max_new_tokens=max_new_tokens, gamma=gamma, reject_at=reject)
        assert result.trace is not None
        return result.trace

    trace = run(reject_at)
    if settings.seed is None:
        from dataclasses import replace

        settings = replace(settings, seed=trace.meta.seed)
    return views.renderer().show(trace, rerun=run)
