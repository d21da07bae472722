"""The cache kernels do what their references do, on strided caches too."""

from __future__ import annotations

import pytest
import torch

from specdec_kernels import advance_lengths, append_kv, compact_kv, rollback_lengths


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("strided", [False, True])
def test_append(dtype: torch.dtype, strided: bool) -> None:
    """Slots inside, at the end, past it and before it; caches that lie as [B, T, H, D]."""
    generator = torch.Generator().manual_seed(1)
    shape, news = ((3, 9, 2, 5), (3, 4, 2, 5)) if strided else ((3, 2, 9, 5), (3, 2, 4, 5))
    caches = [torch.randn(shape, generator=generator).to(dtype) for _ in range(4)]
    new = [torch.randn(news, generator=generator).to(dtype) for _ in range(2)]
    if strided:
        caches, new = [x.transpose(1, 2) for x in caches], [x.transpose(1, 2) for x in new]
    caches[2].copy_(caches[0])
    caches[3].copy_(caches[1])
    lengths = torch.tensor([0, 7, -2])
    append_kv(*caches[:2], *new, lengths, backend="torch")
    append_kv(*caches[2:], *new, lengths, backend="triton")
    assert torch.equal(caches[0], caches[2])
    assert torch.equal(caches[1], caches[3])


def test_lengths() -> None:
    generator = torch.Generator().manual_seed(2)
    for rows in (1, 3, 40):
        start = torch.randint(0, 30, (rows,), generator=generator)
        drafted = torch.randint(0, 6, (rows,), generator=generator)
        accepted = (drafted - torch.randint(0, 7, (rows,), generator=generator)).clamp_min(-1)
        moved = [start.clone() for _ in range(4)]
        advance_lengths(moved[0], accepted, capacity=31, backend="torch")
        advance_lengths(moved[1], accepted, capacity=31, backend="triton")
        rollback_lengths(moved[2], drafted, accepted, capacity=31, backend="torch")
        rollback_lengths(moved[3], drafted, accepted, capacity=31, backend="triton")
        assert torch.equal(moved[0], moved[1])
        assert torch.equal(moved[2], moved[3])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("strided", [False, True])
def test_compact(dtype: torch.dtype, strided: bool) -> None:
    """Paths of several lengths, one that stays, slots outside, and caches that lie as [B, T, H, D]."""
    generator = torch.Generator().manual_seed(3)
    shape = (3, 9, 2, 5) if strided else (3, 2, 9, 5)
    caches = [torch.randn(shape, generator=generator).to(dtype) for _ in range(2)]
    if strided:
        caches = [x.transpose(1, 2) for x in caches]
    twins = [x.clone() for x in caches]
    sources = torch.tensor([[3, 5, 8], [1, 2, -1], [9, 4, 0]])
    targets = torch.tensor([[2, 3, 4], [1, 2, 3], [0, -1, 12]])
    compact_kv(*caches, sources, targets, backend="torch")
    compact_kv(*twins, sources, targets, backend="triton")
    for cache, twin in zip(caches, twins, strict=True):
        assert torch.equal(cache, twin)


def test_compact_in_order() -> None:
    """An entry reads what an earlier one has written, in both."""
    one, two = torch.arange(6.0).view(1, 1, 6, 1), torch.arange(6.0).view(1, 1, 6, 1)
    slots = torch.tensor([[5, 1, 2]]), torch.tensor([[1, 2, 3]])
    compact_kv(one, one.clone(), *slots, backend="torch")
    compact_kv(two, two.clone(), *slots, backend="triton")
    assert one.flatten().tolist() == two.flatten().tolist() == [0, 5, 5, 5, 4, 5]
