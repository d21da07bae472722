"""A computer that has never seen this project: `pip install`, `specdec-teach lab`, and lessons 00 to 02 done there.

The wheel goes into an environment of its own, and the lessons run there in a new folder. Its dependencies are borrowed
from the environment that runs the tests, or, where the package index can be reached, installed anew, which shows that
the project names all of them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sysconfig
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from lessons.build import NOTEBOOKS
from tests.browser.lab import Server, served
from tests.guards.running import python

pytestmark = pytest.mark.slow

DONE = sorted(path.name for number in ("00", "01", "02") for path in NOTEBOOKS.glob(f"{number}_*.ipynb"))
KEPT = ("HOME", "LANG", "PATH", "SSL_CERT_FILE", "http_proxy", "https_proxy", "no_proxy")
PIP = ("-m", "pip", "--disable-pip-version-check")
# Run every notebook named, in the folder where it lies; print what its cells wrote and the files of all its modules.
EXECUTE = r'''
import json, sys
from pathlib import Path
import nbclient, nbformat

FILES = """import sys
print(*{module.__file__ for module in [*sys.modules.values()] if getattr(module, "__file__", None)}, sep="\\n")"""

def printed(cell):
    return "".join(out.get("text", "") for out in cell.outputs if out.get("name") == "stdout")

told = {}
for name in sys.argv[1:]:
    path = Path(name).resolve()
    book = nbformat.read(path, as_version=4)
    book.cells.append(nbformat.v4.new_code_cell(FILES))
    place = {"metadata": {"path": path.parent}}
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3", resources=place).execute()
    *cells, files = [cell for cell in book.cells if cell.cell_type == "code"]
    told[path.name] = {"printed": [printed(cell) for cell in cells], "files": printed(files).split()}
print(json.dumps(told))
'''


@pytest.fixture(scope="module", params=["borrowed", "installed"])
def prefix(
    request: pytest.FixtureRequest, root: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """An environment that holds the wheel; taken away afterwards, for it may be large."""
    home = tmp_path_factory.mktemp(request.param)
    if request.param == "installed":
        reach(home)
    folder = home / "env"
    python("-m", "venv", str(folder), cwd=home)
    within = folder / "bin" / "python"
    if request.param == "installed":
        constraints = ("--quiet", "--constraint", str(root / "constraints.txt"))
        python(*PIP, "install", *constraints, "torch", cwd=home, program=within, only=bare())
        python(*PIP, "install", *constraints, str(wheel), cwd=home, program=within, only=bare())
    else:
        python(*PIP, "install", "--quiet", "--no-deps", str(wheel), cwd=home, program=within, only=bare())
        site = python("-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home, program=within)
        (Path(site.strip()) / "borrowed.pth").write_text("\n".join(sorted(lenders())))
    yield folder
    shutil.rmtree(home)


def lenders() -> set[str]:
    """The folders of the packages that this process uses; nobody reads the `.pth` files in them, so no checkout."""
    return {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}


def reach(home: Path) -> None:
    """Skip where the package index does not answer."""
    words = (*PIP, "download", "--quiet", "--no-deps", "--retries", "1", "--dest", str(home), "packaging")
    try:
        python(*words, cwd=home)
    except subprocess.CalledProcessError:
        pytest.skip("pip cannot reach a package index")


def bare(**more: str) -> dict[str, str]:
    """The environment of somebody who knows nothing of this checkout."""
    pips = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    return {**{name: os.environ[name] for name in KEPT if name in os.environ}, **pips, "OMP_NUM_THREADS": "1", **more}


@pytest.fixture(scope="module")
def learner(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, dict[str, str]]]:
    """JupyterLab as the installed command starts it, and the environment of the learner's shell."""
    home = tmp_path_factory.mktemp("learner")
    environment = bare(HOME=str(home), PATH=f"{prefix / 'bin'}{os.pathsep}{os.environ['PATH']}")
    for server in served(home, [str(prefix / "bin" / "specdec-teach")], environment):
        yield server, environment


def execute(prefix: Path, learner: tuple[Server, dict[str, str]]) -> dict[str, dict[str, list[str]]]:
    server, environment = learner
    names = [str(server.folder / name) for name in DONE]
    said = python("-c", EXECUTE, *names, cwd=server.folder.parent, program=prefix / "bin" / "python", only=environment)
    told: dict[str, dict[str, list[str]]] = json.loads(said.splitlines()[-1])
    return told


def stored(path: Path) -> list[str | None]:
    """What the code cells of a notebook print; None where it may differ."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    return [
        None
        if "nbval-ignore-output" in cell.metadata.get("tags", [])
        else "".join(out.get("text", "") for out in cell.outputs if out.get("name") == "stdout")
        for cell in cells
    ]


def differences(found: list[str], wanted: list[str | None]) -> list[tuple[str, str]]:
    return [(a, b) for a, b in zip(found, wanted, strict=True) if b is not None and a != b]


def test_the_lessons_are_served_from_a_new_folder(learner: tuple[Server, dict[str, str]]) -> None:
    server, _ = learner
    with urllib.request.urlopen(f"{server.address}/api/contents?token={server.token}", timeout=10) as answer:
        held = {entry["name"] for entry in json.load(answer)["content"]}
    assert held == {path.name for path in NOTEBOOKS.glob("[0-9][0-9]*.ipynb")}


def test_lessons_00_to_02_run_there(prefix: Path, learner: tuple[Server, dict[str, str]], root: Path) -> None:
    told = execute(prefix, learner)
    for name in DONE:
        assert differences(told[name]["printed"], stored(NOTEBOOKS / name)) == []
        files = [Path(file) for file in told[name]["files"]]
        ours = [file for file in files if any(part.startswith("specdec_") for part in file.parts)]
        assert len(ours) > 50
        assert [file for file in ours if not file.is_relative_to(prefix)] == []
        lent = [Path(folder) for folder in lenders()]
        assert [f for f in files if f.is_relative_to(root) and not any(f.is_relative_to(place) for place in lent)] == []


def test_lessons_00_to_02_are_done_there(prefix: Path, learner: tuple[Server, dict[str, str]]) -> None:
    """The learner fills in the cells; what they print is right, and their progress is kept at home."""
    server, environment = learner
    for name in DONE[1:]:
        solved = nbformat.read(NOTEBOOKS / "solutions" / name, as_version=4).cells
        mine = nbformat.read(server.folder / name, as_version=4)
        assert [cell.cell_type for cell in mine.cells] == [cell.cell_type for cell in solved]
        for cell, solution in zip(mine.cells, solved, strict=True):
            cell.source = solution.source
        nbformat.write(mine, server.folder / name)
    told = execute(prefix, learner)
    for name in DONE[1:]:
        assert differences(told[name]["printed"], stored(NOTEBOOKS / "solutions" / name)) == []
    report = "from specdec_teach.exercises import report; print(report())"
    said = python("-c", report, cwd=server.folder, program=prefix / "bin" / "python", only=environment)
    rows = re.findall(r"^(0[012]) +(\d+) of (\d+) +\d+ +(\d+) of (\d+)$", said, re.MULTILINE)
    assert [row[0] for row in rows] == ["01", "02"], said
    assert all(right == there for _, *numbers in rows for right, there in (numbers[:2], numbers[2:])), said
