"""The JSON Schema of a saved trace, derived from the records themselves.

Invariant: `trace.schema.json` in this package is `schema()` written out, so that programs in other languages can check
a trace. It does not know how a trace is made.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, Union, cast

from specdec_teach.trace import SCHEMA_VERSION, Trace

__all__ = ["schema"]

_PLAIN = {int: {"type": "integer"}, float: {"type": "number"}, str: {"type": "string"}, bool: {"type": "boolean"}}


def schema(record: type = Trace) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of what a record's `to_dict` returns: a Trace's, or another one's."""
    records: dict[str, Any] = {}
    root = _of(record, records)
    if record is Trace:
        records["Meta"]["properties"]["schema_version"] = {"const": SCHEMA_VERSION}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"specdec-teach {record.__name__.lower()}",
        **root,
        "$defs": dict(sorted(records.items())),
    }


def _of(kind: Any, records: dict[str, Any]) -> dict[str, Any]:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is object:
        return {}
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if origin in (Union, types.UnionType):
        inner = next(arg for arg in args if arg is not type(None))
        return {"anyOf": [_of(inner, records), {"type": "null"}]}
    if origin is Literal:
        return {"enum": list(args)}
    if origin is tuple and args[-1] is Ellipsis:
        return {"type": "array", "items": _of(args[0], records)}
    if origin is tuple:
        return {
            "type": "array",
            "prefixItems": [_of(arg, records) for arg in args],
            "minItems": len(args),
            "maxItems": len(args),
        }
    if origin is Mapping:
        keys = {"pattern": "^[0-9]+$"} if args[0] is int else {}
        return {"type": "object", "propertyNames": keys, "additionalProperties": _of(args[1], records)}
    assert is_dataclass(kind), kind
    return _record(cast(type, kind), records)


def _record(kind: type, records: dict[str, Any]) -> dict[str, Any]:
    if kind.__name__ not in records:
        records[kind.__name__] = {}
        hints = typing.get_type_hints(kind)
        needed = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
        records[kind.__name__] = {
            "type": "object",
            "description": (kind.__doc__ or "").strip().splitlines()[0],
            "properties": {f.name: _of(hints[f.name], records) for f in fields(kind)},
            "required": needed,
            "additionalProperties": False,
        }
    return {"$ref": f"#/$defs/{kind.__name__}"}
