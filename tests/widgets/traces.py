"""Traces for the view tests, built from scripted verdicts without any model.

Invariant: pointers, counts and distributions obey the same arithmetic as a real run (`KV`, committed counts, Σ p = 1).
It does not know the engine, and nothing here is random: every number follows from the script.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from specdec_teach.trace import KV, Bar, Blocks, Cycle, Decision, Draws, Meta, Prefill, Seconds, Status, Top, Trace
from specdec_teach.traces import from_vllm

WORDS = (
    " the", " fox", " named", " Mira", " lived", " in", " by", " near", " a", " river", ".", "\n", " She", " found",
    " small", " lantern", " and", " it", " was", " warm", "Once", " upon", " time", ",", "<eos>", "<0xE2>", "<0x80>",
    "<0x9C>", "\u202eevil\u2066", "</script><b>x", "long" * 2500, " émigré", "日本語", "a\x00b", "<0xAE>",
)  # fmt: skip
FIXTURES = Path(__file__).parents[1] / "fixtures"
EOS = WORDS.index("<eos>")
ORDINARY = 24
STATUS: Mapping[str, Status] = {"a": "accepted", "r": "rejected", "-": "unused", "c": "cut"}


def law(salt: int) -> tuple[float, ...]:
    """A fixed distribution over WORDS that changes with `salt`."""
    weights = [1.0 / (1 + ((i * 7 + salt * 13) % ORDINARY)) ** 1.3 for i in range(ORDINARY)]
    weights += [1e-4] * (len(WORDS) - ORDINARY)
    total = sum(weights)
    return tuple(w / total for w in weights)


def blend(a: Sequence[float], b: Sequence[float], share: float) -> tuple[float, ...]:
    """`share` of b mixed into a."""
    return tuple((1 - share) * x + share * y for x, y in zip(a, b, strict=True))


def top(p: Sequence[float], n: int = 16) -> Top:
    """The n likeliest tokens of p."""
    order = sorted(range(len(p)), key=lambda i: (-p[i], i))[:n]
    return Top(tuple((i, p[i]) for i in order), max(0.0, 1.0 - sum(p[i] for i in order)))


def decision(position: int, token: int, last: int | None, kind: str, salt: int, greedy: bool) -> Decision:
    """One verdict whose p, q and u lead to the scripted status."""
    q = blend(law(salt), tuple(float(i == token) for i in range(len(WORDS))), 0.35)
    if kind == "r":
        p = list(blend(law(salt + 5), law(salt), 0.3))
        p[token] *= 0.2
        if last is not None and last != token:
            p[last] += 0.2
        p = [x / sum(p) for x in p]
    else:
        p = list(blend(q, law(salt + 3), 0.25))
    if greedy:
        winner = token if kind != "r" else last
        p = [float(i == winner) for i in range(len(WORDS))]
        q = tuple(float(i == token) for i in range(len(WORDS)))
    excess = [max(0.0, x - y) for x, y in zip(p, q, strict=True)]
    beta = sum(excess)
    residual = [x / beta for x in excess] if beta > 0 else list(p)
    ratio = min(1.0, p[token] / q[token])
    judged = kind in "ar" and not greedy
    u = None if not judged else (ratio * 0.6 if kind == "a" else ratio + (1 - ratio) * 0.5)
    ids = {i for i, _ in top(p, 8).tokens} | {i for i, _ in top(q, 8).tokens} | {token}
    if kind == "r" and last is not None:
        ids.add(last)
    bars = tuple(Bar(i, p[i], q[i], residual[i]) for i in sorted(ids, key=lambda i: (-max(p[i], q[i]), i)))
    return Decision(
        position=position, token=token, p=p[token], q=q[token], u=u, accept_probability=ratio if judged else None,
        accepted=kind in "ac", alpha=sum(min(x, y) for x, y in zip(p, q, strict=True)), p_top=top(p), q_top=top(q),
        residual_top=top(residual), bars=bars, status=STATUS[kind],
    )  # fmt: skip


def build(
    script: Sequence[str],
    *,
    prompt: Sequence[int] = (20, 21, 8, 22, 23, 8, 1, 2),
    tokens: Sequence[int] | None = None,
    gamma: int = 4,
    temperature: float = 0.8,
    draft_cache: bool = True,
    verify: str = "rejection",
    finish: str | None = "length",
    forced: int | None = None,
) -> Trace:
    """Run the script: one string a cycle, a letter a draft (a accepted, r rejected, - unused, c cut by the stop)."""
    supply = list(tokens) if tokens is not None else None
    greedy, committed, count = temperature == 0, list(prompt), 0
    target = draft = len(prompt) - 1
    cycles = []

    def draw() -> int:
        nonlocal count
        count += 1
        return supply.pop(0) if supply else (count * 5 + 3) % ORDINARY

    for index, kinds in enumerate(script):
        proposed = [draw() for _ in kinds]
        n = sum(k == "a" for k in kinds)
        stopped = "c" in kinds
        if stopped:
            proposed[n - 1] = EOS
        last = None if stopped else draw()
        if "r" in kinds and last == proposed[n]:
            last = (proposed[n] + 1) % ORDINARY
        start, length = (target, draft), len(committed)
        emitted = [*proposed[:n], *([] if last is None else [last])]
        committed += emitted
        written = length + len(kinds)
        target = min(written, len(committed) - 1)
        drafted = max(start[1], length + len(kinds) - 1) if kinds else start[1]
        draft = min(drafted, len(committed) - 1)
        bonus = law(index + 2)
        cycles.append(
            Cycle(
                index=index, gamma=len(kinds), proposed=tuple(proposed), accepted=n, emitted=tuple(emitted), last=last,
                last_kind="none" if last is None else "correction" if "r" in kinds else "bonus",
                last_top=None if last is None else top(bonus), committed_before=length, committed_after=len(committed),
                target_kv=KV(start[0], written, target), draft_kv=KV(start[1], drafted, draft) if draft_cache else None,
                decisions=tuple(
                    decision(i + 1, proposed[i], last, kind, index * 7 + i, greedy) for i, kind in enumerate(kinds)
                ),
                rng=Draws((0, len(kinds)), (0, len(kinds)), (0, 1)), degenerate_residual=False,
                seconds=Seconds(0.0021 * len(kinds), 0.0093, 0.0006, 0.0004), stop_cut=kinds.count("c"),
                text="".join(WORDS[i] for i in emitted),
                last_from=None if last is None else "residual" if "r" in kinds else "p",
            )
        )  # fmt: skip
    meta = Meta(
        schema_version=1, models={"target": "tiny-target", "draft": "tiny-draft"},
        revisions={"target": "r1", "draft": "r2"},
        drafter="model", dtype="float32", decoder="own", vocab=len(WORDS), sampling={"temperature": temperature},
        gamma=gamma, verify=verify, cache="contiguous", seed=7, speculate=gamma > 0, max_new_tokens=64,
        lossless=forced is None and verify not in ("typical", "threshold", "synthetic"), forced=forced,
    )  # fmt: skip
    prefill = Prefill(len(prompt) - 1, len(prompt) - 1 if draft_cache else None, 0.004)
    pieces = dict(enumerate(WORDS))
    return Trace(meta, tuple(prompt), prefill, tuple(cycles), finish, pieces)  # type: ignore[arg-type]


def hostile() -> Trace:
    """Tokens that would break a careless page: markup, bidi controls, 10 000 characters, bytes of one character."""
    names = ["</script><b>x", "\u202eevil\u2066", "long" * 2500, "<0xE2>", "<0x80>", "<0x9C>", "日本語", "\n", "a\x00b"]
    ids = [WORDS.index(name) for name in names]
    return build(
        ["aar-", "aaaa", "r---"],
        tokens=[*ids, *ids],
        prompt=(0, *ids, *(WORDS.index(byte) for byte in ("<0xE2>", "<0x80>", "<0xAE>"))),
    )


@cache
def thousand() -> Trace:
    """A thousand cycles, more than 8 000 tokens; twenty cycles repeated without likeliest tokens, to be made fast."""
    whole, none = build(["aaaaaaaa", "aaaaaaar", "aaaaaaaa", "aaaaaar-"] * 5, gamma=8), Top((), 1.0)
    bare = [
        replace(c, decisions=tuple(replace(d, p_top=none, q_top=none, residual_top=none) for d in c.decisions))
        for c in whole.cycles
    ]
    start, stop, cycles = bare[0].committed_before, bare[-1].committed_after, []
    last: list[KV] = []
    for index in range(1000):
        cycle, by = bare[index % len(bare)], index // len(bare) * (stop - start)
        before, after = cycle.committed_before + by, cycle.committed_after + by
        kv = [
            KV(k.before + by, k.written + by, k.after + by) for k in (cycle.target_kv, cycle.draft_kv) if k is not None
        ]
        if index % len(bare) == 0 and index:
            kv = [KV(k.after, now.written, now.after) for k, now in zip(last, kv, strict=True)]
        last = kv
        cycles.append(
            replace(cycle, index=index, committed_before=before, committed_after=after, target_kv=kv[0], draft_kv=kv[1])
        )
    return replace(whole, cycles=tuple(cycles))


def dropped() -> Trace:
    """A trace that kept only its last two cycles."""
    whole = build(["aar-", "aaaa", "r---", "aaa-".replace("-", "r")])
    return replace(whole, cycles=whole.cycles[2:], dropped=2)


def paged(trace: Trace, size: int) -> Trace:
    """The same run on a paged cache that trims: ids in the order of taking, the first block shared."""
    cycles, table, next_id = [], list(range(-(-trace.cycles[0].target_kv.before // size))), 40
    for cycle in trace.cycles:
        before, kv, taken, freed = len(table), cycle.target_kv, [], []
        while len(table) * size < kv.written:
            table.append(next_id)
            taken.append(next_id)
            next_id += 1
        while len(table) > -(-kv.after // size):
            freed.append(table.pop())
        published = tuple(table[kv.before // size : kv.after // size])
        blocks = Blocks(size, tuple(table), tuple(taken), tuple(freed), published, tuple(table[:1]))
        cycles.append(replace(cycle, blocks=blocks))
        assert len(table) >= before - len(freed)
    return replace(trace, cycles=tuple(cycles), meta=replace(trace.meta, cache="paged"))


CASES: Mapping[str, Trace] = {
    "mixed": build(["aar-", "aaaa", "r---", "aaar", "aaaa", "ar--"]),
    "plain": build(["", "", ""], gamma=0),
    "no_draft_cache": build(["ar", "aaa", "", "r--"], draft_cache=False),
    "eos_cut": build(["aaaa", "aacc"], finish="eos"),
    "all_accepted": build(["aaaa", "aaaa"]),
    "rejected_first": build(["r---", "r---"]),
    "greedy": build(["aar-", "aaaa", "r---"], temperature=0.0),
    "forced": build(["ar--", "aaaa"], forced=2),
    "lossy": build(["aaaa", "ar--"], verify="typical"),
    "hostile": hostile(),
    "dropped": dropped(),
    "one_token_prompt": build(["ar--"], prompt=(20,)),
    "empty": build([], finish=None),
    "paged": paged(build(["aar-", "aaaa", "r---", "aaar", "aaaa", "ar--"]), 4),
    **{
        f"vllm_{name}": from_vllm((FIXTURES / f"vllm_{name}.json").read_text(encoding="utf-8"))
        for name in ("completion", "chat")
    },
    "long": build(["aar-", "aaaa", "r---"] * 100),
}
