"""The small kit behind every exercise: three outcomes, a counter-example where it is wrong, and predictions that lock.

Invariant: `check` and `predict` never raise for what a learner gives them; an empty stub is "not attempted", not wrong.
What they print depends on the answer alone; what came of it goes to the learner's progress (`progress`). It does not
know any lesson: judges register themselves by id, and the module `specdec_teach.exercises.lesson_NN` is imported when
an id that starts with NN is first named.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, final

from specdec_kernels.errors import InvalidInput, unknown_name
from specdec_teach.exercises import progress

__all__ = ["NotYet", "Outcome", "ask", "check", "every", "exercise", "judge", "predict", "report"]

Judge = Callable[[Any], str]
_JUDGES: dict[str, Judge] = {}
_LOCKED: dict[str, object] = {}
_MARKS = {"not attempted": "·", "wrong": "✗", "right": "✓"}


class NotYet(Exception):
    """Raised by a judge: what is wrong, with the smallest case that shows it."""


class _Blank(Exception):
    """Raised when a learner's function is still a stub."""


@final
@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an answer, and the sentence that says so."""

    status: Literal["not attempted", "wrong", "right"]
    message: str


def exercise(name: str) -> Callable[[Judge], Judge]:
    """Register the decorated function as the judge of exercise `name` ("NN.k").

    A judge takes the answer; it returns a sentence for a right one and raises `NotYet` for a wrong one.
    """

    def register(judge_of: Judge) -> Judge:
        _JUDGES[name] = judge_of
        return judge_of

    return register


def ask(function: Any, *given: Any) -> Any:
    """Call a learner's function: a stub is not attempted, an exception is a wrong answer."""
    if function is None or function is ...:
        raise _Blank
    if not callable(function):
        raise NotYet(f"a function is wanted here, and this is {_short(function)}")
    call = f"{getattr(function, '__name__', 'your function')}({', '.join(map(_short, given))})"
    try:
        answer = function(*given)
    except NotImplementedError:
        raise _Blank from None
    except Exception as error:
        raise NotYet(f"{call} raises {type(error).__name__}: {error}") from None
    if answer is None or answer is ...:
        raise _Blank
    return answer


def judge(name: str, answer: object) -> Outcome:
    """Return what came of `answer` in exercise `name`; InvalidInput for an exercise that does not exist.

    >>> judge("00.demo", ...).status, judge("00.demo", 4).message, judge("00.demo", 5).message
    ('not attempted', '2 + 2 is 4', '2 + 2 is not 5')
    """
    judge_of = _find(name)
    if answer is None or answer is ...:
        return Outcome("not attempted", "not attempted yet: replace the three dots")
    try:
        return Outcome("right", judge_of(answer))
    except _Blank:
        return Outcome("not attempted", "not attempted yet: replace the three dots")
    except NotYet as wrong:
        return Outcome("wrong", str(wrong))
    except (TypeError, ValueError, AttributeError, ArithmeticError, LookupError, RuntimeError):
        return Outcome("wrong", f"this exercise wants something else than {_short(answer)}")


def check(name: str, answer: object = ...) -> None:
    """Print one line: not attempted, not yet (with a case that shows it), or right."""
    outcome = judge(name, answer)
    print(f"{_MARKS[outcome.status]} {name}  {outcome.message}")
    if outcome.status == "not attempted":
        return

    def change(entry: dict[str, Any]) -> None:
        entry["tries"] = entry.get("tries", 0) + 1
        if entry.get("status") != "right":
            entry["status"] = outcome.status

    progress.note("exercises", name, change)


def predict(name: str, guess: object, truth: Callable[[], object]) -> None:
    """Lock the first guess for `name`, then let `truth` say what really happens, and print both.

    Without a guess nothing is revealed. Another guess later does not replace the first.
    """
    if guess is None or guess is ...:
        print(f"· {name}  no prediction yet: write yours in place of the three dots, then run the cell again")
        return
    first = _LOCKED.setdefault(name, guess)
    found = truth()
    right = _same(first, found)
    said = "you were right" if right else f"you said {_short(first)}"
    print(f"{'✓' if right else '→'} {name}  the engine says {_short(found)}; {said}")
    kept = {"guess": _short(first), "found": _short(found), "right": right}
    progress.note("predictions", name, lambda entry: entry.update({} if entry else kept))


def every() -> tuple[str, ...]:
    """Return the names of all exercises, those of every lesson that there is.

    >>> len(every()) >= 45
    True
    """
    package = importlib.import_module("specdec_teach.exercises")
    for module in pkgutil.iter_modules(package.__path__):
        if module.name.startswith("lesson_"):
            importlib.import_module(f"specdec_teach.exercises.{module.name}")
    return tuple(sorted(name for name in _JUDGES if name != "00.demo" and name < "99"))


def report() -> progress.Report:
    """Return what you have done so far, lesson by lesson; `save` it as a page or a table."""
    return progress.read(Counter(name.partition(".")[0] for name in every()))


def _find(name: str) -> Judge:
    if name not in _JUDGES:
        lesson = name.partition(".")[0]
        try:
            importlib.import_module(f"specdec_teach.exercises.lesson_{lesson}")
        except ModuleNotFoundError:
            raise InvalidInput(f"there is no exercise {name!r}; ids look like '03.1'") from None
    if name not in _JUDGES:
        raise unknown_name("exercise", name, sorted(_JUDGES))
    return _JUDGES[name]


def _same(guess: object, found: object) -> bool:
    """Return whether a guess is what was found; whatever cannot be compared is not."""
    try:
        return bool(guess == found)
    except (TypeError, ValueError, RuntimeError):  # arrays and tensors of several numbers
        return False


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return text if len(text) <= 60 else text[:57] + "..."


@exercise("00.demo")
def _demo(answer: int) -> str:
    if answer != 4:
        raise NotYet(f"2 + 2 is not {answer}")
    return "2 + 2 is 4"
