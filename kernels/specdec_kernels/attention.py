"""Attention of a verify step: the new tokens of every row look back over a paged cache, and at each other.

A store holds K and V by slot; a row's table names its blocks, and position t lies in slot `tables[t // block_size] ·
block_size + t % block_size`. A row has C computed tokens (`lengths`); the K and V of its N new tokens, the pending one
and the drafts, are already at positions C … C + N − 1, and each asks one query.
Invariant: a query sees the computed tokens (within the window) and those new ones that precede it, in order or in a
draft tree; a slot that no query of its row sees changes nothing, whatever it holds. Both backends answer alike, but for
rounding. It does not know who writes the slots, who owns the blocks, or where the queries come from.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from specdec_kernels import backend as backends
from specdec_kernels.errors import InvalidInput, shown, whole

__all__ = ["attend", "paged_attention"]

_MOST_QUERIES = 64
_MOST_POSITIONS = 2**31 - 2**8
_NO_WINDOW = 2**31 - 1


def paged_attention(
    q: Tensor,
    k_store: Tensor,
    v_store: Tensor,
    tables: Tensor,
    lengths: Tensor,
    *,
    block_size: int,
    counts: Tensor | None = None,
    scale: float | None = None,
    tree_mask: Tensor | None = None,
    window: int | None = None,
    backend: str = "auto",
) -> Tensor:
    """Return what each query reads, `[B, Hq, N, D]` in q's dtype; the softmax is float32 (float64 for float64).

    Shapes: `q` `[B, Hq, N, D]`, N at most 64; `k_store`, `v_store` `[S, H, D]` in q's dtype (float32, float16,
    bfloat16, on torch also float64), Hq a multiple of H, S one of `block_size`, the last stride 1; `tables` int32 or
    int64 `[B, M]`, −1 where a row has no block; `lengths` int64 `[B]`; `counts` int64 `[B]`: how many of the N queries
    a row has, all if None. The others get zeros, and a row without any may have any length. `scale` is 1/√D if None.
    Query i sees positions up to its own; with `tree_mask` bool `[B, N, N]`, all below C and C + j where entry [b, i, j]
    is true: its ancestors and itself. A query's position is C + i, in a tree C + its depth; with a `window` it sees
    positions above that less `window`, of new tokens too, and needs no block that lies before them.

    Raises InvalidInput for arguments that do not fit and, where the tables lie on the CPU or torch computes, for a
    needed block outside the store and a length or count that does not fit. On a GPU Triton reads no value on the host:
    such a row answers with NaN, and nothing outside the store is read.
    Sources: Kwon et al. 2023 (blocks); Milakov and Gimelshein 2018 (online softmax); Miao et al. 2024 (tree mask).

    >>> k = torch.zeros(4, 1, 8)
    >>> v = torch.tensor([9.0, 0.0, 3.0, 6.0])[:, None, None].repeat(1, 1, 8)
    >>> tables, lengths = torch.tensor([[1, 0]]), torch.tensor([1])  # positions 0, 1, 2 lie in slots 2, 3, 0
    >>> paged_attention(torch.zeros(1, 1, 2, 8), k, v, tables, lengths, block_size=2)[0, 0, :, 0]
    tensor([4.5000, 6.0000])
    """
    # 1. Everything that can be refused without reading a value.
    chosen = backends.choose(backend, q, k_store, v_store, tables, lengths, counts, tree_mask)
    _check_shapes(q, k_store, v_store, tables, lengths, counts, tree_mask, block_size, chosen)
    wide = _NO_WINDOW if window is None else whole(window)
    if wide is None or wide < 1:
        raise InvalidInput(f"window must be a whole number, at least 1, or None: {shown(window)}")
    wide = min(wide, _NO_WINDOW)
    factor = q.shape[3] ** -0.5 if scale is None else scale
    if not math.isfinite(factor):
        raise InvalidInput(f"scale must be a finite number: {scale}")
    if counts is None:
        counts = torch.full_like(lengths, q.shape[2])
    # 2. Values, where reading them holds nobody up.
    if chosen == "torch" or tables.device.type == "cpu":
        _check_values(tables, lengths, counts, q.shape[2], k_store.shape[0] // block_size, block_size, wide)
    # 3. In a tree a token's position is its depth; within it, the window is the mask's.
    depths = None
    if tree_mask is not None:
        depths = (tree_mask.sum(-1) - 1).clamp_min(0)
        tree_mask = tree_mask & (depths[:, None, :] > depths[:, :, None] - wide)
    arguments = (q, k_store, v_store, tables, lengths, counts, tree_mask, depths)
    if chosen == "triton":
        from specdec_kernels import triton_attention

        return triton_attention.attend(*arguments, wide, block_size, float(factor))
    return attend(*arguments, wide, block_size, float(factor))


def attend(
    q: Tensor,
    k_store: Tensor,
    v_store: Tensor,
    tables: Tensor,
    lengths: Tensor,
    counts: Tensor,
    tree: Tensor | None,
    depths: Tensor | None,
    window: int,
    block_size: int,
    scale: float,
) -> Tensor:
    """Return `[B, Hq, N, D]`: gather every row's slots, say who sees what, and let torch attend.

    Arguments as in `paged_attention`, complete and checked. `tree` bool and `depths` int64 `[B, N]` come together, the
    window already applied among the new tokens.

    >>> one = torch.ones(1, dtype=torch.int64)
    >>> q, k = torch.zeros(1, 1, 1, 8), torch.ones(2, 1, 8)
    >>> attend(q, k, k, one[:, None] - 1, one, one, None, None, 9, 2, 1.0)[0, 0, 0, 0]
    tensor(1.)
    """
    queries = q.shape[2]
    end_B = torch.where(counts > 0, lengths + counts, 0)
    reach = int(end_B.max()) if len(end_B) else 0
    if reach == 0 or q.numel() == 0:
        return torch.zeros_like(q)
    # 1. The slot of every position that a query of the row sees; the others read slot 0, and it counts as zeros.
    t_T = torch.arange(reach, device=q.device)
    needed_BT = _needed(t_T, lengths, end_B, window)
    slot_BT = tables.long()[:, t_T // block_size] * block_size + t_T % block_size
    slot_BT = torch.where(needed_BT, slot_BT, 0)
    dtype = torch.promote_types(q.dtype, torch.float32)
    k_BHTD, v_BHTD = (
        store[slot_BT].masked_fill(~needed_BT[:, :, None, None], 0).transpose(1, 2).to(dtype)
        for store in (k_store, v_store)
    )
    # 2. Who sees what: computed tokens within the window, new ones by order or by the tree.
    i_N = torch.arange(queries, device=q.device)
    j_BT = t_T - lengths[:, None]
    position_BN = lengths[:, None] + (i_N if depths is None else depths)
    sees_BNT = t_T > (position_BN - window)[:, :, None]
    if tree is None:
        sees_BNT = sees_BNT & (j_BT[:, None, :] <= i_N[:, None])
    else:
        index = j_BT.clamp(0, queries - 1)[:, None, :].expand(-1, queries, -1)
        sees_BNT = torch.where(j_BT[:, None, :] < 0, sees_BNT, tree.gather(2, index))
    sees_BNT = sees_BNT & needed_BT[:, None, :] & (i_N < counts[:, None])[:, :, None]
    # 3. A query that sees nothing gets zeros.
    output = scaled_dot_product_attention(
        q.to(dtype), k_BHTD, v_BHTD, attn_mask=sees_BNT[:, None], scale=scale, enable_gqa=True
    )
    return torch.where(sees_BNT.any(-1)[:, None, :, None], output, 0).to(q.dtype)


def _needed(t_T: Tensor, lengths: Tensor, end_B: Tensor, window: int) -> Tensor:
    """Whether some query of the row sees the position: from the first one's window to the last new token."""
    return (t_T > lengths[:, None] - window) & (t_T < end_B[:, None])


def _check_shapes(
    q: Tensor,
    k_store: Tensor,
    v_store: Tensor,
    tables: Tensor,
    lengths: Tensor,
    counts: Tensor | None,
    tree_mask: Tensor | None,
    block_size: int,
    backend: str,
) -> None:
    dtypes = [torch.float32, torch.float16, torch.bfloat16] + ([torch.float64] if backend == "torch" else [])
    if q.ndim != 4 or q.dtype not in dtypes or q.shape[2] > _MOST_QUERIES or q.shape[3] == 0:
        allowed = ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise InvalidInput(f"q must be [B, Hq, N, D] of {allowed} with N at most {_MOST_QUERIES}, not {_of(q)}")
    batch, heads, queries, size = q.shape
    if k_store.ndim != 3 or k_store.shape[2] != size or k_store.dtype != q.dtype or v_store.dtype != q.dtype:
        raise InvalidInput(
            f"k_store and v_store must be [S, H, D] = [S, H, {size}] in {q.dtype}, "
            f"not {_of(k_store)} and {_of(v_store)}"
        )
    if v_store.shape != k_store.shape:
        raise InvalidInput(f"v_store must be {list(k_store.shape)} as k_store is, not {_of(v_store)}")
    if k_store.shape[1] == 0 or heads % k_store.shape[1]:
        raise InvalidInput(f"the {heads} heads of q must be a multiple of the store's {k_store.shape[1]}")
    if size > 1 and (k_store.stride(2) != 1 or v_store.stride(2) != 1):
        raise InvalidInput("the last dimension of a store must have stride 1; copy it with .contiguous()")
    if (width := whole(block_size)) is None or width < 1 or k_store.shape[0] % width:
        raise InvalidInput(f"block_size must be a divisor of the {k_store.shape[0]} slots: {shown(block_size)}")
    if tables.ndim != 2 or len(tables) != batch or tables.dtype not in (torch.int32, torch.int64):
        raise InvalidInput(f"tables must be int32 or int64 [B, M] = [{batch}, M], not {_of(tables)}")
    if tables.shape[1] * width > _MOST_POSITIONS:
        raise InvalidInput(f"tables of {tables.shape[1]} blocks hold more than {_MOST_POSITIONS} positions")
    for name, tensor in (("lengths", lengths), ("counts", counts)):
        if tensor is not None and (tensor.dtype != torch.int64 or tensor.shape != (batch,)):
            raise InvalidInput(f"{name} must be int64 [B] = [{batch}], not {_of(tensor)}")
    if tree_mask is not None and (tree_mask.dtype != torch.bool or tree_mask.shape != (batch, queries, queries)):
        raise InvalidInput(f"tree_mask must be bool [B, N, N] = [{batch}, {queries}, {queries}], not {_of(tree_mask)}")


def _check_values(
    tables: Tensor, lengths: Tensor, counts: Tensor, queries: int, blocks: int, block_size: int, window: int
) -> None:
    """Refuse counts, lengths and needed block ids that do not fit, naming the first row."""
    held = tables.shape[1] * block_size
    for row, (length, count) in enumerate(zip(lengths.tolist(), counts.tolist(), strict=True)):
        if not 0 <= count <= queries:
            raise InvalidInput(f"row {row}: counts must lie in [0, {queries}], not {count}")
        if count and not 0 <= length <= held - count:
            raise InvalidInput(
                f"row {row}: {length} computed and {count} new tokens do not fit its {tables.shape[1]} blocks "
                f"of {block_size}"
            )
    first_B = (lengths - window + 1).clamp_min(0) // block_size
    last_B = (lengths + counts - 1) // block_size
    m_M = torch.arange(tables.shape[1], device=tables.device)
    needed_BM = (m_M >= first_B[:, None]) & (m_M <= last_B[:, None]) & (counts > 0)[:, None]
    wrong = (needed_BM & ((tables < 0) | (tables >= blocks))).nonzero()
    if len(wrong):
        row, m = wrong[0].tolist()
        raise InvalidInput(
            f"row {row}: block {m} of its table is {int(tables[row, m])}, but ids lie in [0, {blocks}) "
            f"and positions {m * block_size} and up are needed; give the row a block for every token it has"
        )


def _of(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
