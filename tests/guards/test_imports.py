"""Imports run one way: kernels ← engine ← widgets ← lessons. A new arrow has to be added to the table here."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Module or package → what it and everything below it may import, besides the standard library.
# The longest name that fits a module decides.
ALLOWED: dict[str, set[str]] = {
    "specdec_kernels": {"specdec_kernels", "torch", "triton"},
    "specdec_kernels.errors": set(),
    "specdec_teach": {"specdec_kernels", "specdec_teach", "torch"},
    "specdec_teach.trace": {
        "specdec_teach.comparison",
        "specdec_teach.views",
        "specdec_teach.records",
        "specdec_teach.table",
    },
    "specdec_teach.comparison": {"specdec_kernels.errors", "specdec_teach.trace", "specdec_teach.views"},
    "specdec_teach.timeline": {"specdec_teach.views", "specdec_teach.records"},
    "specdec_teach.records": {"specdec_kernels.errors"},
    "specdec_teach.views": {
        "specdec_teach.invariants",
        "specdec_kernels.errors",
        "specdec_teach.comparison",
        "specdec_teach.trace",
        "specdec_teach.timeline",
    },
    "specdec_teach.tree": set(),
    "specdec_teach.branches": {"specdec_teach.trace", "specdec_teach.tree"},
    "specdec_teach.claims": {"specdec_teach.branches", "specdec_teach.trace"},
    "specdec_teach.odds": {"specdec_teach.branches", "specdec_teach.claims", "specdec_teach.trace"},
    "specdec_teach.invariants": {
        "specdec_kernels.errors",
        "specdec_teach.claims",
        "specdec_teach.events",
        "specdec_teach.odds",
        "specdec_teach.trace",
    },
    "specdec_teach.drafters.passages": {"numpy"},
    "specdec_teach.drafters.retrieval": {"specdec_kernels", "specdec_teach", "torch", "numpy"},
    "specdec_teach.exercises.ahead": {"specdec_kernels", "specdec_teach", "triton"},
    "specdec_teach.exercises.progress": {"specdec_kernels.errors", "filelock"},
    "specdec_teach.exercises.lesson_07": {"specdec_kernels", "specdec_teach", "torch", "triton"},
    "specdec_teach.noise": {"specdec_kernels", "specdec_teach", "torch", "numpy"},
    "specdec_teach.grammar": {"specdec_kernels", "specdec_teach", "torch", "xgrammar"},
    "specdec_teach.hf": {"specdec_kernels", "specdec_teach", "torch", "transformers", "safetensors"},
    "specdec_teach.shelf": {"specdec_kernels.errors", "specdec_teach.hf.gguf"},
    "specdec_teach.lookup": {"specdec_kernels.errors"},
    "specdec_teach.traces": {
        "specdec_kernels.errors",
        "specdec_teach.lookup",
        "specdec_teach.text",
        "specdec_teach.trace",
    },
    "specdec_teach.bench.table": {"specdec_teach.bench", "rich"},
    "specdec_teach.bench.chart": {"specdec_kernels.errors", "specdec_teach.bench", "matplotlib", "plotly"},
    "specdec_teach.bench.flashspec": {"specdec_kernels.errors", "specdec_teach", "torch", "flashspec"},
    "specdec_teach.cli": {"specdec_kernels.errors", "specdec_teach", "torch", "rich"},
    "specdec_teach.cli.replay": {"specdec_kernels.errors", "specdec_teach.trace"},
    "specdec_teach.training": {
        "specdec_kernels",
        "specdec_teach",
        "torch",
        "tokenizers",
        "safetensors",
        "numpy",
        "tqdm",
    },
    "specdec_widgets": {
        "specdec_widgets",
        "specdec_teach.comparison",
        "specdec_teach.trace",
        "specdec_teach.timeline",
        "specdec_teach.views",
        "specdec_kernels.errors",
        "anywidget",
        "ipywidgets",
        "traitlets",
        "IPython",
        "matplotlib",
        "PIL",
        "plotly",
    },
}
HEAVY = ("torch", "transformers", "triton", "plotly", "matplotlib", "numpy", "anywidget", "jupyterlab", "rich")


def test_every_import_is_an_allowed_arrow(modules: dict[str, Path]) -> None:
    assert {"specdec_teach.trace", "specdec_kernels.errors"} <= modules.keys()
    bad = []
    for module, path in modules.items():
        allowed = ALLOWED[max((name for name in ALLOWED if _below(module, name)), key=len)]
        for line, target in _imports(module, path):
            if (
                not any(_below(target, name) for name in allowed)
                and target.partition(".")[0] not in sys.stdlib_module_names
            ):
                bad.append(f"{path}:{line}: {module} may not import {target}")
    assert not bad, "\n".join(bad)


def test_the_bridge_alone_imports_transformers(modules: dict[str, Path]) -> None:
    found = {m for m, path in modules.items() if any(_below(t, "transformers") for _, t in _imports(m, path))}
    assert found
    assert all(_below(module, "specdec_teach.hf") for module in found)


@pytest.mark.parametrize(
    "module", ["specdec_teach", "specdec_teach.trace", "specdec_teach.cli", "specdec_kernels.errors"]
)
def test_an_import_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print([n for n in {HEAVY} if n in sys.modules])"
    assert _python(code) == "[]"


def test_the_import_is_quick() -> None:
    code = "import time; t = time.perf_counter(); import specdec_teach; print(time.perf_counter() - t)"
    assert min(float(_python(code)) for _ in range(5)) < 0.3


def _below(name: str, parent: str) -> bool:
    return name == parent or name.startswith(parent + ".")


def _imports(module: str, path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the full name of every import in a file, those inside functions included."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            # `from package import module` names a module only when there is no deeper name for it.
            bare = stem.count(".") == 0 and stem.startswith("specdec_")
            yield from ((node.lineno, f"{stem}.{alias.name}" if bare else stem) for alias in node.names)


def _python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
