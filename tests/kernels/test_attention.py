"""Paged attention: the reference against loops over the definition, its own consistency, and what it refuses."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch
from torch import Tensor

from specdec_kernels.attention import paged_attention
from specdec_kernels.errors import InvalidInput


def forest(nodes: int, rng: random.Random) -> list[int]:
    """A parent before each node, or −1 for a root; node 0 is one."""
    return [rng.randrange(-1, node) if node else -1 for node in range(nodes)]


def ancestors(parents: list[int]) -> Tensor:
    """Entry [i, j]: node j is node i or above it."""
    mask = torch.zeros(len(parents), len(parents), dtype=torch.bool)
    for node in range(len(parents)):
        above = node
        while above >= 0:
            mask[node, above] = True
            above = parents[above]
    return mask


def _setting(seed: int) -> dict[str, Any]:
    """A random setting in float64; slots that nobody may see hold NaN."""
    rng = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    batch, queries, block = rng.choice([1, 2, 3]), rng.choice([1, 2, 5, 8]), rng.choice([1, 3, 4, 16])
    kv_heads = rng.choice([1, 2])
    heads, size = kv_heads * rng.choice([1, 2, 3]), rng.choice([1, 4, 8])
    lengths = [rng.choice([0, block - 1, block, 2 * block, 2 * block + 1, 11]) for _ in range(batch)]
    columns = max(-(-(length + queries) // block) for length in lengths)
    ids = rng.sample(range(batch * columns + 2), batch * columns)
    counts = rng.choice([None, [rng.randint(0, queries) for _ in range(batch)]])
    window = rng.choice([None, 1, 3, 7])
    stores = [torch.full(((batch * columns + 2) * block, kv_heads, size), math.nan).double() for _ in range(2)]
    tables = torch.tensor(ids).view(batch, columns)
    for row, length in enumerate(lengths):
        count = queries if counts is None else counts[row]
        for t in range(max(0, length - (window or 99) + 1), length + count if count else 0):
            for store in stores:
                store[ids[row * columns + t // block] * block + t % block].normal_(generator=generator)
        tables[row, -(-(length + queries) // block) :] = -1
    trees = torch.stack([ancestors(forest(queries, rng)) for _ in range(batch)])
    return {
        "q": torch.randn(batch, heads, queries, size, generator=generator).double(),
        "k_store": stores[0],
        "v_store": stores[1],
        "tables": tables,
        "lengths": torch.tensor(lengths),
        "block_size": block,
        "counts": None if counts is None else torch.tensor(counts),
        "tree_mask": rng.choice([None, trees]),
        "window": window,
        "scale": rng.choice([None, 0.7]),
    }


def _by_loops(given: dict[str, Any]) -> Tensor:
    """The definition, one number at a time."""
    q, block = given["q"], given["block_size"]
    batch, heads, queries, size = q.shape
    group = heads // given["k_store"].shape[1]
    scale = size**-0.5 if given["scale"] is None else given["scale"]
    output = torch.zeros_like(q)
    for row in range(batch):
        pointer = int(given["lengths"][row])
        count = queries if given["counts"] is None else int(given["counts"][row])
        tree = None if given["tree_mask"] is None else given["tree_mask"][row]
        # Where each new token stands in its text, which in a tree is not where it lies.
        stands = [pointer + (i if tree is None else int(tree[i].sum()) - 1) for i in range(queries)]
        for i in range(count):
            seen = []
            for t in range(pointer + count):
                j = t - pointer
                fits = j < 0 or (j <= i if tree is None else bool(tree[i, j]))
                near = given["window"] is None or (t if j < 0 else stands[j]) > stands[i] - given["window"]
                if fits and near:
                    seen.append(int(given["tables"][row, t // block]) * block + t % block)
            for head in range(heads):
                scores = [scale * float(q[row, head, i] @ given["k_store"][slot, head // group]) for slot in seen]
                weights = [math.exp(score - max(scores)) for score in scores]
                for weight, slot in zip(weights, seen, strict=True):
                    output[row, head, i] += weight / sum(weights) * given["v_store"][slot, head // group]
    return output


@pytest.mark.parametrize("seed", range(40))
def test_reference_is_the_definition(seed: int) -> None:
    given = _setting(seed)
    right = _by_loops(given)
    assert right.isfinite().all()
    torch.testing.assert_close(paged_attention(**given), right, rtol=1e-12, atol=1e-12)
    for dtype, atol in ((torch.float32, 2e-6), (torch.float16, 8e-3), (torch.bfloat16, 6e-2)):
        narrow = given | {name: given[name].to(dtype) for name in ("q", "k_store", "v_store")}
        narrow["tables"] = narrow["tables"].int()
        found = paged_attention(**narrow)
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), right, rtol=1e-2 if atol > 1e-3 else 1e-6, atol=atol)


def test_the_settings_cover_what_they_should() -> None:
    settings = [_setting(seed) for seed in range(40)]
    for name in ("counts", "tree_mask", "window", "scale"):
        assert {given[name] is None for given in settings} == {True, False}
    assert {given["q"].shape[1] // given["k_store"].shape[1] for given in settings} == {1, 2, 3}
    assert any((given["tables"] == -1).any() for given in settings)
    assert sum(given["tree_mask"] is not None and given["window"] in (1, 3) for given in settings) >= 3


def test_one_step_of_many_tokens_is_many_steps_of_one() -> None:
    """Query i alone, with i more computed tokens, reads the same."""
    for seed in range(8):
        given = _setting(seed) | {"tree_mask": None, "counts": None}
        for name in ("k_store", "v_store"):
            given[name] = given[name].nan_to_num(0.5)
        whole = paged_attention(**given)
        for i in range(given["q"].shape[2]):
            alone = given | {"q": given["q"][:, :, i : i + 1], "lengths": given["lengths"] + i}
            torch.testing.assert_close(paged_attention(**alone), whole[:, :, i : i + 1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("window", [None, 3])
def test_a_path_of_a_tree_is_a_chain(window: int | None) -> None:
    """Each leaf's path, laid out as a chain of its own, gives what the tree gave; positions are depths."""
    parents = [-1, 0, 0, 1, 2, 2, 5]
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(1, 2, 7, 4, generator=generator).double()
    k, v = (torch.randn(16, 1, 4, generator=generator).double() for _ in range(2))
    tables, lengths = torch.tensor([[0, 1, 2, 3]]), torch.tensor([5])
    tree = paged_attention(q, k, v, tables, lengths, block_size=4, window=window, tree_mask=ancestors(parents)[None])
    for path in ([0, 1, 3], [0, 2, 4], [0, 2, 5, 6]):
        slots = [*range(5), *(5 + node for node in path)]
        stores = [torch.cat([store[slots], store.new_full((16 - len(slots), 1, 4), math.nan)]) for store in (k, v)]
        chain = paged_attention(q[:, :, path], *stores, tables, lengths, block_size=4, window=window)
        torch.testing.assert_close(chain, tree[:, :, path], rtol=1e-12, atol=1e-12)


def test_a_window_needs_no_block_before_it() -> None:
    """Blocks that lie before the window may have been given away: −1, or an id that is no longer one."""
    given = _setting(3) | {"window": 2, "tree_mask": None, "counts": None, "block_size": 4}
    store = torch.randn(16, 1, 8).double()
    given |= {"k_store": store, "v_store": store, "q": torch.randn(1, 1, 3, 8).double()}
    given |= {"tables": torch.tensor([[0, 1, 2, 3]]), "lengths": torch.tensor([9])}
    right = paged_attention(**given)
    assert torch.equal(paged_attention(**given | {"tables": torch.tensor([[-1, 99, 2, -1]])}), right)
    with pytest.raises(InvalidInput, match="row 0: block 1 of its table is 99"):
        paged_attention(**given | {"tables": torch.tensor([[-1, 99, 2, -1]]), "window": 3})


def test_rows_that_do_not_run() -> None:
    """No queries, no slots, no blocks: zeros, and no value of such a row is judged."""
    q = torch.randn(2, 2, 3, 4)
    store = torch.zeros(0, 1, 4)
    nobody = torch.zeros(2, dtype=torch.int64)
    tables = torch.zeros(2, 0, dtype=torch.int64)
    assert paged_attention(q, store, store, tables, nobody, block_size=4, counts=nobody).eq(0).all()
    assert paged_attention(q, store, store, tables, nobody - 7, block_size=4, counts=nobody).eq(0).all()
    assert paged_attention(q[:0], store, store, tables[:0], nobody[:0], block_size=4).shape == (0, 2, 3, 4)
    assert paged_attention(q[:, :, :0], store, store, tables, nobody, block_size=4).shape == (2, 2, 0, 4)


def test_a_tree_token_that_sees_nothing_gets_zeros() -> None:
    q, store = torch.randn(1, 1, 2, 4), torch.randn(4, 1, 4)
    mask = torch.tensor([[[True, False], [False, False]]])
    out = paged_attention(q, store, store, torch.tensor([[0]]), torch.tensor([0]), block_size=4, tree_mask=mask)
    torch.testing.assert_close(out[0, 0, 0], store[0, 0])
    assert out[0, 0, 1].eq(0).all()


_Q, _STORE = torch.zeros(2, 4, 3, 8), torch.zeros(16, 2, 8)
_FINE: dict[str, Any] = {
    "q": _Q,
    "k_store": _STORE,
    "v_store": _STORE,
    "tables": torch.tensor([[0, 1], [2, 3]]),
    "lengths": torch.tensor([5, 0]),
    "block_size": 4,
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": _Q[0]}, "q must be"),
        ({"q": _Q.long()}, "q must be"),
        ({"q": torch.zeros(2, 4, 65, 8)}, "at most 64"),
        ({"q": torch.zeros(2, 3, 3, 8)}, "multiple of the store's 2"),
        ({"k_store": _STORE[0]}, "k_store and v_store must be"),
        ({"k_store": _STORE.half()}, "in torch.float32"),
        ({"v_store": _STORE.half()}, "in torch.float32"),
        ({"v_store": _STORE[:8]}, "as k_store is"),
        ({"k_store": _STORE[..., :4], "v_store": _STORE[..., :4]}, r"\[S, H, 8\]"),
        ({"k_store": torch.zeros(16, 8, 2).transpose(1, 2)}, "stride 1"),
        ({"k_store": _STORE[:, :0], "v_store": _STORE[:, :0]}, "multiple of the store's 0"),
        ({"block_size": 5}, "divisor of the 16 slots"),
        ({"block_size": 0}, "divisor"),
        ({"block_size": 4.5}, "divisor"),
        ({"tables": torch.tensor([[0, 1]])}, r"tables must be .* \[2, M\]"),
        ({"tables": torch.zeros(2, 2)}, "int32 or int64"),
        ({"tables": torch.zeros(2, 1, dtype=torch.int64).expand(2, 2**30)}, "more than"),
        ({"lengths": torch.tensor([5, 0]).int()}, "lengths must be int64"),
        ({"lengths": torch.tensor([5])}, "lengths must be int64"),
        ({"counts": torch.tensor([[1], [1]])}, "counts must be int64"),
        ({"tree_mask": torch.zeros(2, 3, 2, dtype=torch.bool)}, "tree_mask must be bool"),
        ({"tree_mask": torch.zeros(2, 3, 3)}, "tree_mask must be bool"),
        ({"window": 0}, "window"),
        ({"window": 2.5}, "window"),
        ({"scale": math.nan}, "scale"),
        ({"backend": "cuda"}, "unknown backend"),
        ({"counts": torch.tensor([3, 4])}, r"row 1: counts must lie in \[0, 3\], not 4"),
        ({"counts": torch.tensor([-1, 3])}, "row 0: counts"),
        ({"lengths": torch.tensor([6, 0])}, "row 0: 6 computed and 3 new tokens do not fit its 2 blocks of 4"),
        ({"lengths": torch.tensor([5, -1])}, "row 1: -1 computed"),
        ({"tables": torch.tensor([[0, 1], [4, 3]])}, r"row 1: block 0 of its table is 4, but ids lie in \[0, 4\)"),
        ({"tables": torch.tensor([[0, -1], [2, 3]])}, "row 0: block 1 of its table is -1"),
    ],
)
def test_refusals(changes: dict[str, Any], message: str) -> None:
    paged_attention(**_FINE)
    with pytest.raises(InvalidInput, match=message):
        paged_attention(**_FINE | changes)
