"""Timelines for the view tests, built from scripted steps without any scheduler or model.

Invariant: tables, counts and the pool obey the arithmetic of a real run: a block is held, idle or free; a request's
table covers what it computed; whole blocks of committed and computed tokens are published. It does not know the engine,
and nothing here is random: every number follows from the script.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specdec_teach.timeline import TIMELINE_VERSION, Row, Step, Timeline, TimelineMeta

# One request's part of a step: wait "w", lose its blocks "x", be cancelled "c", fail "f", compute n tokens (n,), run a
# cycle (accepted, drafted) or (accepted, drafted, how it ends).
Deed = str | tuple[int, ...] | tuple[int, int, str]


class Script:
    """A pool of `blocks` blocks of `size` tokens and the requests on it; requests share their first `prefix` tokens."""

    def __init__(self, prompts: Sequence[int], *, blocks: int, size: int, prefix: int = 0, gamma: int = 4) -> None:
        self.prompts, self.size, self.prefix, self.gamma = tuple(prompts), size, prefix, gamma
        self.free = list(range(blocks))
        self.idle: list[int] = []
        self.holders: dict[int, int] = {}
        self.known: dict[object, int] = {}
        self.evicted: list[int] = []
        self.tables: dict[int, list[int]] = {i: [] for i in range(len(prompts))}
        self.computed = dict.fromkeys(self.tables, 0)
        self.committed = dict(enumerate(prompts))
        self.cycles = dict.fromkeys(self.tables, 0)
        self.meta = TimelineMeta(TIMELINE_VERSION, blocks, size, 4, 4 * size, gamma)
        self.steps: list[Step] = []

    def step(self, deeds: Mapping[int, Deed]) -> None:
        """Do one step, in order of arrival; preempted and cancelled requests give their blocks back first."""
        self.evicted = []
        for request, deed in deeds.items():
            if deed in ("x", "c", "f"):
                self._release(request)
        rows = tuple(self._row(request, deed) for request, deed in sorted(deeds.items()))
        published = tuple(sorted(self.known.values()))
        now = Step(len(self.steps), rows, published, tuple(sorted(self.idle)), tuple(self.evicted), 0.01)
        self.steps.append(now)

    def timeline(self, names: Sequence[str] | None = None) -> Timeline:
        """Return what was done so far."""
        names = names or [f"request {i}" for i in self.tables]
        return Timeline(self.meta, self.prompts, tuple(names), tuple(self.steps))

    def _row(self, request: int, deed: Deed) -> Row:
        if isinstance(deed, str):
            state = {"w": "waiting", "x": "preempted", "c": "cancelled", "f": "failed"}[deed]
            return Row(request, state, 0, self.committed[request])  # type: ignore[arg-type]
        if len(deed) == 1:
            adopted = self._adopt(request) if not self.tables[request] else 0
            fed = min(int(deed[0]), self.committed[request] - 1 - self.computed[request])
            self._write(request, self.computed[request] + fed)
            self._publish(request)
            table = tuple(self.tables[request])
            return Row(request, "prefill", self.computed[request], self.committed[request], fed, adopted, table=table)
        accepted, drafted = int(deed[0]), int(deed[1])
        ends = str(deed[2]) if len(deed) == 3 else None
        emitted, index = accepted + 1, self.cycles[request]
        self._write(request, self.committed[request] + drafted)
        self.committed[request] += emitted
        self.cycles[request] += 1
        self.computed[request] = self.committed[request] - 1
        while len(self.tables[request]) > -(-self.computed[request] // self.size):
            self._drop(self.tables[request].pop())
        self._publish(request)
        table = tuple(self.tables[request])
        if ends is not None:
            self._release(request)
            table = ()
        return Row(
            request, "cycle", self.committed[request] - 1, self.committed[request], 0, 0, index, drafted, drafted,
            accepted, emitted, table, " word" * emitted, ends,
        )  # fmt: skip

    def _key(self, request: int, at: int) -> object:
        return ("shared", at) if (at + 1) * self.size <= self.prefix else (request, at)

    def _adopt(self, request: int) -> int:
        table = self.tables[request]
        while (len(table) + 1) * self.size < self.committed[request]:
            block = self.known.get(self._key(request, len(table)))
            if block is None:
                break
            if block in self.idle:
                self.idle.remove(block)
            self.holders[block] = self.holders.get(block, 0) + 1
            table.append(block)
        self.computed[request] = len(table) * self.size
        return self.computed[request]

    def _write(self, request: int, stop: int) -> None:
        while len(self.tables[request]) * self.size < stop:
            if not self.free:
                old = self.idle.pop(0)
                self.known = {key: block for key, block in self.known.items() if block != old}
                self.evicted.append(old)
                self.free.append(old)
            block = min(self.free)
            self.free.remove(block)
            self.holders[block] = 1
            self.tables[request].append(block)
        self.computed[request] = stop

    def _publish(self, request: int) -> None:
        for at in range(self.computed[request] // self.size):
            key, block = self._key(request, at), self.tables[request][at]
            if key not in self.known and block not in self.known.values():
                self.known[key] = block

    def _drop(self, block: int) -> None:
        self.holders[block] -= 1
        if not self.holders[block]:
            (self.idle if block in self.known.values() else self.free).append(block)

    def _release(self, request: int) -> None:
        while self.tables[request]:
            self._drop(self.tables[request].pop())
        self.computed[request] = 0


def typical() -> Timeline:
    """Four requests that share two blocks of their prompts; one is preempted, one cancelled, blocks are evicted."""
    run = Script((21, 19, 26, 18), blocks=14, size=8, prefix=16)
    run.step({0: (16,), 1: "w"})
    run.step({0: (4,), 1: (1,)})
    run.step({0: (2, 4), 1: (2,), 2: "w"})
    run.step({0: (4, 4), 1: (1, 4), 2: (4,)})
    run.step({0: (0, 4), 1: (3, 4), 2: (9,), 3: "w"})
    run.step({0: (4, 4), 1: (4, 4), 2: (2, 4), 3: (16,)})
    run.step({0: (3, 4), 1: (2, 4), 2: (4, 4), 3: (2, 4)})
    run.step({0: (4, 4), 1: (1, 4), 2: (4, 4), 3: (0, 3)})
    run.step({0: (4, 4), 1: (4, 4), 2: (4, 4), 3: "x"})
    run.step({0: (1, 4), 1: "c", 2: (3, 4), 3: "w"})
    run.step({0: (4, 4), 2: (4, 4), 3: (16,)})
    run.step({0: (2, 2, "eos"), 2: (2, 4), 3: (3, 4)})
    run.step({2: (4, 4), 3: (4, 4)})
    run.step({2: (3, 4, "length"), 3: (4, 4)})
    run.step({3: (1, 4, "stop")})
    return run.timeline(("Mira", "the fox", "lantern", "river"))


def crowd() -> Timeline:
    """64 requests × 200 steps on 256 blocks, by a rule: eight at a time, each for 25 steps."""
    run = Script([40 + i % 17 for i in range(64)], blocks=256, size=16, prefix=32)
    for step in range(200):
        first = step // 25 * 8
        deeds: dict[int, Deed] = {}
        for request in range(first, first + 8):
            age = step % 25
            if age == 0:
                deeds[request] = (64,)
            elif age == 24:
                deeds[request] = (request % 5, 4, "length")
            else:
                deeds[request] = ((request * 7 + step * 3) % 5, 4)
        deeds |= dict.fromkeys(range(first + 8, min(64, first + 8 + step % 25)), "w")
        run.step(deeds)
    return run.timeline()


def alone() -> Timeline:
    """One request, without drafts, from its first token to its last."""
    run = Script((3,), blocks=4, size=4, gamma=0)
    for deed in ((8,), (0, 0), (0, 0), (0, 0, "eos")):
        run.step({0: deed})
    return run.timeline(("only",))


def hostile() -> Timeline:
    """Names that would break a careless page, one request that fails, a pool of one token a block."""
    run = Script((3, 2, 2), blocks=8, size=1)
    run.step({0: (9,), 1: (1,), 2: "w"})
    run.step({0: (1, 2), 1: "f", 2: (1,)})
    run.step({0: (0, 1, "</script>"), 2: "c"})
    return run.timeline(("</script><b>x", "\u202eevil\u2066\n", "long" * 2500))


def nothing() -> Timeline:
    """A scheduler that was asked for nothing."""
    return Script((), blocks=4, size=4).timeline()


TIMELINES: Mapping[str, Timeline] = {
    "typical": typical(),
    "alone": alone(),
    "hostile": hostile(),
    "crowd": crowd(),
    "nothing": nothing(),
}
