"""The README's Python example runs as it stands; links and commands of every document exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from specdec_teach import cli


def test_the_first_example_runs(root: Path, tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", (root / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert code is not None
    assert len(code[1].strip().splitlines()) <= 12
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code[1]], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "cycle 0" in done.stdout


def test_links_within_the_repository_resolve(root: Path, files: list[Path]) -> None:
    missing = []
    for path in files:
        if path.suffix == ".md":
            for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
                if "://" not in target and not (path.parent / target.partition("#")[0]).exists():
                    missing.append(f"{path.relative_to(root)}: {target}")
    assert not missing, "\n".join(missing)


def test_commands_that_are_named_exist(root: Path, files: list[Path]) -> None:
    """`make WORD` and `specdec-teach WORD` in a document, in backquotes or on a line of a shell example."""
    known = {
        "make": set(re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)),
        "specdec-teach": {command.__name__.rpartition(".")[2] for command in cli._COMMANDS},
    }
    named = re.compile(r"(?:`|^\$ )(?:\w+=\S+ )*(make|specdec-teach) ([a-z]\S*?)(?=[`\s])", re.MULTILINE)
    bad, count = [], 0
    for path in files:
        if path.suffix == ".md":
            for program, word in named.findall(path.read_text(encoding="utf-8")):
                count += 1
                if word not in known[program]:
                    bad.append(f"{path.relative_to(root)}: {program} {word}")
    assert not bad, "\n".join(bad)
    assert count > 20
