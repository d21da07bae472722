"""The wheel holds everything, and works installed in another folder, with nothing of the checkout in reach."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.guards.running import python


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into a folder of its own."""
    target = tmp_path_factory.mktemp("installed")
    python("-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(wheel), cwd=target)
    return target


def test_the_wheel_holds_all_that_belongs_to_the_packages(root: Path, files: list[Path], wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    wanted = set()
    for path in files:
        for folder in (root, root / "kernels", root / "widgets"):
            name = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else ""
            if name.startswith("specdec_"):
                wanted.add(name)
    wanted |= {f"specdec_teach/_lessons/{path.name}" for path in (root / "lessons").glob("*.ipynb")}
    assert wanted <= held, sorted(wanted - held)
    endings = (".js", ".css", ".safetensors", ".schema.json", ".ipynb", "/py.typed")
    assert all(any(name.endswith(ending) for name in held) for ending in endings)


def test_the_wheel_holds_nothing_else(wheel: Path) -> None:
    allowed = ("specdec_kernels/", "specdec_teach/", "specdec_widgets/", "specdec_teach-")
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith(allowed)]


def test_it_works_installed_elsewhere(installed: Path, tmp_path: Path) -> None:
    code = """
import sys
import specdec_teach as sd
from specdec_teach import views
from specdec_teach.cli import lessons
from specdec_teach.trace import Trace

pair = sd.load_pair()
engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4)
result = engine.generate("Once upon a time", sd.Sampling(seed=7), max_new_tokens=8)
result.trace.save("run.json")
page = Trace.load("run.json").to_html("run.html")
assert page.stat().st_size > 1000
assert lessons.update(lessons.shipped(), page.parent / "mine")
modules = (sd, sys.modules["specdec_kernels"], sys.modules["specdec_widgets"])
print(*(module.__file__ for module in modules), lessons.shipped(), sep="\\n")
"""
    for place in python("-c", code, cwd=tmp_path, PYTHONPATH=str(installed)).splitlines():
        assert place.startswith(str(installed)), place


def test_the_installed_command_replays_without_torch(installed: Path, tmp_path: Path) -> None:
    code = """
import sys
sys.modules["torch"] = sys.modules["transformers"] = None  # importing them now fails
from specdec_teach.cli import main
sys.exit(main(["replay", "missing.json"]))
"""
    with pytest.raises(subprocess.CalledProcessError) as refused:
        python("-c", code, cwd=tmp_path, PYTHONPATH=str(installed))
    assert refused.value.returncode == 2
    assert "missing.json" in refused.value.stderr
