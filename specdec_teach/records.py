"""Turn frozen dataclasses into plain JSON types and back, checking every field on the way in.

Invariant: `from_plain(type(x), to_plain(x), v) == x`. It does not know what the records mean.
"""

from __future__ import annotations

import json
import math
import os
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast

from specdec_kernels.errors import InvalidInput

__all__ = ["from_plain", "read_json", "to_plain", "write_json"]

T = TypeVar("T")


def to_plain(value: object) -> object:
    """Return `value` with records as dicts and tuples as lists; keys become strings. NaN and infinities are refused."""
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {name: to_plain(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, float):
        raise InvalidInput(
            f"a trace holds {value!r}, which JSON cannot carry; every probability must be a finite number"
        )
    return value


def from_plain(cls: type[T], plain: object, version: int) -> T:
    """Build a `cls` from `to_plain`'s output; InvalidInput names the first field that does not fit."""
    meta = plain.get("meta") if isinstance(plain, dict) else None
    found = meta.get("schema_version") if isinstance(meta, dict) else None
    if found != version:
        raise InvalidInput(
            f"this is not a trace of schema version {version} (found {found!r}); "
            "make it again with this version of specdec-teach, or install the version that wrote it"
        )
    return cast(T, _build(cls, plain, "trace"))


def write_json(plain: object, path: str | os.PathLike[str]) -> Path:
    """Write compact UTF-8 JSON to `path`, whole or not at all, and return the path."""
    target = Path(path)
    part = target.with_name(target.name + ".part")
    try:
        part.write_text(json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False), encoding="utf-8")
        part.replace(target)
    except OSError as error:
        raise InvalidInput(
            f"cannot write {target}: {error.strerror}; choose a folder that exists and is yours"
        ) from None
    return target


def read_json(path: str | os.PathLike[str]) -> object:
    """Read a JSON file; InvalidInput when it is missing or not JSON."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"cannot read {os.fspath(path)}: {error.strerror}; check the path") from None
    except ValueError:
        raise InvalidInput(f"{os.fspath(path)} is not JSON; give a file that Trace.save wrote") from None


@cache
def _names(cls: type) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cls))


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _build(kind: Any, value: object, where: str) -> object:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is object:
        return value
    if origin in (Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        return _build(next(arg for arg in args if arg is not type(None)), value, where)
    if origin is Literal:
        return _expect(value in args, value, where, f"one of {args}")
    if is_dataclass(kind):
        return _record(cast(type, kind), value, where)
    if origin is tuple:
        _expect(isinstance(value, list), value, where, "a list")
        items = cast(list[object], value)
        inner = [args[0]] * len(items) if args[-1] is Ellipsis else list(args)
        _expect(len(inner) == len(items), value, where, f"{len(inner)} items")
        return tuple(_build(k, item, f"{where}[{i}]") for i, (k, item) in enumerate(zip(inner, items, strict=True)))
    if origin is Mapping:
        _expect(isinstance(value, dict), value, where, "an object")
        pairs = cast(dict[str, object], value).items()
        return {_key(args[0], key, where): _build(args[1], item, f"{where}[{key!r}]") for key, item in pairs}
    if kind is float:
        _expect(isinstance(value, (int, float)) and not isinstance(value, bool), value, where, "a number")
        return float(cast(float, value))
    if kind is int:
        return _expect(isinstance(value, int) and not isinstance(value, bool), value, where, "a whole number")
    return _expect(isinstance(value, kind), value, where, kind.__name__)


def _record(kind: type, value: object, where: str) -> object:
    _expect(isinstance(value, dict), value, where, "an object")
    given = cast(dict[str, object], value)
    known = {f.name: f for f in fields(kind)}
    for name in given:
        _expect(name in known, name, where, f"no field of that name in {kind.__name__}")
    for name, f in known.items():
        if name not in given:
            _expect(f.default is not MISSING or f.default_factory is not MISSING, None, f"{where}.{name}", "a value")
    hints = _hints(kind)
    return kind(**{name: _build(hints[name], item, f"{where}.{name}") for name, item in given.items()})


def _key(kind: type, key: str, where: str) -> object:
    if kind is not int:
        return key
    try:
        return int(key)
    except ValueError:
        raise InvalidInput(f"{where} has the key {key!r} where a token id was expected; the file is damaged") from None


def _expect(fits: bool, value: object, where: str, wanted: str) -> object:
    if not fits:
        shown = repr(value)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        raise InvalidInput(
            f"{where} is {shown}; expected {wanted}. The file is damaged or was edited; save the trace again"
        )
    return value
