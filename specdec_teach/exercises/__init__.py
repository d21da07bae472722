"""Exercises that check themselves: `predict` before you look, `check` what you wrote.

The judges of each lesson lie in a module of their own. They ask the engine and plain arithmetic.
"""

from __future__ import annotations

from specdec_teach.exercises.kit import NotYet, Outcome, ask, check, exercise, judge, predict

__all__ = ["NotYet", "Outcome", "ask", "check", "exercise", "judge", "predict"]
