"""Compile every kernel for every kind of GPU, without a GPU, and write down what each needs.

    python benchmarks/kernel_resources.py [--targets sm_80,sm_90,sm_100,gfx942] [--json] [--write]

Registers, spills and static shared memory come from the compiled program itself (cuobjdump for NVIDIA, the assembly for
AMD). --json prints the figures for the tests, --write makes benchmarks/kernel_resources.md. Nothing is launched, and no
time is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if os.environ.get("TRITON_INTERPRET", "0") != "0":
    sys.exit("TRITON_INTERPRET is set: interpreted kernels cannot be compiled; unset it")

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from specdec_kernels import (
    triton_attention,
    triton_block,
    triton_cache,
    triton_chain,
    triton_coupled,
    triton_launch,
    triton_logits,
    triton_softmax,
)

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
TABLE = Path(__file__).with_suffix(".md")

# Pointers by name; what is left is an int32. A kernel's `p_ptr` and `q_ptr` take the dtype of the variant.
POINTERS = {
    "draft_ptr": "*i64",
    "statistics_ptr": "*fp32",
    "partial_ptr": "*fp32",
    "seed_ptr": "*i64",
    "position_ptr": "*i64",
    "uniform_ptr": "*fp32",
    "scratch_ptr": "*i64",
    "candidate_ptr": "*i64",
    "accepted_ptr": "*i64",
    "tokens_ptr": "*i64",
    "degenerate_ptr": "*i1",
    "status_ptr": "*i64",
    "lengths_ptr": "*i64",
    "sources_ptr": "*i64",
    "targets_ptr": "*i64",
    "drafted_ptr": "*i64",
    "tables_ptr": "*i32",
    "counts_ptr": "*i64",
    "tree_ptr": "*i1",
    "depths_ptr": "*i64",
}
SCALARS = {"scale": "fp32"}


@dataclass(frozen=True, slots=True)
class Variant:
    """One kernel with one set of compile-time arguments, and the dtype of what it reads."""

    name: str
    kernel: Any
    constants: dict[str, Any]
    dtype: str = "fp32"
    options: dict[str, Any] = field(default_factory=lambda: dict(triton_launch.OPTIONS))
    aligned: tuple[str, ...] = ()

    def attributes(self) -> dict[tuple[int], list[list[Any]]]:
        """Return what a launch would find out: which arguments are multiples of 16."""
        return {(self.kernel.arg_names.index(name),): [["tt.divisibility", 16]] for name in self.aligned}

    def signature(self) -> dict[str, str]:
        """Return the type of every argument, as the compiler wants it."""
        types = {}
        for name in self.kernel.arg_names:
            if name in self.constants:
                types[name] = "constexpr"
            elif name == "temperature":
                types[name] = "*fp32" if self.constants["PER_ROW"] else "fp32"
            elif name.endswith("_ptr"):
                types[name] = POINTERS.get(name, f"*{self.dtype}")
            else:
                types[name] = SCALARS.get(name, "i32")
        return types


def variants() -> Iterator[Variant]:
    """Every kernel, in every form that runs another path."""
    blocks = {"BLOCK_K": 8, "BLOCK_V": triton_launch.TILE}
    forms: list[tuple[str, dict[str, Any], str]] = [
        ("probabilities, one-hot", {"HAS_Q": False, "LOGITS": False, "PER_ROW": False, "GIVEN_U": False}, "fp32"),
        ("probabilities", {"HAS_Q": True, "LOGITS": False, "PER_ROW": False, "GIVEN_U": False}, "fp32"),
        ("probabilities, given uniforms", {"HAS_Q": True, "LOGITS": False, "PER_ROW": False, "GIVEN_U": True}, "fp32"),
        ("bfloat16 logits", {"HAS_Q": True, "LOGITS": True, "PER_ROW": True, "GIVEN_U": False}, "bf16"),
    ]
    for form, constants, dtype in forms:
        yield Variant(f"rejection, {form}", triton_chain.chain_kernel, blocks | constants, dtype)
        yield Variant(f"block, {form}", triton_block.block_kernel, blocks | constants, dtype)
    yield Variant("coupled, probabilities", triton_coupled.coupled_kernel, blocks)
    tiled = {**blocks, "BLOCK_TILES": 256}
    for rule in ("rejection", "block", "coupled"):
        for dtype, per_row in (("bf16", True), ("fp32", False)):
            rules = {"COUPLED": rule == "coupled", "BLOCK_RULE": rule == "block"}
            one_launch = {**tiled, **rules, "PER_ROW": per_row, "GIVEN_U": False}
            yield Variant(f"{rule}, {dtype} logits, one launch", triton_logits.logits_kernel, one_launch, dtype)
    for dtype in ("fp32", "bf16"):
        statistics = tiled | {"PER_ROW": True}
        yield Variant(f"softmax statistics, {dtype}", triton_softmax.statistics_kernel, statistics, dtype)
    yield Variant("append K and V, bf16", triton_cache.append_kernel, {"BLOCK": 1024}, "bf16")
    yield Variant("move slots of K and V together, bf16", triton_cache.compact_kernel, {"BLOCK": 128}, "bf16")
    for rollback in (False, True):
        name = "roll back" if rollback else "advance"
        yield Variant(f"{name} lengths", triton_cache.move_kernel, {"ROLLBACK": rollback, "BLOCK": 32})
    yield from attention_variants()


def attention_variants() -> Iterator[Variant]:
    """Attention, four query heads a kv head: a chain of 5 tokens and a tree of 16, blocks of 16; and the merge.

    Also over a memory that is one block, as recorded cycles read it.
    """
    kernel = triton_attention.attention_kernel
    aligned = tuple(it for it in kernel.arg_names if it.endswith(("_ptr", "_slot", "_head")))
    for form, dtype, rows, tree, block in (
        ("chain, bf16", "bf16", 20, False, 16),
        ("chain in one block, bf16", "bf16", 20, False, 4096),
        ("tree, bf16", "bf16", 64, True, 16),
        ("chain, fp32", "fp32", 20, False, 16),
        ("tree, fp32", "fp32", 64, True, 16),
    ):
        tile_q, tile_t, tile_d = triton_attention.plan(rows, 128, 2 if dtype == "bf16" else 4)
        sizes = {"D": 128, "TREE": tree, "BLOCK_SIZE": block, "TILE_Q": tile_q, "TILE_T": tile_t, "TILE_D": tile_d}
        yield Variant(f"attention, {form}", kernel, sizes, dtype, triton_attention.OPTIONS, aligned)
    merge = {"D": 128, "TILE_S": triton_attention.MOST_SPLITS, "TILE_D": 128}
    yield Variant("attention, merge", triton_attention.merge_kernel, merge, "bf16", triton_attention.OPTIONS)


def measure(variant: Variant, target: str) -> dict[str, Any]:
    """Compile one variant for one target; return registers, spills and shared memory, in bytes where they are bytes."""
    source = ASTSource(variant.kernel, variant.signature(), constexprs=variant.constants, attrs=variant.attributes())
    compiled = triton.compile(source, target=TARGETS[target], options=dict(variant.options))
    row: dict[str, Any] = {"kernel": variant.kernel.__name__, "variant": variant.name, "target": target}
    row["narrow_offsets"] = narrow_offsets(compiled.asm["ttir"])
    if target.startswith("sm_"):
        return row | _of_cubin(compiled.asm["cubin"]) | {"shared": compiled.metadata.shared}
    text = compiled.asm["amdgcn"]
    found = {name: int(re.search(rf"\.{name}:\s+(\d+)", text)[1]) for name in ("vgpr_count", "vgpr_spill_count")}
    return row | {
        "registers": found["vgpr_count"],
        "spills": found["vgpr_spill_count"],
        "shared": compiled.metadata.shared,
    }


def narrow_offsets(ttir: str) -> list[str]:
    r"""Return the pointer arguments that something is added to in 32 bits: row × vocabulary would overflow there.

    >>> narrow_offsets("%0 = tt.splat %p_ptr : a -> b\n%1 = tt.addptr %0, %2 : tensor<8x!tt.ptr<f32>>, tensor<8xi32>")
    ['p_ptr']
    """
    origin: dict[str, str] = {}
    found = set()
    for line in ttir.splitlines():
        if splat := re.match(r"\s*(%\w+) = tt\.(?:splat|broadcast) (%\w+) ", line):
            origin[splat[1]] = origin.get(splat[2], splat[2])
        if added := re.search(r"tt\.addptr (%\w+), %\w+ : .*, (?:tensor<\w+x)?(i\d+)", line):
            base = origin.get(added[1], added[1])
            if base.endswith("_ptr") and added[2] == "i32":
                found.add(base[1:])
    return sorted(found)


def _of_cubin(cubin: bytes) -> dict[str, int]:
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        usage = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True)
        code = subprocess.run([tool, "-sass", file.name], capture_output=True, text=True, check=True).stdout
    registers = re.search(r"REG:(\d+)", usage.stdout + usage.stderr)
    assert registers is not None, usage.stdout
    # A spill is a store to, or a load from, the thread's local memory.
    return {"registers": int(registers[1]), "spills": len(re.findall(r"\b(?:STL|LDL)\b", code))}


def table(rows: list[dict[str, Any]]) -> str:
    """Return the figures as a Markdown table, one line a variant."""
    targets = list(dict.fromkeys(row["target"] for row in rows))
    lines = [
        "# What the kernels need",
        "",
        "Made by `python benchmarks/kernel_resources.py --write`; compiled ahead of time, not measured on a GPU.",
        f"Triton {triton.__version__}, {triton_launch.OPTIONS['num_warps']} warps, tiles of {triton_launch.TILE}.",
        "Each cell: registers a thread / spills / bytes of static shared memory.",
        "Attention: heads of 128, stores whose strides are multiples of 16 as those of a real model are.",
        "",
        "| kernel | " + " | ".join(targets) + " |",
        "| --- |" + " --- |" * len(targets),
    ]
    for name in dict.fromkeys(row["variant"] for row in rows):
        mine = {row["target"]: row for row in rows if row["variant"] == name}
        cells = [f"{mine[it]['registers']} / {mine[it]['spills']} / {mine[it]['shared']}" for it in targets]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Compile, and print or write."""
    parser = argparse.ArgumentParser(description="Registers, spills and shared memory of every kernel.")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    rows = [measure(variant, target) for target in args.targets.split(",") for variant in variants()]
    text = json.dumps(rows) if args.json else table(rows)
    print(text)
    if args.write:
        TABLE.write_text(table(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
