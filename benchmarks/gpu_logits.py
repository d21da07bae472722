"""The part of benchmarks/gpu_verify.py that checks and times verification from logits; started by that script.

Answers are compared with the reference on a torch softmax, from which they may differ where two scores agree but for
the last bits. The baseline is that softmax and reference, run eagerly. It does not know how many launches it takes.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

if __package__:  # imported by a test; a script finds its neighbours by their bare names
    from benchmarks.gpu_timing import bytes_per_us, captured, median_us
else:
    from gpu_timing import bytes_per_us, captured, median_us
from specdec_kernels import Workspace, verify_chain_logits, verify_workspace

FORMS = (("rejection", True), ("block", True), ("coupled", True), ("rejection", False), ("block", False))


def inputs(batch: int, length: int, width: int, device: str, seed: int = 0) -> dict[str, Any]:
    """Arguments of `verify_chain_logits` in bfloat16: drafts drawn from logits that are near the target's."""
    generator = torch.Generator(device).manual_seed(seed)
    x = 3.0 * torch.randn(batch, length + 1, width, generator=generator, device=device)
    y = x[:, :length] + 0.7 * torch.randn(batch, length, width, generator=generator, device=device)
    drafts = torch.multinomial(y.softmax(-1).flatten(0, 1), 1, generator=generator).view(batch, length)
    numbers = torch.arange(batch, device=device)
    given = {"draft_tokens": drafts, "draft_logits": y.bfloat16(), "target_logits": x.bfloat16()}
    return given | {"seeds": numbers + 1000 * seed, "positions": numbers * 7, "temperature": 0.9}


def call(given: dict[str, Any], rule: str, one_hot: bool, backend: str, workspace: Workspace | None = None) -> Any:
    """Verify; with one-hot drafts, without their logits."""
    arguments = given | ({"draft_logits": None} if one_hot else {})
    return verify_chain_logits(**arguments, rule=rule, backend=backend, workspace=workspace)


def check(sizes: Any, device: str) -> dict[str, Any]:
    """Count rows that differ from the reference, in a plain call and in a captured one that is replayed on new inputs.

    `sizes` has `widths`, `batches` and `drafts`.
    """
    rows = differ = replayed = 0
    for width in sizes.widths:
        for batch in sizes.batches:
            workspace = verify_workspace(batch, sizes.drafts, width, device=device)
            for rule, one_hot in FORMS:
                given = inputs(batch, sizes.drafts, width, device)
                again = captured(functools.partial(call, given, rule, one_hot, "triton", workspace), device)
                for seed in (1, 2):
                    fresh = inputs(batch, sizes.drafts, width, device, seed)
                    wanted = call(fresh, rule, one_hot, "torch").tokens
                    differ += int((call(fresh, rule, one_hot, "triton").tokens != wanted).any(-1).sum())
                    for name, tensor in given.items():
                        if isinstance(tensor, torch.Tensor):
                            tensor.copy_(fresh[name])
                    again()
                    replayed += int((workspace.tokens != wanted).any(-1).sum())
                    rows += batch
                    workspace.verdict().check()
    return {"rows": rows, "differ": differ, "replayed": replayed, "ok": max(differ, replayed) <= rows // 200}


def times(sizes: Any, device: str) -> list[dict[str, Any]]:
    """Median microseconds of the captured call and of the eager baseline, and the floor of reading every row once."""
    flush = torch.empty(sizes.flush_bytes, dtype=torch.uint8, device=device)
    speed = bytes_per_us(flush, sizes.rounds, device)
    rows = []
    for width in sizes.widths:
        for batch in sizes.batches:
            given = inputs(batch, sizes.drafts, width, device)
            workspace = verify_workspace(batch, sizes.drafts, width, device=device)
            for rule, one_hot in FORMS:
                fast = functools.partial(call, given, rule, one_hot, "triton", workspace)
                slow = functools.partial(call, given, rule, one_hot, "torch")
                read = (sizes.drafts + 1 + (0 if one_hot else sizes.drafts)) * batch * width * 2
                row = {"V": width, "B": batch, "rule": rule, "drafts": "one-hot" if one_hot else "logits"}
                row["kernel"] = median_us(captured(fast, device), flush, sizes.rounds, device)
                row["eager"] = median_us(slow, flush, max(2, sizes.rounds // 8), device)
                rows.append(row | {"floor": read / speed})
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """Print the table."""
    print(f"{'V':>8} {'B':>3} {'from logits':<18} {'kernel µs':>10} {'eager µs':>9} {'× eager':>8} {'× floor':>8}")
    for row in rows:
        name = f"{row['V']:>8} {row['B']:>3} {row['rule'] + ', ' + row['drafts']:<18}"
        ratios = f"{row['eager'] / row['kernel']:>8.1f} {row['kernel'] / row['floor']:>8.1f}"
        print(f"{name} {row['kernel']:>10.1f} {row['eager']:>9.1f} {ratios}")
