"""The lists of versions agree: pyproject.toml, constraints.txt, environment.yml and what `doctor` calls tested."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from specdec_teach.cli.doctor import TESTED


def _pins(root: Path) -> dict[str, str]:
    lines = (root / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_every_pin_is_a_plain_release(root: Path) -> None:
    bad = [f"{name}=={pin}" for name, pin in _pins(root).items() if not re.fullmatch(r"\d+(\.\d+)*(\.?post\d+)?", pin)]
    assert not bad, "a constraint names one release: no URL, no path, no local build"


def test_every_requirement_is_pinned_and_the_pin_fits(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    pins = _pins(root)
    for text in [*project["dependencies"], *project["optional-dependencies"]["test"]]:
        wanted = Requirement(text)
        assert wanted.specifier.contains(pins[canonicalize_name(wanted.name)]), text


def test_doctor_calls_tested_what_the_tests_run_with(root: Path) -> None:
    pins = _pins(root)
    assert {name: pins[name] for name in TESTED} == TESTED


def test_the_conda_environment_installs_the_project(root: Path) -> None:
    text = (root / "environment.yml").read_text()
    assert "name: specdec-teach" in text
    assert "python=3.11" in text
    assert re.search(r"- pip:\n      - --constraint constraints\.txt\n      - \.$", text, re.MULTILINE)
    assert not any((root / folder).exists() for folder in ("binder", ".binder", "Dockerfile")), (
        "they would win on Binder"
    )
