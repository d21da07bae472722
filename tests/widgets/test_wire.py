"""The wire format is one: TypedDicts, JSDoc types and the JSON Schema say the same of every field."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import types
import typing
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NotRequired

import pytest

from specdec_teach.schema import schema
from specdec_teach.timeline import Timeline
from specdec_teach.trace import Trace
from specdec_widgets import wire

WIDGETS = Path(__file__).parents[2] / "widgets"
Shape = dict[str, tuple[str, bool]]  # property → its type in JSDoc's words, and whether it must be there
MESSAGES = {"Request", "Pair", "PlayerState", "CompareState", "TimelineState"}


def in_script() -> dict[str, Shape]:
    """The types of wire.js."""
    text = files("specdec_widgets").joinpath("static", "wire.js").read_text(encoding="utf-8")
    found: dict[str, Shape] = {}
    for name, body in re.findall(r"@typedef \{object\} (\w+)\n(.*?)\*/", text, re.DOTALL):
        lines = re.findall(r"@property \{(.+)\} (\[?)(\w+)\]?$", body, re.MULTILINE)
        found[name] = {field: (kind, not optional) for kind, optional, field in lines}
    return found


def in_python() -> dict[str, Shape]:
    """The types of wire.py."""
    found: dict[str, Shape] = {}
    for name, kind in vars(wire).items():
        if typing.is_typeddict(kind):
            hints = typing.get_type_hints(kind, include_extras=True)
            found[name] = {field: words(hint) for field, hint in hints.items()}
    return found


def words(hint: Any) -> tuple[str, bool]:
    """A Python type in JSDoc's words, and whether it is required."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is NotRequired:
        return words(args[0])[0], False
    if origin is Literal:
        return "|".join(f'"{value}"' for value in args), True
    if origin in (typing.Union, types.UnionType):
        return "|".join(words(arg)[0] for arg in args), True
    if origin is list:
        inner = words(args[0])[0]
        return (f"({inner})[]" if "|" in inner else f"{inner}[]"), True
    if origin is tuple:
        return f"[{', '.join(words(arg)[0] for arg in args)}]", True
    if origin is dict:
        return f"Record<string, {words(args[1])[0]}>", True
    simple = {int: "number", float: "number", str: "string", bool: "boolean", object: "unknown", type(None): "null"}
    return simple.get(hint) or hint.__name__, True


def in_schema(record: type) -> dict[str, Shape]:
    """The records of the JSON Schema."""
    found: dict[str, Shape] = {}
    for name, plain in schema(record)["$defs"].items():
        fields = plain["properties"].items()
        found[name] = {field: (said(kind), field in plain["required"]) for field, kind in fields}
    return found


def said(kind: Any) -> str:
    """A type of the schema in JSDoc's words."""
    if "$ref" in kind:
        return str(kind["$ref"]).rpartition("/")[2]
    if "enum" in kind:
        return "|".join(f'"{value}"' for value in kind["enum"])
    if "anyOf" in kind:
        return "|".join(said(part) for part in kind["anyOf"])
    if "const" in kind:
        return "number"
    if "prefixItems" in kind:
        return f"[{', '.join(map(said, kind['prefixItems']))}]"
    if kind.get("type") == "array":
        inner = said(kind["items"])
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if kind.get("type") == "object":
        return f"Record<string, {said(kind['additionalProperties'])}>"
    return {"integer": "number"}.get(kind.get("type", "unknown"), kind.get("type", "unknown"))


def test_the_three_say_the_same() -> None:
    script, python = in_script(), in_python()
    records = {**in_schema(Trace), **in_schema(Timeline)}
    assert script == python
    assert {name: shape for name, shape in python.items() if name not in MESSAGES} == records
    assert python.keys() >= MESSAGES


def test_the_messages_are_what_the_widgets_share() -> None:
    pytest.importorskip("anywidget", reason="the notebook views need the package anywidget")
    from specdec_widgets.compare import ComparePlayer
    from specdec_widgets.player import CyclePlayer
    from specdec_widgets.timeline import TimelinePlayer

    for view, state in (
        (CyclePlayer, wire.PlayerState),
        (ComparePlayer, wire.CompareState),
        (TimelinePlayer, wire.TimelineState),
    ):
        own = {name for name, trait in vars(view).items() if getattr(trait, "metadata", {}).get("sync")}
        assert own == set(typing.get_type_hints(state)), view


def compiled(folder: Path) -> subprocess.CompletedProcess[str]:
    """TypeScript's verdict on the scripts below `folder`, by the compiler of this environment, else of the path."""
    tsc = shutil.which("tsc", path=Path(sys.prefix, "node", "node_modules", ".bin")) or shutil.which("tsc")
    if tsc is None:
        pytest.skip(
            "no TypeScript compiler: the types of the scripts were NOT checked. Install npm and run `make unit`, which "
            "puts the compiler into .venv/node"
        )
    return subprocess.run(
        [tsc, "-p", str(folder / "jsconfig.json")], capture_output=True, text=True, timeout=300, check=False
    )


def test_typescript_agrees_with_the_types() -> None:
    """Beside the comparison above: the uses of the types in the scripts."""
    done = compiled(WIDGETS)
    assert done.returncode == 0, done.stdout


def test_typescript_sees_a_field_that_is_not_there(tmp_path: Path) -> None:
    """The check above can fail: a script that asks a cycle for what it has not got."""
    shutil.copy(WIDGETS / "jsconfig.json", tmp_path)
    static = tmp_path / "specdec_widgets" / "static"
    static.mkdir(parents=True)
    for name in ("wire.js", "captions.js", "words.js"):
        shutil.copy(WIDGETS / "specdec_widgets" / "static" / name, static)
    (static / "planted.js").write_text(
        '/** @param {import("./wire.js").Cycle} c */\nexport const wrong = (c) => c.acepted;\n', encoding="utf-8"
    )
    done = compiled(tmp_path)
    assert done.returncode != 0
    assert "planted.js(2," in done.stdout
    assert "acepted" in done.stdout
