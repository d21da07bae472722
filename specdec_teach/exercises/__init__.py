"""Exercises that check themselves: `predict` before you look, `check` what you wrote, `report` what you did.

The judges of each lesson lie in a module of their own. They ask the engine and plain arithmetic.
"""

from __future__ import annotations

from specdec_teach.exercises.kit import NotYet, Outcome, ask, check, every, exercise, judge, predict, report
from specdec_teach.exercises.progress import forget

__all__ = ["NotYet", "Outcome", "ask", "check", "every", "exercise", "forget", "judge", "predict", "report"]
