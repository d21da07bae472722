"""The part of benchmarks/gpu_verify.py that checks and times paged attention; started by that script.

The baseline is torch's own attention over the same slots, its mask and layout as good for it as they can be made. It
does not know how the kernels split their work.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import torch

if __package__:  # imported by a test; a script finds its neighbours by their bare names
    from benchmarks.gpu_timing import bytes_per_us, captured, median_us
else:
    from gpu_timing import bytes_per_us, captured, median_us
from specdec_kernels import paged_attention

STORES = ("k_store", "v_store")


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything; `smoke` is small enough for the interpreter."""

    contexts: tuple[int, ...] = (1024, 8192, 32_768)
    batches: tuple[int, ...] = (1, 8, 32)
    new: int = 5
    heads: tuple[int, int] = (32, 8)
    head_size: int = 128
    rounds: int = 40
    flush_bytes: int = 512 << 20

    @classmethod
    def smoke(cls) -> Sizes:
        """Return sizes that take seconds on a CPU."""
        return cls((40,), (2,), 3, (4, 2), 16, 1, 1 << 12)


def paged(batch: int, context: int, sizes: Sizes, device: str, dtype: torch.dtype, ragged: bool) -> dict[str, Any]:
    """Arguments of `paged_attention`: blocks of 16 that lie anywhere, NaN in every slot behind a row's last token."""
    generator, (heads, kv_heads), new = torch.Generator(device).manual_seed(batch), sizes.heads, sizes.new
    columns = -(-context // 16)
    tables = torch.randperm(batch * columns, generator=generator, device=device).view(batch, columns)
    lengths = torch.full((batch,), context - new, device=device)
    if ragged:
        lengths = lengths * torch.arange(1, batch + 1, device=device) // batch
    shape, options = (batch * columns * 16, kv_heads, sizes.head_size), {"device": device, "dtype": dtype}
    stores = [torch.randn(shape, generator=generator, **options) for _ in range(2)]
    t = torch.arange(columns * 16, device=device)
    slots = tables[:, t // 16] * 16 + t % 16
    for store in stores:
        store[slots[t >= lengths[:, None] + new]] = math.nan
    q = torch.randn(batch, heads, new, sizes.head_size, generator=generator, **options)
    given = {"q": q, "k_store": stores[0], "v_store": stores[1], "tables": tables.int()}
    return given | {"lengths": lengths, "block_size": 16}


def check(sizes: Sizes, device: str) -> dict[str, Any]:
    """Compare chains, trees and windows of each dtype with float64; `worst` is in units of what the dtype allows."""
    tree = torch.eye(sizes.new, dtype=torch.bool, device=device)
    for node in range(1, len(tree)):
        tree[node] |= tree[(node - 1) // 2]
    result: dict[str, Any] = {"compared": 0, "ok": True}
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        worst, allowed = 0.0, max(2 * torch.finfo(dtype).eps, 5e-6)
        for batch, context in ((b, c) for b in sizes.batches[:2] for c in sizes.contexts[:2]):
            given = paged(batch, context, sizes, device, dtype, ragged=True)
            double = given | {name: given[name].double() for name in ("q", "k_store", "v_store")}
            for form in ({}, {"tree_mask": tree.expand(batch, -1, -1)}, {"window": context // 3}):
                off = paged_attention(**given, **form, backend="triton").double()
                off = off.sub_(paged_attention(**double, **form, backend="torch")).abs().max() / allowed
                worst = max(worst, float(off.nan_to_num(math.inf)))
                result["compared"] += 1
        result[str(dtype).removeprefix("torch.")] = round(worst, 3)
        result["ok"] = result["ok"] and worst <= 1
    return result


def times(sizes: Sizes, device: str) -> list[dict[str, Any]]:
    """Median microseconds of the kernels and of torch's attention, bfloat16, and the floor of the traffic."""
    flush = torch.empty(sizes.flush_bytes, dtype=torch.uint8, device=device)
    speed = bytes_per_us(flush, sizes.rounds, device)
    rows = []
    for context in sizes.contexts:
        for batch in sizes.batches:
            given = paged(batch, context, sizes, device, torch.bfloat16, ragged=False)
            call = functools.partial(paged_attention, **given, backend="triton")
            fast = median_us(captured(call, device), flush, sizes.rounds, device)
            t, new = torch.arange(context, device=device), sizes.new
            slots = given["tables"].long()[:, t // 16] * 16 + t % 16
            # The query heads of a kv head become rows, so that torch reads K and V once too.
            group = sizes.heads[0] // sizes.heads[1]
            sees = (t <= context - new + torch.arange(new, device=device)[:, None]).repeat(group, 1)
            q = given["q"].view(batch, sizes.heads[1], group * new, sizes.head_size)
            gather = functools.partial(lambda g, at: [g[name][at].transpose(1, 2) for name in STORES], given, slots)
            attend = functools.partial(torch.nn.functional.scaled_dot_product_attention, q, attn_mask=sees)
            slow = median_us(functools.partial(attend, *gather()), flush, sizes.rounds, device)
            both = median_us(lambda g=gather, a=attend: a(*g()), flush, max(2, sizes.rounds // 4), device)
            floor = 2 * batch * context * sizes.heads[1] * sizes.head_size * 2 / speed
            rows.append({"T": context, "B": batch, "kernel": fast, "sdpa": slow, "gathered": both, "floor": floor})
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """Print the times."""
    print(f"{'T':>8} {'B':>3} {'attention µs':>21} {'sdpa µs':>9} {'gathered µs':>11} {'× sdpa':>8} {'× floor':>8}")
    for row in rows:
        name = f"{row['T']:>8} {row['B']:>3} {row['kernel']:>21.1f} {row['sdpa']:>9.1f} {row['gathered']:>11.1f}"
        print(f"{name} {row['sdpa'] / row['kernel']:>8.1f} {row['kernel'] / row['floor']:>8.1f}")
