"""`specdec-teach doctor`: what is installed, what is missing, and what to do about it.

Invariant: every line that is not fine says what to do, and the status is 1 only when something is missing that the
lessons cannot do without. It loads each part for real rather than trusting a version number; it repairs nothing.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

from specdec_kernels.errors import SpecDecError
from specdec_teach import views

__all__ = ["TESTED", "Finding", "add", "examine", "run"]

TESTED = {
    "torch": "2.13.0",
    "transformers": "5.23.0",
    "tokenizers": "0.23.3",
    "safetensors": "0.8.0",
    "triton": "3.7.1",
    "jupyterlab": "4.6.6",
    "ipywidgets": "8.1.9",
    "anywidget": "0.11.0",
    "matplotlib": "3.11.2",
    "plotly": "7.1.0",
}
"""The versions that the tests run with; a test holds them equal to constraints.txt."""

_REINSTALL = "`pip install .` in a checkout of specdec-teach brings it back"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_SIZES = (1, 2, 5, 9)
_MARKS = {"fine": "✓", "note": "·", "warn": "!", "fail": "✗"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: `advice` is empty only when `state` is "fine"; only "fail" makes the status 1."""

    name: str
    state: Literal["fine", "note", "warn", "fail"]
    detail: str
    advice: str = ""


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "doctor",
        help="say what is installed and what to do about what is not",
        description="Check Python, the libraries, the renderer, the embedded models and what their forwards cost "
        "here, the GPU and the browser. "
        "The status is 0 unless something is missing that the lessons need.",
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print every finding as it is made."""
    failed = False
    for finding in examine():
        print(f"{_MARKS[finding.state]} {finding.name:<13} {finding.detail}", flush=True)
        if finding.advice:
            print(f"  {'':<13} → {finding.advice}")
        failed = failed or finding.state == "fail"
    print("Something that the lessons need is missing; see the lines marked ✗." if failed else "The lessons can run.")
    return int(failed)


def examine() -> Iterator[Finding]:
    """Yield one finding after the other; later ones load torch and the models."""
    yield _python()
    for name in TESTED:
        yield _package(name)
    yield _renderer()
    yield _pair()
    yield _speed()
    yield _gpu()
    yield _browser()


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", "fine", f"{found} at {sys.executable}")


def _package(name: str) -> Finding:
    needed = name != "triton"
    try:
        found = version(name)
        importlib.import_module(name)
    except PackageNotFoundError:
        if needed:
            return Finding(name, "fail", "not installed", f"run `pip install {name}=={TESTED[name]}`")
        return Finding(name, "note", "not installed", "only the kernel lesson needs it; it exists for Linux alone")
    except Exception as error:  # a broken install raises anything; the report must go on
        return Finding(
            name,
            "fail" if needed else "warn",
            f"is installed but does not load: {_first_line(error)}",
            f"run `pip install --force-reinstall {name}=={TESTED[name]}`",
        )
    if found.partition("+")[0] != TESTED[name]:
        advice = f"should it misbehave: `pip install {name}=={TESTED[name]}`"
        return Finding(name, "warn", f"{found}; tested with {TESTED[name]}", advice)
    return Finding(name, "fine", found)


def _renderer() -> Finding:
    return _loads("renderer", lambda: f"{type(views.renderer()).__name__} draws traces")


def _pair() -> Finding:
    def load() -> str:
        import specdec_teach as sd

        pair = sd.load_pair()
        sizes = " and ".join(f"{model.num_parameters():,}" for model in (pair.target, pair.draft) if model is not None)
        return f"target and draft with {sizes} parameters"

    return _loads("model pair", load)


def _speed() -> Finding:
    return _loads("speed", _costs)


def _costs() -> str:
    """Time a few forwards of the embedded pair in both precisions: v(T), c, and what dtype="auto" takes."""
    import specdec_teach as sd
    from specdec_teach.hf import ModelRunner
    from specdec_teach.probe import fastest, measure

    pairs = {kind: sd.load_pair(dtype=kind) for kind in ("float32", "bfloat16")}
    found = []
    for kind, pair in pairs.items():
        target, draft = ModelRunner(pair.target, "target"), ModelRunner(pair.draft, "draft")
        costs = measure(target, draft, positions=_SIZES, rounds=7)
        table = ", ".join(f"v({size}) = {costs.v(size):.2f}" for size in _SIZES)
        found.append(f"{kind} {table}, c = {costs.c:.2f}")
    best = fastest(pairs)
    assert best.draft is not None
    names = [str(model.dtype).removeprefix("torch.") for model in (best.target, best.draft)]
    return f'{"; ".join(found)}; dtype="auto" takes {names[0]} for the target and {names[1]} for the draft'


def _loads(name: str, load: Callable[[], str]) -> Finding:
    try:
        return Finding(name, "fine", load())
    except SpecDecError as error:
        return Finding(name, "fail", "cannot be loaded", str(error))
    except Exception as error:  # whatever a broken install raises
        return Finding(name, "fail", f"cannot be loaded: {_first_line(error)}", _REINSTALL)


def _gpu() -> Finding:
    try:
        import torch

        if torch.cuda.is_available():
            return Finding("gpu", "fine", torch.cuda.get_device_name())
    except Exception as error:  # torch is broken: its own line has said so
        return Finding("gpu", "note", f"unknown: {_first_line(error)}", "repair torch first")
    return Finding("gpu", "note", "none that torch can use", "none is needed: every lesson runs on the CPU")


def _browser() -> Finding:
    for name in _BROWSERS:
        if path := shutil.which(name):
            return Finding("chromium", "fine", path)
    advice = "only the project's browser tests need it; on Debian or Ubuntu: apt-get install chromium"
    return Finding("chromium", "note", "not found", advice)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__
