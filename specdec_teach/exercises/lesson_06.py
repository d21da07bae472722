"""Judges of lesson 06: slots and room, the rewind in blocks, the shared block, the hash chain, what may be published.

Invariant: what is right comes from a real pool and the caches on it, never from a list of answers.
It does not know the lesson's text, models or schedulers.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Items
from typing import Any, Final

import torch

from specdec_teach.caches.paged import PagedCache
from specdec_teach.caches.pool import BlockPool, chain_key
from specdec_teach.exercises.kit import NotYet, ask, exercise

__all__: list[str] = []

_SIZE: Final = 4
_ROOM: Final = 64


def _feed(cache: PagedCache, tokens: Items[int]) -> None:
    """Compute the tokens that the cache lacks: the key of a token is its id."""
    new = [float(token) for token in tokens[cache.pointer :]]
    if new:
        k_BHTD = torch.tensor(new).reshape(1, 1, len(new), 1)
        cache.write(0, k_BHTD, k_BHTD)
        cache.advance(len(new))


def _cache(table: Items[int], pointer: int, size: int) -> PagedCache:
    """Return a real cache with this table: every other block of its pool is held by somebody else meanwhile."""
    pool = BlockPool(max(table, default=0) + 1, size=size)
    for _ in range(pool.blocks):
        pool.take()
    cache = PagedCache(pool, len(table) * size)
    for at, block in enumerate(table):
        pool.drop(block)
        cache.reserve(at * size + 1)
    assert cache.table == tuple(table)
    cache.advance(pointer)
    return cache


def _whole(answer: Any, call: str) -> list[int]:
    """Return an answer as whole numbers."""
    found = list(answer)
    for number in found:
        if isinstance(number, bool) or int(number) != number:
            raise NotYet(f"{call} should hold whole numbers, and {number!r} is none")
    return [int(number) for number in found]


@exercise("06.1")
def _sums(answer: Any) -> str:
    found = _whole(answer, "your answer")
    if len(found) != 3:
        raise NotYet(f"three numbers are wanted, and there are {len(found)}")
    slot, narrow, wide = found
    right = int(_cache((7, 2, 9, 4), 13, _SIZE).slots(9, 10))
    if slot != right:
        why = "position 9 is one of the positions 8 to 11, and these live in the third block of the table"
        if slot == 9:
            why = "9 is the position; which block holds it, and where does that block begin?"
        elif slot == right - 1 or slot == 9 * _SIZE:
            why = f"the block is right, and its slots are {9 * _SIZE} to {9 * _SIZE + 3}; position 8 lives in the first"
        raise NotYet(f"position 9 does not live in slot {slot}: {why}")
    for length, said in ((20, narrow), (25, wide)):
        cache = PagedCache(BlockPool(None, size=_SIZE), _ROOM)
        _feed(cache, range(length - 1))
        cache.reserve(5)
        need, top = len(cache.table), length + 4
        if said == need:
            continue
        why = f"the pass writes the pending token and 4 drafts, up to pointer {top}, and {said} blocks hold "
        why += f"{said * _SIZE} tokens"
        if said == -(-(top + 1) // _SIZE):
            why = f"the token after the drafts has no keys and values yet; the pointer gets to {top}, not {top + 1}"
        raise NotYet(f"with {length} tokens committed and γ = 4, {said} blocks are not what the pass needs: {why}")
    return f"slot {right}; {narrow} blocks for 24 tokens, {wide} for 29"


@exercise("06.2")
def _rollback(answer: Any) -> str:
    for table, pointer, to, size in (
        ((7, 2, 9, 4), 14, 10, 4), ((7, 2, 9, 4), 14, 8, 4), ((7, 2, 9, 4), 14, 13, 4), ((5, 1, 3), 6, 1, 2),
        ((5, 1, 3), 6, 6, 2), ((5, 1, 3), 5, 0, 2), ((6, 0, 2, 8), 11, 4, 3),
    ):  # fmt: skip
        cache = _cache(table, pointer, size)
        cache.rollback(to)
        right, freed = list(cache.table), sorted(cache.blocks().freed)
        call = f"rollback({list(table)}, {pointer}, {to}, {size})"
        pair = list(ask(answer, list(table), pointer, to, size))
        if len(pair) != 2:
            raise NotYet(f"{call} should give two lists, the table and the freed blocks, not {len(pair)} things")
        found, gone = (_whole(part, call) for part in pair)
        if found == right and sorted(gone) == freed:
            continue
        told = (
            f"{call} should keep the table {right} and free {freed}, and yours keeps {found} and frees {sorted(gone)}"
        )
        why = ""
        if found == list(table):
            why = f": {to} tokens need {len(right)} of its blocks"
        elif len(found) < len(right) and found == right[: len(found)]:
            why = f": position {to - 1} is still reachable, and it lives in block {right[-1]}"
        elif found == right:
            why = ": every block that leaves the table goes back, and no other"
        elif found == list(table)[: len(found)]:
            why = f": {to} tokens fill {len(right)} blocks of {size}, and position {to} is not reachable"
        raise NotYet(f"{told}{why}")
    return "the block that holds the last reachable token stays, everything behind it goes back"


_ACTS: Final = ("take", "copy", "swap", "drop", "write")


@exercise("06.3")
def _shared(answer: Any) -> str:
    acts = list(answer)
    unknown = next((act for act in acts if act not in _ACTS), None)
    if unknown is not None:
        raise NotYet(f"there is no act {unknown!r}; they are {', '.join(_ACTS)}")
    if not acts:
        raise NotYet("with no act at all, A has not written its token")
    pool = BlockPool(4, size=_SIZE)
    tables = {"A": [pool.take(), pool.take()]}
    tables["B"] = list(tables["A"])
    for block in tables["B"]:
        pool.hold(block)
    k_BHTD = torch.arange(10.0, 17.0).reshape(1, 1, 7, 1)
    pool.store.put(0, slice(0, 7), k_BHTD, k_BHTD)
    shared, own = tables["A"][1], -1
    for act in acts:
        if act == "take" and own < 0:
            own = pool.take()
        elif act == "take":
            raise NotYet("one new block is enough: A writes one token")
        elif act in ("copy", "swap") and own < 0:
            raise NotYet(f"{act!r} comes before 'take': there is no new block yet")
        elif act == "copy":
            source = torch.arange(shared * _SIZE, (shared + 1) * _SIZE)
            pool.store.move(source, slice(own * _SIZE, (own + 1) * _SIZE))
        elif act == "drop":
            if pool.holders[shared] == 0:
                raise NotYet("the shared block is given back more often than it was held")
            pool.drop(shared)
        elif act == "write":
            slot, k_BHTD = tables["A"][1] * _SIZE + 2, torch.full((1, 1, 1, 1), 26.0)
            pool.store.put(0, slice(slot, slot + 1), k_BHTD, k_BHTD)
        else:
            tables["A"][1] = own
    _compare(pool, tables, shared)
    return "A reads its 26, B still reads its 16, and every block is held as often as it stands in a table"


def _compare(pool: BlockPool, tables: Mapping[str, list[int]], shared: int) -> None:
    """Refuse what the acts have left behind, unless both requests read their own tokens and the counts are right."""
    read = {name: [_token(pool, table, position) for position in range(7)] for name, table in tables.items()}
    if read["B"] != [10, 11, 12, 13, 14, 15, 16]:
        raise NotYet(f"B has not done anything, and its seven tokens now read {read['B']}")
    if read["A"][6] != 26:
        raise NotYet(f"A's position 6 holds {read['A'][6]}, not its new token 26: the write did not go to A's block")
    if read["A"] != [10, 11, 12, 13, 14, 15, 26]:
        raise NotYet(f"A reads {read['A']}: positions 4 and 5 live in the new block too, and were not copied in time")
    for block in range(pool.blocks):
        stands = sum(table.count(block) for table in tables.values())
        if pool.holders[block] > stands:
            what = "taken and used by nobody" if block != shared else "held twice, and stands in one table"
            raise NotYet(f"block {block} is {what}: it can never be free again")
        if pool.holders[block] < stands:
            raise NotYet(f"block {block} is free, and B still reads it: the next request will overwrite it")


def _token(pool: BlockPool, table: list[int], position: int) -> int:
    slot = table[position // _SIZE] * _SIZE + position % _SIZE
    return int(pool.store.get(0, slice(slot, slot + 1))[0])


@exercise("06.4")
def _adopt(answer: Any) -> str:
    told = [10, 11, 12, 13, 14, 15, 16, 17]
    for tokens, evicted in (
        (told, None), (told[:5], None), (told[:3], None), ([*told[:4], 99, *told[5:]], None), ([99, *told[1:]], None),
        (told, 1), (told, 0), (told[2:], None), ([10, 11, 10, 11, 10, 11], None),
    ):  # fmt: skip
        pool, size = BlockPool(8, size=2), 2
        pool.take()
        owner = PagedCache(pool, _ROOM)
        published = told if tokens[:2] != tokens[2:4] else [10, 11, 10, 11, 12, 13]
        _feed(owner, published)
        owner.publish(published)
        index, key = {}, b""
        for at, block in enumerate(owner.table):
            key = chain_key(key, published[at * size : (at + 1) * size])
            index[key] = block
            if at == evicted:
                pool.withdraw(block)
                del index[key]
        finder = PagedCache(pool, _ROOM)
        finder.adopt(tokens)
        right = list(finder.table)
        found = _whole(ask(answer, dict(index), list(tokens), size), "adopt(…)")
        if found == right:
            continue
        without = f", block {owner.table[evicted]} of them evicted" if evicted is not None else ""
        why = ""
        if len(found) > len(right):
            why = ": it stops at the first block that is not there, whatever comes behind it"
        elif found == right[:1] and len(right) > 1:
            why = ": the key of a block is made of the key before it and of its own tokens"
        elif not found:
            why = ': the first key is chain_key(b"", …), of the first `size` tokens'
        raise NotYet(
            f"published: {published} in blocks {list(owner.table)}{without}; adopt(index, {tokens}, {size}) should "
            f"be {right}, and yours gives {found}{why}"
        )
    return "the engine's own finds: a chain from the beginning, up to the first gap"


@exercise("06.5")
def _publish(answer: Any) -> str:
    for committed, computed, size, already in (
        (9, 8, 4, 1), (8, 7, 4, 1), (7, 11, 4, 1), (6, 5, 4, 0), (3, 2, 4, 0), (25, 24, 4, 4), (5, 0, 4, 0),
        (9, 8, 2, 2), (9, 8, 4, 2),
    ):  # fmt: skip
        tokens, cache = range(100, 100 + committed), PagedCache(BlockPool(None, size=size), _ROOM)
        _feed(cache, range(100, 100 + computed))
        cache.publish(tokens[: already * size])
        cache.mark()
        cache.publish(tokens)
        right = [cache.table.index(block) for block in cache.blocks().published]
        call = f"blocks_to_publish({committed}, {computed}, {size}, {already})"
        found = _whole(ask(answer, committed, computed, size, already), call)
        if found == right:
            continue
        raise NotYet(
            f"{call} should be {right}, and yours gives {found}{_why(found, right, committed, computed, size)}"
        )
    _forced(answer)
    return "only what is committed and computed, in whole blocks, and each once"


def _why(found: list[int], right: list[int], committed: int, computed: int, size: int) -> str:
    extra = [at for at in found if at not in right]
    if not extra:
        return f": block {next(at for at in right if at not in found)} is full, committed and computed" if right else ""
    last = (max(extra) + 1) * size - 1
    if last >= committed and last >= computed:
        return f": position {last} is not even written; a block that is not full may still change"
    if last >= computed:
        return f": position {last} is the pending token, which has no keys and values yet"
    if last >= committed:
        return f": position {last} holds a draft that nobody has committed"
    return f": block {min(extra)} is published already"


def _forced(answer: Any) -> None:
    """Four drafts behind seven tokens, rejected in turn: what a cache publishes and what the learner would."""
    prompt, drafts = list(range(1, 8)), [11, 12, 13, 14]
    for kept in range(5):
        cache = PagedCache(BlockPool(None, size=_SIZE), _ROOM)
        _feed(cache, prompt[:-1])
        cache.publish(prompt)
        _feed(cache, [*prompt, *drafts])
        committed = [*prompt, *drafts[:kept], 99]
        cache.rollback(len(committed) - 1)
        cache.mark()
        cache.publish(committed)
        right = [cache.table.index(block) for block in cache.blocks().published]
        found = _whole(ask(answer, len(committed), cache.pointer, _SIZE, 1), "blocks_to_publish(…)")
        if found != right:
            raise NotYet(f"with {kept} of 4 drafts kept behind 7 tokens it should be {right}, and yours gives {found}")
