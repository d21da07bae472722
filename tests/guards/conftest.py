"""What the guards look at: the repository's root, the files that belong to it, and the wheel that is built of them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.guards.running import python

ROOT = Path(__file__).resolve().parents[2]
_SKIP = {".venv", ".git", "__pycache__", "my-lessons", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}


def repository_files() -> list[Path]:
    """Return every file that is or could be committed; outside git, every file but caches."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        found = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    else:
        found = [path for path in ROOT.rglob("*") if not _SKIP & set(path.relative_to(ROOT).parts)]
    return sorted(path for path in found if path.is_file())


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def files() -> list[Path]:
    return repository_files()


@pytest.fixture(scope="session")
def modules(files: list[Path]) -> dict[str, Path]:
    """Map the dotted name of every module of the three packages to its file."""
    found = {}
    for folder in (ROOT, ROOT / "kernels", ROOT / "widgets"):
        for path in files:
            if path.suffix == ".py" and path.is_relative_to(folder):
                parts = path.relative_to(folder).with_suffix("").parts
                if parts[0].startswith("specdec_"):
                    found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@pytest.fixture(scope="session")
def wheel(root: Path, files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the repository's files, so that the checkout stays clean."""
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for path in files:
        target = copy / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    words = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out), str(copy))
    python(*words, cwd=out)
    [built] = out.glob("*.whl")
    return built
