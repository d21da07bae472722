"""The hub's configuration runs, names only what JupyterHub and JupyterLab know, and is what docs/classroom.md says.

JupyterHub itself is not installed here: `KNOWN` holds the names that were read off its 6.1.1. What the file passes on
to JupyterLab is asked of the installed one, and the hook is called.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_server.services.kernels.kernelmanager import MappingKernelManager
from jupyterlab.labapp import LabApp
from traitlets.config import Config

from specdec_teach.cli import lab, lessons

KNOWN = {
    "JupyterHub": {"authenticator_class", "bind_url", "spawner_class"},
    "Authenticator": {"allow_all"},
    "SharedPasswordAuthenticator": {"user_password"},
    "Spawner": {"args", "default_url", "environment", "pre_spawn_hook", "start_timeout"},
    "SimpleLocalProcessSpawner": {"home_dir_template"},
}
REGISTERED = {"authenticator_class": "shared-password", "spawner_class": "simple"}
"""The short names of SharedPasswordAuthenticator and SimpleLocalProcessSpawner."""


def _configured(root: Path, monkeypatch: pytest.MonkeyPatch, **environment: str) -> Any:
    """Run the file as JupyterHub does, with `SPECDEC_CLASS_*` as given, and return what it set."""
    for name in ("PASSWORD", "URL", "HOMES"):
        monkeypatch.delenv(f"SPECDEC_CLASS_{name}", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(f"SPECDEC_CLASS_{name}", value)
    path, config = root / "docs" / "jupyterhub_config.py", Config()
    exec(compile(path.read_text(encoding="utf-8"), path, "exec"), {"get_config": lambda: config})
    return config


@pytest.fixture
def config(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    return _configured(root, monkeypatch, PASSWORD="a long one", HOMES=str(tmp_path / "class"))


def test_every_setting_exists(config: Any) -> None:
    assert set(config) <= set(KNOWN)
    for name, section in config.items():
        assert set(section) <= KNOWN[name], name
    assert {name: config.JupyterHub[name] for name in REGISTERED} == REGISTERED


def test_what_jupyterlab_is_given_exists_there_and_is_what_lab_gives(config: Any) -> None:
    given = dict(word.removeprefix("--").split("=", 1) for word in config.Spawner.args)
    classes = {"LabApp": LabApp, "MappingKernelManager": MappingKernelManager}
    for name in given:
        owner, _, trait = name.partition(".")
        assert trait in classes[owner].class_traits(config=True), name
    ours = dict(word.removeprefix("--").split("=", 1) for word in lab.command(Path("mine"), "00.ipynb", [])[3:])
    ours.pop("ServerApp.root_dir"), ours.pop("LabApp.default_url")  # the hub sets these itself
    assert given == ours | {"MappingKernelManager.cull_idle_timeout": "3600"}


def test_each_learner_starts_on_the_first_lesson_and_keeps_what_they_wrote(config: Any, tmp_path: Path) -> None:
    spawner = SimpleNamespace(user=SimpleNamespace(name="ada"))
    config.Spawner.pre_spawn_hook(spawner)
    home = Path(config.SimpleLocalProcessSpawner.home_dir_template.format(username="ada"))
    assert home == tmp_path / "class" / "ada"
    assert {path.name for path in home.glob("*.ipynb")} == {
        path.name for path in lessons.shipped().glob("[0-9]*.ipynb")
    }
    first = home / config.Spawner.default_url.removeprefix("/lab/tree/")
    assert first == min(home.glob("*.ipynb"))
    first.write_text("mine", encoding="utf-8")
    config.Spawner.pre_spawn_hook(spawner)
    assert first.read_text(encoding="utf-8") == "mine"


def test_the_document_says_what_the_file_does(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (root / "docs" / "classroom.md").read_text(encoding="utf-8")
    source = (root / "docs" / "jupyterhub_config.py").read_text(encoding="utf-8")
    read = set(re.findall(r'"(SPECDEC_CLASS_\w+)"', source))
    assert set(re.findall(r"SPECDEC_CLASS_\w+", text)) == read, "each variable is read and described"
    with pytest.raises(KeyError, match="SPECDEC_CLASS_PASSWORD"):
        _configured(root, monkeypatch)
    config = _configured(root, monkeypatch, PASSWORD="a long one")
    homes = Path(config.SimpleLocalProcessSpawner.home_dir_template).parent
    assert f"`SPECDEC_CLASS_URL` (default `{config.JupyterHub.bind_url}`)" in text
    assert f"`SPECDEC_CLASS_HOMES` (default `{homes.relative_to(Path.cwd())}/`)" in text.replace("\n", " ")
    for name in ("pre_spawn_hook", "environment", "args"):
        assert f"`{name}`" in text
        assert name in config.Spawner
    assert f"`OMP_NUM_THREADS={config.Spawner.environment['OMP_NUM_THREADS']}`" in text
    hours = int(re.findall(r"cull_idle_timeout=(\d+)", source)[0]) / 3600
    assert ("kernels stopped after an hour" in text.replace("\n", " ")) == (hours == 1)
