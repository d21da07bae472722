"""Compile a Triton kernel for a GPU that is not here, in a process of its own, and say what the compiler made of it.

An interpreted kernel cannot be compiled and the mode is one for a process, so the work is done by
`python -m specdec_teach.exercises.ahead`, without TRITON_INTERPRET. Invariant: nothing is launched and no time is
measured. It does not know what a kernel computes.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

__all__ = ["Compiled", "Refused", "compile_for", "overflows"]

_HEAD = "import triton\nimport triton.language as tl\n\n\n"
_INSTRUCTION = re.compile(r"^\s+(?:@!?%\w+\s+)?[a-z][\w.:]*\s.*?;", re.MULTILINE)
_PLACE = re.compile(r"#loc\d*|loc\([^()]*(?:\([^()]*\))?\)")


class Refused(Exception):
    """The compiler's last word on a kernel that it does not accept."""


@final
@dataclass(frozen=True, slots=True)
class Compiled:
    """What a kernel needs: a thread's registers, spills to local memory, and the products that may overflow 32 bits.

    `ptx`: the instructions, without comments, declarations and the places in the source.
    """

    target: str
    registers: int
    spills: int
    overflows: tuple[str, ...]
    ptx: tuple[str, ...]


def compile_for(
    capability: int, kernel: Any, signature: dict[str, str], constants: dict[str, int], **options: Any
) -> Compiled:
    """Return what becomes of `kernel` for an NVIDIA GPU of that compute capability (90 is sm_90).

    `kernel`: "module:name", or a function under @triton.jit that needs nothing but `triton` and `tl`. `signature`: the
    type of each run-time argument, such as "*fp32" or "i32"; `constants`: its constexprs. Raises Refused.
    """
    job: dict[str, Any] = {"capability": capability, "constants": constants, "options": options}
    job["signature"] = signature | dict.fromkeys(constants, "constexpr")
    if isinstance(kernel, str):
        job["module"], _, job["name"] = kernel.partition(":")
    else:
        job |= {"source": textwrap.dedent(inspect.getsource(kernel.fn)), "name": kernel.fn.__name__}
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-m", __name__]
    done = subprocess.run(command, input=json.dumps(job), env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused((done.stderr.strip() or "the compiler gave no reason").splitlines()[-1])
    found = json.loads(done.stdout.splitlines()[-1])
    ptx = tuple(found["ptx"])
    return Compiled(found["target"], found["registers"], found["spills"], tuple(found["overflows"]), ptx)


def overflows(ttir: str, width: str = "V") -> tuple[str, ...]:
    r"""Return the 32-bit products of a program's number and the vocabulary's size.

    >>> overflows("%r = tt.get_program_id x : i32\n%a = arith.muli %r, %V : i32")
    ('%a',)
    >>> overflows("%r = tt.get_program_id x : i32\n%s = arith.extsi %r : i32 to i64\n%a = arith.muli %s, %V : i64")
    ()
    """
    comes_from: dict[str, frozenset[str]] = {f"%{width}": frozenset({"width"})}
    found = []
    for line in ttir.splitlines():
        made = re.match(r"\s*(%\w+)(?::\d+)? = ([\w.]+)(.*)", _PLACE.sub("", line))
        if not made:
            continue
        name, operation, rest = made.groups()
        origins = _union(comes_from.get(operand, frozenset()) for operand in re.findall(r"%\w+", rest))
        if operation == "tt.get_program_id":
            origins |= {"program"}
        if operation.startswith(("arith.cmp", "tt.load")):
            origins = frozenset()
        comes_from[name] = origins
        if operation == "arith.muli" and origins == {"program", "width"} and re.search(r"\bi32\b|xi32>", rest):
            found.append(name)
    return tuple(found)


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)


def _main() -> None:
    """Read one job from the standard input, compile, and print the result as one line of JSON."""
    import importlib
    import importlib.util

    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    job = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as folder:
        if "source" in job:
            path = Path(folder) / "kernel.py"
            path.write_text(_HEAD + job["source"], encoding="utf-8")
            spec = importlib.util.spec_from_file_location("kernel", path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(job["module"])
        kernel = getattr(module, job["name"])
        order = {name: job["signature"][name] for name in kernel.arg_names}
        source = ASTSource(kernel, order, constexprs=job["constants"])
        compiled = triton.compile(source, target=GPUTarget("cuda", job["capability"], 32), options=job["options"])
        cubin = Path(folder) / "kernel.cubin"
        cubin.write_bytes(compiled.asm["cubin"])
        tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
        usage, code = (
            subprocess.run([tool, option, cubin], capture_output=True, text=True, check=True).stdout
            for option in ("-res-usage", "-sass")
        )
    target = re.search(r"^\.target (sm_\d+)", compiled.asm["ptx"], re.MULTILINE)
    registers = re.search(r"REG:(\d+)", usage)
    assert target is not None
    assert registers is not None
    result = {"target": target[1], "registers": int(registers[1])}
    # A spill is a store to, or a load from, the thread's local memory.
    spills = len(re.findall(r"\b(?:STL|LDL)\b", code))
    ptx = [" ".join(line.split()) for line in _INSTRUCTION.findall(compiled.asm["ptx"])]
    print(json.dumps(result | {"spills": spills, "overflows": overflows(compiled.asm["ttir"]), "ptx": ptx}))


if __name__ == "__main__":
    _main()
