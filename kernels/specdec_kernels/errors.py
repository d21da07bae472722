"""The exceptions of the whole project, under one root.

Every refusal is raised before any state changes, and its message says what was given, what is allowed and what to do.
Invariant: whatever the project raises on purpose is a `SpecDecError`, and also a ValueError or a RuntimeError.
This module knows nothing about what the errors are about.

    SpecDecError
    ├── InvalidInput (ValueError)      what the caller gave cannot be used
    └── EngineFailure (RuntimeError)   what a model or the machine gave cannot be used
"""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterable

__all__ = ["EngineFailure", "InvalidInput", "SpecDecError", "shown", "unknown_name", "whole"]


class SpecDecError(Exception):
    """The root of every error that this project raises on purpose."""


class InvalidInput(SpecDecError, ValueError):
    """An argument that cannot be used: wrong value, wrong type, or two that do not fit together."""


class EngineFailure(SpecDecError, RuntimeError):
    """A result that cannot be used: logits that are not numbers, a cache that lost count, a missing renderer."""


def unknown_name(what: str, given: object, allowed: Iterable[str]) -> InvalidInput:
    """Build the error for a name that is not one of `allowed`, with the nearest one suggested.

    >>> unknown_name("rule", "rejektion", ["rejection", "block"])
    InvalidInput("unknown rule 'rejektion'; allowed: 'rejection', 'block'. Did you mean 'rejection'?")
    """
    names = list(allowed)
    near = difflib.get_close_matches(str(given), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return InvalidInput(f"unknown {what} {shown(given)}; allowed: {', '.join(map(repr, names))}.{hint}")


def shown(value: object) -> str:
    """Return `value` on one line of at most 60 characters, for a message.

    >>> shown([1, 2]), len(shown("x" * 100))
    ('[1, 2]', 60)
    """
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def whole(value: object) -> int | None:
    """Return `value` as an int if it is a whole number of any kind (of NumPy or torch too, no bool), else None.

    >>> whole(3), whole(2.5), whole(True), whole("4")
    (3, None, None, None)
    """
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        return None
