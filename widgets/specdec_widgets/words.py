"""Words and numbers of a Trace as text: token labels, a cycle in one sentence, a run in one line.

Invariant: no timing and no address appears in what this module returns, so that it may be stored and compared.
It mirrors static/words.js (a test compares them) and knows nothing of pixels.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

from specdec_teach.trace import Blocks, Cycle, Decision, Trace

__all__ = [
    "blocks_sentence", "clip", "columns", "cycle_sentence", "decisive", "describe", "gamma_of", "labels", "listed",
    "mark", "moment_sentence", "num", "pace", "plural", "quote", "subscript", "summary", "telling",
]  # fmt: skip

BYTES = re.compile(r"(?:<0x[0-9A-Fa-f]{2}>)+")
HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
MANY = 12
ENDS = {
    "eos": "the end-of-text token",
    "stop": "a stop string",
    "length": "the token limit",
    "context": "a full context",
}


def mark(piece: str) -> str:
    r"""Make white space, control and direction characters visible.

    >>> mark(" the\n")
    '␣the↵'
    """
    lead = len(piece) - len(piece.lstrip(" "))
    body = piece[lead:].rstrip(" ")
    trail = len(piece) - lead - len(body)
    shown = "␣" * lead + body + "␣" * trail
    shown = shown.replace("\n", "↵").replace("\t", "⇥")
    return HIDDEN.sub(lambda m: f"⟨{ord(m[0]):04X}⟩", shown)


def labels(ids: Sequence[int | None], pieces: Mapping[int, str]) -> list[str]:
    """Label every token of a sequence; the last byte of a character shows it, the bytes before it show "⋯".

    >>> labels([0, 1, 2], {0: " a", 1: "<0xC3>", 2: "<0xA9>"})
    ['␣a', '⋯', 'é']
    """
    out = [""] * len(ids)
    run: list[tuple[int, int]] = []
    for i, token in enumerate(ids):
        piece = "?" if token is None else pieces.get(token, f"#{token}")
        if not BYTES.fullmatch(piece):
            run = []
            out[i] = mark(piece) if piece else "∅"
            continue
        out[i] = re.sub("<0x(..)>", r"‹\1›", piece)
        for pair in re.findall("<0x(..)>", piece):
            byte = int(pair, 16)
            if byte & 0xC0 != 0x80:
                run = []
            run.append((byte, i))
            lead = run[0][0]
            need = 1 if lead < 0x80 else 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2 if lead >= 0xC2 else 0
            if len(run) != need:
                continue
            try:
                text = bytes(b for b, _ in run).decode("utf-8")
            except UnicodeDecodeError:
                text = ""
            if text:
                for _, at in run:
                    out[at] = "⋯"
                out[i] = mark(text)
            run = []
    return out


def columns(text: str) -> int:
    """How many columns of a monospace font the text takes at most."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" or ord(c) > 0x1F000 else 1 for c in text)


def clip(text: str, n: int) -> str:
    """Cut the text to n columns, the last one an ellipsis when something was cut.

    >>> clip("lantern", 5)
    'lant…'
    """
    if columns(text[: n + 1]) <= n:
        return text
    used, out = 1, ""
    for c in text:
        used += columns(c)
        if used > n:
            break
        out += c
    return out + "…"


def num(value: float | None, digits: int = 2) -> str:
    """Show a probability: two decimals, more where they would round to 1, one digit where they would round to 0.

    >>> num(0.614), num(1.0), num(0.9996), num(0.0), num(0.0042), num(None)
    ('.61', '1.00', '.9996', '0', '.004', '–')
    """
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if value < 10**-digits / 2:
        if value < 9.5e-4:
            mantissa, exponent = f"{value:.0e}".split("e-")
            return f"{mantissa}e−{int(exponent)}"
        return f"{value:.1g}".removeprefix("0")
    for more in range(digits, 5) if value < 1 else ():
        if not f"{value:.{more}f}".startswith("1"):
            return f"{value:.{more}f}".removeprefix("0")
    return f"{value:.{digits}f}".removeprefix("0")


def pace(gamma: int, planner: str | None = None, run: bool = False) -> str:
    """Say γ of one cycle, or of a `run` with its largest, and who chose it.

    >>> pace(3), pace(3, "auto"), pace(8, "auto", run=True)
    ('γ = 3', 'γ = 3 (auto)', 'γ ≤ 8 (auto)')
    """
    return f"γ = {gamma}" if planner is None else f"γ {'≤' if run else '='} {gamma} ({planner})"


def gamma_of(cycle: Cycle) -> int:
    """Return the γ of a cycle as a picture says it: how many drafts came, in a tree its depth."""
    return len(cycle.proposed) if cycle.parents is None else cycle.gamma


def plural(count: int, one: str) -> str:
    """Return the count with its noun.

    >>> plural(1, "block"), plural(3, "block")
    ('1 block', '3 blocks')
    """
    return f"{count} {one}" + ("" if count == 1 else "s")


def listed(items: Sequence[object]) -> str:
    """Return the items as a list in words.

    >>> listed([1, 2, 3])
    '1, 2 and 3'
    """
    texts = [str(item) for item in items]
    return "".join(texts) if len(texts) < 2 else ", ".join(texts[:-1]) + " and " + texts[-1]


def subscript(name: str, n: int) -> str:
    """A name with its number below the line.

    >>> subscript("d", 12)
    'd₁₂'
    """
    return name + "".join("₀₁₂₃₄₅₆₇₈₉"[int(digit)] for digit in str(n))


def quote(label: str) -> str:
    """A label in quotation marks, cut to 24 columns; the space before a word is left to the pictures."""
    return f"‘{clip(label[1:] if label[:1] == '␣' and len(label) > 1 else label, 24)}’"


def decisive(cycle: Cycle) -> Decision | None:
    """The decision worth showing: the rejected one, else the first; None when nothing was proposed."""
    return next((d for d in cycle.decisions if d.status == "rejected"), cycle.decisions[0] if cycle.decisions else None)


def telling(trace: Trace) -> Cycle | None:
    """The cycle to show when there is room for one: with drafts kept and one rejected, else the first rejection."""
    kinds = [c for c in trace.cycles if c.last_kind == "correction"]
    return next((c for c in kinds if c.accepted), kinds[0] if kinds else trace.cycles[0] if trace.cycles else None)


def cycle_sentence(trace: Trace, cycle: Cycle, tokens: Sequence[str], drafts: Sequence[str]) -> str:
    """One sentence about a whole cycle; `tokens` labels what it emitted, `drafts` what was proposed."""
    t = cycle.target_kv
    after = f"the target's pointer goes from {t.before} to {t.written} and rests at {t.after}"
    last = quote(tokens[-1]) if tokens else ""
    if not cycle.proposed:
        return f"Nothing was proposed: one forward gives {last}; {after}."
    kept = f"{cycle.accepted} of {len(cycle.proposed)} drafts are kept"
    rejected = next((d for d in cycle.decisions if d.status == "rejected"), None)
    if cycle.last_kind == "bonus":
        return f"{kept} and the bonus {last} is free; {after}."
    if cycle.last_kind == "none":
        return (
            f"{kept}, then the text ends"
            + (f" and {cycle.stop_cut} behind it are cut" if cycle.stop_cut else "")
            + f"; {after}."
        )
    why = ""
    if rejected is not None:
        word = quote(drafts[rejected.position - 1])
        if rejected.u is not None and rejected.accept_probability is not None and trace.meta.verify == "rejection":
            why = f": {word} is rejected (u {num(rejected.u)} ≥ p/q {num(rejected.accept_probability)})"
        else:
            why = f": {word} is rejected"
    return f"{kept}{why}, and {last} corrects it; {after}."


def moment_sentence(cycle: Cycle, stage: int, pending: str, drafts: Sequence[str]) -> str:
    """Say what a stage before the rewind shows: 0 the drafts, 1 the target's forward, 2 the verdicts."""
    named = [f"{subscript('d', i)} = {quote(draft)}" for i, draft in enumerate(drafts, 1)]
    if stage == 0:
        return f"The drafter proposes {listed(named)}; {quote(pending)} is pending."
    if stage == 1:
        over = f"{quote(pending)} and {plural(len(drafts), 'draft')}" if drafts else f"{quote(pending)} alone"
        move = f"its pointer jumps from {cycle.target_kv.before} to {cycle.target_kv.written}"
        return f"The target runs one forward over {over}: {plural(len(drafts) + 1, 'row')} of logits; {move}."
    rejected = next((d for d in cycle.decisions if d.status == "rejected"), None)
    said = f"{cycle.accepted} of {len(drafts)} drafts are accepted" if drafts else "Nothing was proposed"
    if rejected is not None:
        return f"{said}: {named[rejected.position - 1]} is rejected, and the correction takes its place."
    return f"{said}{'' if cycle.last is None else f', and row {len(drafts)} gives one token more'}."


def blocks_sentence(blocks: Blocks) -> str:
    """Say what a cycle did to the blocks of a paged cache.

    >>> blocks_sentence(Blocks(8, (0, 1, 5), taken=(5, 6), freed=(6,), published=(1,), shared=(0,)))
    'The table holds blocks 0, 1 and 5 of 8 tokens (shared: 0); taken: 5 and 6; published: 1; given back: 6.'
    """
    owned, shown = blocks.owned, listed(blocks.owned)
    if len(owned) > MANY:
        shown = f"… {listed(owned[-4:])} ({len(owned)} in all)"
    head = f"The table holds block{'s' if len(owned) > 1 else ''} {shown}" if owned else "The table holds no block"
    parts = [f"{head} of {plural(blocks.size, 'token')}" if owned else head]
    if blocks.shared:
        parts[0] += f" (shared: {listed(blocks.shared)})"
    copied = [f"{source} to {own}" for source, own in blocks.copied]
    for name, ids in (
        ("taken", blocks.taken),
        ("copied before a write", copied),
        ("published", blocks.published),
        ("given back", blocks.freed),
    ):
        if ids:
            parts.append(f"{name}: {listed(ids)}")
    return "; ".join(parts) + "."


def describe(trace: Trace) -> str:
    """A title for the run."""
    names = " and ".join(trace.meta.models[role] for role in ("target", "draft") if role in trace.meta.models)
    return f"Speculative decoding, step by step: {mark(names)}"


def summary(trace: Trace) -> str:
    """The run in one line, without timings.

    It counts what the trace holds: cycles, tokens, accepted drafts, and how the run ended.
    """
    emitted = sum(len(c.emitted) for c in trace.cycles)
    accepted = sum(c.accepted for c in trace.cycles)
    judged = sum(len(c.proposed) - c.stop_cut for c in trace.cycles)
    parts = [f"{len(trace.cycles)} cycles", f"{emitted} tokens"]
    if judged:
        parts.append(f"{accepted} of {judged} drafts accepted")
    if trace.finish_reason:
        parts.append(f"ended by {ENDS[trace.finish_reason]}")
    if trace.meta.forced is not None:
        parts.append("forced")
    if trace.meta.lossless is not True:
        parts.append("lossless or not is unknown" if trace.meta.lossless is None else "not lossless")
    return "CyclePlayer: " + ", ".join(parts)
