"""The kernels' random numbers are the reference's, bit for bit."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from specdec_kernels import noise
from specdec_kernels.triton_noise import race_time, race_times, uniform


@triton.jit
def _numbers_kernel(u_ptr, times_ptr, seed_ptr, number_ptr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    seed, number = tl.load(seed_ptr), tl.load(number_ptr)
    k = tl.arange(0, BLOCK)
    tl.store(u_ptr + k, uniform(seed, number + k, 1))
    tl.store(times_ptr + k, race_times(seed, number, 2, 3, BLOCK))


@triton.jit
def _time_kernel(word_ptr, out_ptr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    k = tl.arange(0, BLOCK)
    word = tl.load(word_ptr + k).to(tl.uint32)
    tl.store(out_ptr + k, race_time(word))


def test_numbers_have_the_references_bits() -> None:
    """For seeds of both signs and numbers that cross 2³², a tile that is not the first."""
    for seed, number in ((7, 0), (-(2**60) - 5, 2**32 - 100), (2**63 - 1, 2**45)):
        u, times = torch.empty(256), torch.empty(256)
        seeds, numbers = torch.tensor([seed]), torch.tensor([number])
        _numbers_kernel[(1,)](u, times, seeds, numbers, BLOCK=256)
        assert torch.equal(u, noise.acceptance_uniforms(seeds, numbers, 256)[0])
        assert torch.equal(times, noise.race_times(seeds, noise.TOKEN, numbers, 1024)[0, 768:])


def test_times_have_the_references_bits() -> None:
    """On 64 thousand words of every size, both ends included."""
    generator = torch.Generator().manual_seed(0)
    words = torch.randint(0, 2**32, (1 << 16,), generator=generator)
    words[1 << 14 : 1 << 15] >>= torch.randint(0, 32, (1 << 14,), generator=generator)
    words[:2048], words[2048:4096] = torch.arange(2048), 2**32 - 1 - torch.arange(2048)
    out = torch.empty(1 << 16)
    _time_kernel[(1,)](words, out, BLOCK=1 << 16)
    assert torch.equal(out, noise.race_time(words))
