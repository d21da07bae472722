"""Check and time the verification kernels on one GPU, in a few minutes.

    python benchmarks/gpu_verify.py [--json FILE]
    TRITON_INTERPRET=1 python benchmarks/gpu_verify.py --smoke

1. Answers: the kernels against the torch reference in float32 (equal, to the token) and in float64 (but for ties).
2. Law: a chi-square over a million rows for each rule.
3. Merge: the same rows many times, other numbers of splits, two streams at once; every answer is the first.
4. Cache: append and advance captured in a CUDA graph and replayed.
5. Time: one verification (its kernels replayed as a CUDA graph, and as a call from Python) against the torch reference
   run eagerly, and against the time that reading what the rule needs must take at the bandwidth of a plain copy. Cold
   cache, medians.
6. Attention: the paged kernel against its reference in float64, and its time against torch's attention over the same
   slots, gathered beforehand and gathered each time, and against the time to read K and V.
7. Logits: verification from bfloat16 logits in a workspace, captured once and replayed on other inputs, against the
   reference behind a torch softmax; its time against that pair, and against the time to read every row once.

--smoke runs the same code at tiny sizes, on a CPU too, to test the script itself: its times say nothing about a GPU.
Prints a short table last; the exit status is 1 when a check failed.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

if __package__:  # imported by a test; a script finds its neighbours by their bare names
    from benchmarks import gpu_attention, gpu_logits
    from benchmarks.gpu_timing import bytes_per_us, captured, median_us
else:
    import gpu_attention
    import gpu_logits
    from gpu_timing import bytes_per_us, captured, median_us
from specdec_kernels import advance_lengths, append_kv, reference, triton_launch

RULES = ("rejection", "block", "coupled")


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything; `smoke` is small enough for the interpreter."""

    widths: tuple[int, ...] = (32_000, 128_256, 262_144)
    batches: tuple[int, ...] = (1, 8, 32)
    drafts: int = 4
    law_rows: int = 1 << 20
    merges: int = 2000
    rounds: int = 40
    flush_bytes: int = 512 << 20

    @classmethod
    def smoke(cls) -> Sizes:
        """Return sizes that take seconds on a CPU."""
        return cls((200,), (2,), 2, 64, 3, 1, 1 << 12)


def inputs(batch: int, length: int, width: int, device: str, seed: int = 0) -> dict[str, Any]:
    """Drafts drawn from a q that is near p; float32."""
    generator = torch.Generator(device).manual_seed(seed)
    logits = 3.0 * torch.randn(batch, length + 1, width, generator=generator, device=device)
    p = logits.softmax(-1)
    q = (logits[:, :length] + 0.7 * torch.randn(batch, length, width, generator=generator, device=device)).softmax(-1)
    drafts = torch.multinomial(q.flatten(0, 1), 1, generator=generator).view(batch, length)
    numbers = torch.arange(batch, device=device)
    return {
        "drafts": drafts,
        "q": q,
        "p": p,
        "seeds": numbers + 1000 * seed,
        "positions": numbers * 7,
        "uniforms": None,
    }


def kernel(given: dict[str, Any], rule: str, splits: int | None = None, tile: int | None = None) -> tuple[Any, Tensor]:
    """Launch; under the coupled rule without q."""
    q = None if rule == "coupled" else given["q"]
    numbers = (given["seeds"], given["positions"], given["uniforms"])
    return triton_launch.verify(given["drafts"], q, given["p"], *numbers, rule, splits=splits, tile=tile)


def eager(given: dict[str, Any], rule: str, dtype: torch.dtype = torch.float32) -> tuple[Any, Tensor]:
    """The torch reference on the same device."""
    q = None if rule == "coupled" else given["q"].to(dtype)
    numbers = (given["seeds"], given["positions"], given["uniforms"])
    return reference.verify(given["drafts"], q, given["p"].to(dtype), *numbers, rule)


def answers(sizes: Sizes, device: str) -> dict[str, Any]:
    """Count the rows where the kernel and the two references differ."""
    rows = narrow = wide = 0
    for width in sizes.widths:
        for batch in sizes.batches:
            for rule in RULES:
                given = inputs(batch, sizes.drafts, width, device, seed=width % 97 + batch)
                found = kernel(given, rule)[0].tokens
                rows += batch
                narrow += int((found != eager(given, rule)[0].tokens).any(-1).sum())
                wide += int((found != eager(given, rule, torch.float64)[0].tokens).any(-1).sum())
    return {"rows": rows, "differ_float32": narrow, "differ_float64": wide, "ok": narrow == 0 and wide <= rows // 50}


def law(sizes: Sizes, device: str) -> dict[str, Any]:
    """Chi-square of the first emitted token against p, over many seeds, for each rule."""
    width, length, chunk = 64, 3, min(sizes.law_rows, 1 << 16)
    base = inputs(1, length, width, device, seed=5)
    result: dict[str, Any] = {"rows": sizes.law_rows, "ok": True}
    for rule in RULES:
        counts = torch.zeros(width, dtype=torch.float64, device=device)
        for start in range(0, sizes.law_rows, chunk):
            generator = torch.Generator(device).manual_seed(start + 1)
            q = base["q"][0]
            drafts = torch.multinomial(q, chunk, replacement=True, generator=generator).T.contiguous()
            given = {
                "drafts": drafts,
                "q": q.expand(chunk, -1, -1),
                "p": base["p"].expand(chunk, -1, -1),
                "seeds": torch.arange(start, start + chunk, device=device),
                "positions": torch.zeros(chunk, dtype=torch.int64, device=device),
                "uniforms": None,
            }
            counts += torch.bincount(kernel(given, rule)[0].tokens[:, 0], minlength=width)
        expected = base["p"][0, 0].double() / base["p"][0, 0].double().sum() * sizes.law_rows
        z = chi_square_z(counts, expected)
        result[rule] = round(z, 2)
        result["ok"] = result["ok"] and abs(z) < 4.5
    return result


def chi_square_z(counts: Tensor, expected: Tensor) -> float:
    """Return the normal score of a chi-square statistic (Wilson and Hilferty); cells below 5 are put together."""
    small = expected < 5
    parts = [(counts[~small], expected[~small])]
    if bool(small.any()) and float(expected[small].sum()) >= 1:
        parts.append((counts[small].sum()[None], expected[small].sum()[None]))
    statistic = sum(float(((c - e) ** 2 / e).sum()) for c, e in parts)
    freedom = max(1, sum(len(c) for c, _ in parts) - 1)
    return ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))


def merge(sizes: Sizes, device: str) -> dict[str, Any]:
    """Launch again and again with other splits, on two streams on a GPU, and count answers that are not the first."""
    given = inputs(4, sizes.drafts, sizes.widths[0], device, seed=9)
    streams = [torch.cuda.Stream(), torch.cuda.Stream()] if device == "cuda" else [None]
    first = {rule: kernel(given, rule, splits=1)[0].tokens for rule in RULES}
    if device == "cuda":
        torch.cuda.synchronize()
    tile = 256 if sizes.widths[0] >= 1024 else 64
    counted = [torch.zeros((), dtype=torch.int64, device=device) for _ in streams]
    for turn in range(sizes.merges):
        rule, lane = RULES[turn % 3], turn % len(streams)
        with torch.cuda.stream(streams[lane]) if streams[lane] is not None else contextlib.nullcontext():
            found = kernel(given, rule, splits=1 + (turn * 7) % 97, tile=tile)[0].tokens
            counted[lane] += (found != first[rule]).any()
    if device == "cuda":
        torch.cuda.synchronize()
    wrong = int(sum(counted))
    return {"launches": sizes.merges, "differ": wrong, "ok": wrong == 0}


def cache(device: str) -> dict[str, Any]:
    """Capture one append and one advance, replay them three times, and compare with plain indexing."""
    caches = [torch.zeros(3, 2, 40, 8, device=device) for _ in range(2)]
    new = [torch.randn(3, 2, 5, 8, device=device) for _ in range(2)]
    lengths, accepted = torch.tensor([0, 3, 9], device=device), torch.tensor([4, 1, -1], device=device)

    def cycle() -> None:
        append_kv(*caches, *new, lengths, backend="triton")
        advance_lengths(lengths, accepted, capacity=40, backend="triton")

    start = lengths.clone()
    again = captured(cycle, device)
    lengths.copy_(start)
    right = [torch.zeros_like(it) for it in caches]
    for it in caches:
        it.zero_()
    expected = start.tolist()
    for _ in range(3):
        again()
        for row, length in enumerate(expected):
            for mine, entries in zip(right, new, strict=True):
                mine[row, :, length : length + 5] = entries[row]
        expected = [length + n + 1 for length, n in zip(expected, accepted.tolist(), strict=True)]
    same = all(torch.equal(found, mine) for found, mine in zip(caches, right, strict=True))
    return {"replays": 3, "ok": same and lengths.tolist() == expected}


def times(sizes: Sizes, device: str) -> list[dict[str, Any]]:
    """Median microseconds of kernels, call and eager reference, and the floor of the traffic."""
    flush = torch.empty(sizes.flush_bytes, dtype=torch.uint8, device=device)
    speed = bytes_per_us(flush, sizes.rounds, device)
    rows = []
    for width in sizes.widths:
        for batch in sizes.batches:
            given = inputs(batch, sizes.drafts, width, device)
            for rule in RULES:
                call = functools.partial(kernel, given, rule)
                fast = median_us(captured(call, device), flush, sizes.rounds, device)
                called = median_us(call, flush, sizes.rounds, device)
                slow = median_us(functools.partial(eager, given, rule), flush, max(2, sizes.rounds // 8), device)
                read = (
                    {"rejection": 2, "block": 2 * sizes.drafts, "coupled": sizes.drafts + 1}[rule] * batch * width * 4
                )
                floor = read / speed
                rows.append({"V": width, "B": batch, "rule": rule, "kernel": fast, "call": called})
                rows[-1] |= {"eager": slow, "floor": floor}
    return rows


def main() -> int:
    """Run all parts and print; return the exit status."""
    parser = argparse.ArgumentParser(description="Check and time the verification kernels on one GPU.")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes; runs on a CPU with TRITON_INTERPRET=1")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not args.smoke:
        print("no GPU here; --smoke with TRITON_INTERPRET=1 tests the script itself")
        return 2
    sizes = Sizes.smoke() if args.smoke else Sizes()
    looks = gpu_attention.Sizes.smoke() if args.smoke else gpu_attention.Sizes()
    start = time.perf_counter()
    result: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "CPU, interpreted: no figure here is a GPU's",
        "torch": torch.__version__,
        "answers": answers(sizes, device),
        "law": law(sizes, device),
        "merge": merge(sizes, device),
        "cache": cache(device),
        "attention": gpu_attention.check(looks, device),
        "logits": gpu_logits.check(sizes, device),
        "times": times(sizes, device),
        "logits_times": gpu_logits.times(sizes, device),
        "attention_times": gpu_attention.times(looks, device),
    }
    checks = {name: result[name] for name in ("answers", "law", "merge", "cache", "attention", "logits")}
    print(f"{result['device']}, torch {result['torch']}, {time.perf_counter() - start:.0f} s")
    for name, check in checks.items():
        rest = ", ".join(f"{key} {value}" for key, value in check.items() if key != "ok")
        print(f"{'ok  ' if check['ok'] else 'FAIL'} {name}: {rest}")
    print(
        f"{'V':>8} {'B':>3} {'rule':<10} {'kernel µs':>10} {'call µs':>9} {'eager µs':>9} {'× eager':>8} {'× floor':>8}"
    )
    for row in result["times"]:
        name = f"{row['V']:>8} {row['B']:>3} {row['rule']:<10}"
        ratios = f"{row['eager'] / row['kernel']:>8.1f} {row['kernel'] / row['floor']:>8.1f}"
        print(f"{name} {row['kernel']:>10.1f} {row['call']:>9.1f} {row['eager']:>9.1f} {ratios}")
    gpu_logits.show(result["logits_times"])
    gpu_attention.show(result["attention_times"])
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if all(check["ok"] for check in checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
