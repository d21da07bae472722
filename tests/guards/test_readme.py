"""The README's Python example runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def test_the_first_example_runs(root: Path, tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", (root / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert code is not None
    assert len(code[1].strip().splitlines()) <= 12
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code[1]], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "cycle 0" in done.stdout


def test_links_within_the_repository_resolve(root: Path) -> None:
    for name in ("README.md", "CONTRIBUTING.md"):
        text = (root / name).read_text(encoding="utf-8")
        targets = re.findall(r"\]\(([^)\s]+)\)", text)
        missing = [
            target for target in targets if "://" not in target and not (root / target.partition("#")[0]).exists()
        ]
        assert not missing, f"{name}: {missing}"
