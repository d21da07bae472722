"""A Hypothesis machine that drives several paged caches over one pool beside a dictionary: sequence → tokens.

Hypothesis looks for short stories and shrinks them; `walk` tells long ones at random, for the mistakes that need many
steps.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from specdec_kernels.errors import EngineFailure
from specdec_teach.caches import BlockPool, OutOfBlocks, PagedCache
from specdec_teach.caches.pool import chain_key

from .oracle import append, entries, held_right, holds, picture, published_right, write

SEQUENCES = 4
WHO = st.integers(0, SEQUENCES - 1)
TOKENS = st.lists(st.integers(0, 1), min_size=1, max_size=7)
LONGEST = [0, 1, 1, 0, 1, 0, 0, 0, 1, 1, 1, 0]
PROMPT = st.integers(0, 12).map(lambda count: LONGEST[:count])  # one begins the other
PART = st.sampled_from([0.0, 0.3, 0.6, 0.8, 0.9, 1.0])
POLICY = st.sampled_from(["trim", "keep"])


class PagedMachine(RuleBasedStateMachine):
    """`tokens[name]` is what `caches[name]` must hold, `known[key]` a prefix that was rightly published."""

    def __init__(self) -> None:
        super().__init__()
        self.caches: dict[int, PagedCache] = {}
        self.tokens: dict[int, list[int]] = {}
        self.known: dict[bytes, tuple[int, ...]] = {}
        self.number = 0

    @initialize(size=st.integers(1, 5), blocks=st.integers(4, 12), policy=POLICY, prompt=PROMPT)
    def begin(self, size: int, blocks: int, policy: Any, prompt: list[int]) -> None:
        """A pool and a first request."""
        self.pool = BlockPool(blocks, size=size)
        self.request(policy, 30, prompt)

    def pick(self, who: int) -> int:
        """Return the name of one of the sequences."""
        return sorted(self.caches)[who % len(self.caches)]

    def refused(self, name: int, count: int) -> bool:
        """Say from the tables alone whether `count` more tokens must be refused; if so, see that nothing changes."""
        cache, size = self.caches[name], self.pool.size
        tables = [block for other in self.caches.values() for block in other.table]
        first, stop = cache.pointer // size, -(-(cache.pointer + count) // size)
        shared = sum(tables.count(block) > 1 for block in cache.table[first:stop]) if count else 0
        wanted = max(0, stop - len(cache.table)) + shared
        left = self.pool.blocks - len(set(tables))
        full = cache.pointer + count > cache.capacity
        assert cache.missing(count) == wanted
        if not full and wanted <= left:
            return False
        before = picture(self.pool, list(self.caches.values()))
        with pytest.raises(EngineFailure if full else OutOfBlocks):
            cache.reserve(count)
        assert picture(self.pool, list(self.caches.values())) == before
        return True

    @precondition(lambda self: len(self.caches) < SEQUENCES)
    @rule(policy=POLICY, capacity=st.integers(6, 30), prompt=PROMPT)
    def request(self, policy: Any, capacity: int, prompt: list[int]) -> None:
        """A new sequence takes the longest published chain that its prompt begins with, and computes the rest."""
        name, self.number = self.number, self.number + 1
        cache = self.caches[name] = PagedCache(self.pool, capacity, policy)
        self.tokens[name] = []
        self.adopt(name, prompt)
        if len(prompt) > cache.pointer and not self.refused(name, len(prompt) - cache.pointer):
            self.append_to(name, prompt[cache.pointer :])
            self.commit(name, prompt)

    def adopt(self, name: int, prompt: list[int]) -> None:
        """The oracle of adoption: the prefixes that are known, one block longer each."""
        cache, size, want = self.caches[name], self.pool.size, 0
        prefixes = {self.known[key] for key in self.pool._key_of.values()}
        while want + size <= min(len(prompt), cache.capacity) and tuple(prompt[: want + size]) in prefixes:
            want += size
        assert cache.adopt(prompt) == want
        self.tokens[name] = prompt[:want]

    def append_to(self, name: int, new: list[int]) -> None:
        """A forward that has room."""
        self.tokens[name] = tokens = self.tokens[name] + new
        pointer = self.caches[name].pointer
        append(self.caches[name], entries(tokens)[:pointer], entries(tokens, pointer))

    def commit(self, name: int, committed: list[int]) -> None:
        """Publish; only whole blocks of what is committed and computed may be found afterwards."""
        size, full = self.pool.size, min(len(committed), self.caches[name].pointer)
        stops = range(size, full + 1, size)
        keys = [b""]
        for stop in stops:
            keys.append(chain_key(keys[-1], committed[stop - size : stop]))
            assert self.known.setdefault(keys[-1], tuple(committed[:stop])) == tuple(committed[:stop])
        fresh = len(self.caches[name]._keys)
        self.caches[name].publish(committed)
        assert all(self.pool.find(key) is not None for key in keys[1 + fresh :])

    @precondition(lambda self: self.caches)
    @rule(who=WHO, new=TOKENS)
    def append(self, who: int, new: list[int]) -> None:
        """A forward."""
        name = self.pick(who)
        if not self.refused(name, len(new)):
            self.append_to(name, new)

    @precondition(lambda self: self.caches)
    @rule(who=WHO, new=TOKENS)
    def interrupted(self, who: int, new: list[int]) -> None:
        """A forward that ends after its first layer."""
        name = self.pick(who)
        if not self.refused(name, len(new)):
            old = len(self.tokens[name])
            write(self.caches[name], entries(self.tokens[name]), entries(self.tokens[name] + new, old), layers=[0])

    @precondition(lambda self: self.caches)
    @rule(who=WHO, count=st.integers(0, 9))
    def lookahead(self, who: int, count: int) -> None:
        """Room for drafts that may never be written."""
        name = self.pick(who)
        if not self.refused(name, count):
            cache = self.caches[name]
            cache.reserve(count)
            assert len(cache.table) * self.pool.size >= cache.pointer + count
            assert cache.missing(count) == 0

    @precondition(lambda self: self.caches)
    @rule(who=WHO, part=PART)
    def rollback(self, who: int, part: float) -> None:
        """Anything may be taken back; more than there is may not."""
        name = self.pick(who)
        cache, to = self.caches[name], round(part * len(self.tokens[name]))
        before, table = picture(self.pool, list(self.caches.values())), cache.table
        with pytest.raises(EngineFailure, match="roll a cache"):
            cache.rollback(cache.pointer + 1)
        assert picture(self.pool, list(self.caches.values())) == before
        assert cache.rollback(to) == to
        del self.tokens[name][to:]
        full = -(-to // self.pool.size)
        assert cache.table == (table[:full] if cache._policy == "trim" else table)

    @precondition(lambda self: 0 < len(self.caches) < SEQUENCES)
    @rule(who=WHO)
    def fork(self, who: int) -> None:
        """A twin, of twins too."""
        name = self.pick(who)
        in_use = self.pool.in_use
        self.caches[self.number] = self.caches[name].fork()
        self.tokens[self.number] = list(self.tokens[name])
        assert self.pool.in_use == in_use
        tables = self.caches[name].table, self.caches[self.number].table
        assert tables[1] == tables[0][: -(-len(self.tokens[name]) // self.pool.size)]
        self.number += 1

    @precondition(lambda self: self.caches)
    @rule(who=WHO, path=TOKENS, junk=st.lists(st.integers(0, 2), min_size=7, max_size=7))
    def tree(self, who: int, path: list[int], junk: list[int]) -> None:
        """A draft tree: siblings stand before and between the tokens of one path, and the path stays."""
        name = self.pick(who)
        cache, old = self.caches[name], len(self.tokens[name])
        nodes, kept = [], []
        for entry, siblings in zip(entries(self.tokens[name] + path, old), junk, strict=False):
            nodes += [(9, entry[1], sibling) for sibling in range(siblings)]
            kept.append(old + len(nodes))
            nodes.append(entry)
        if self.refused(name, len(nodes)):
            return
        append(cache, entries(self.tokens[name]), nodes)
        assert cache.compact(old, kept) == old + len(path)
        self.tokens[name] += path

    @precondition(lambda self: self.caches)
    @rule(who=WHO, drafted=TOKENS, accepted=st.integers(0, 7), last=st.integers(0, 1))
    def cycle(self, who: int, drafted: list[int], accepted: int, last: int) -> None:
        """Compute drafts, keep some, commit one more token that is not computed."""
        name = self.pick(who)
        cache, old = self.caches[name], len(self.tokens[name])
        if self.refused(name, len(drafted)):
            return
        self.append_to(name, drafted)
        cache.rollback(min(old + accepted, cache.pointer))
        del self.tokens[name][cache.pointer :]
        self.commit(name, [*self.tokens[name], last])

    @precondition(lambda self: self.caches)
    @rule(who=WHO, part=PART)
    def publish(self, who: int, part: float) -> None:
        """Only some of what is computed is committed."""
        name = self.pick(who)
        self.commit(name, self.tokens[name][: round(part * len(self.tokens[name]))])

    @precondition(lambda self: any(not cache.table for cache in self.caches.values()))
    @rule(who=WHO, prompt=PROMPT)
    def resume(self, who: int, prompt: list[int]) -> None:
        """An emptied sequence adopts."""
        empty = [name for name in sorted(self.caches) if not self.caches[name].table]
        self.adopt(empty[who % len(empty)], prompt)

    @precondition(lambda self: self.caches)
    @rule(who=WHO, forget=st.booleans())
    def release(self, who: int, forget: bool) -> None:
        """The request ends: released, or dropped without a word."""
        name = self.pick(who)
        cache = self.caches.pop(name)
        del self.tokens[name]
        if forget:
            del cache
        else:
            cache.release()
            assert (cache.pointer, cache.table) == (0, ())
            self.caches[self.number], self.tokens[self.number] = cache, []
            self.number += 1

    @rule(part=PART)
    def pressure(self, part: float) -> None:
        """Somebody else takes blocks, idle ones too, and writes nonsense into them."""
        available, idle = self.pool.available, self.pool.idle
        assert available is not None
        count = round(part * available)
        blocks = [self.pool.take() for _ in range(count)]
        assert self.pool.idle == min(idle, available - count)
        for block in blocks:
            self.pool.store.fill(slice(block * self.pool.size, (block + 1) * self.pool.size), 777.0)
            self.pool.drop(block)

    @precondition(lambda self: self.caches)
    @rule(who=WHO)
    def poison(self, who: int) -> None:
        """What must not matter is spoilt; the invariants below see whether it did."""
        self.caches[self.pick(who)].poison()

    @invariant()
    def contents_are_the_tokens(self) -> None:
        """Every sequence holds its own history and nothing else."""
        for name, cache in self.caches.items():
            holds(cache, entries(self.tokens[name]))
            key, size = b"", self.pool.size
            for at, kept in enumerate(cache._keys):
                key = chain_key(key, self.tokens[name][at * size : (at + 1) * size])
                assert kept == key
            assert len(cache._keys) * size <= cache.pointer

    @invariant()
    def blocks_are_counted(self) -> None:
        """Free, idle or held; and what can be found is right."""
        if hasattr(self, "pool"):
            held_right(self.pool, list(self.caches.values()))
            published_right(self.pool, self.known)

    def teardown(self) -> None:
        """Nothing leaks."""
        if hasattr(self, "pool"):
            for cache in self.caches.values():
                cache.release()
            assert self.pool.in_use == 0
            assert self.pool.available == self.pool.blocks


def walk(seed: int, steps: int = 60) -> None:
    """Take `steps` random steps, all kinds equally often, and look at everything after each."""
    random = Random(seed)
    part = [0.0, 0.3, 0.6, 0.8, 0.9, 1.0]

    def who() -> int:
        return random.randrange(SEQUENCES)

    def tokens() -> list[int]:
        return random.choices([0, 1], k=random.randint(1, 7))

    def prompt() -> list[int]:
        return LONGEST[: random.randint(0, 12)]

    def policy() -> str:
        return random.choice(["trim", "keep"])

    machine = PagedMachine()
    machine.begin(random.randint(1, 5), random.randint(5, 12), policy(), prompt())
    for _ in range(steps):
        few = len(machine.caches) < SEQUENCES
        some, empty = bool(machine.caches), any(not cache.table for cache in machine.caches.values())
        kinds = [
            (few, lambda: machine.request(policy(), random.randint(6, 30), prompt())),
            (some, lambda: machine.append(who(), tokens())),
            (some, lambda: machine.interrupted(who(), tokens())),
            (some, lambda: machine.lookahead(who(), random.randint(0, 9))),
            (some, lambda: machine.rollback(who(), random.choice(part))),
            (some and few, lambda: machine.fork(who())),
            (some, lambda: machine.tree(who(), tokens(), random.choices([0, 1, 2], k=7))),
            (some, lambda: machine.cycle(who(), tokens(), random.randint(0, 7), random.randint(0, 1))),
            (some, lambda: machine.publish(who(), random.choice(part))),
            (empty, lambda: machine.resume(who(), prompt())),
            (some, lambda: machine.release(who(), random.random() < 0.5)),
            (True, lambda: machine.pressure(random.choice(part))),
            (some, lambda: machine.poison(who())),
        ]
        random.choice([take for possible, take in kinds if possible])()
        machine.contents_are_the_tokens()
        machine.blocks_are_counted()
    machine.teardown()
