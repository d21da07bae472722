"""`specdec-teach demo`: real cycles in a terminal, one after the other, as the engine makes them.

Invariant: what is printed comes from the cycle's record; a glyph says what a colour says, so that nothing is lost
without colour. It does not know how a cycle is computed.

    ✓ accepted   ✗ rejected   · never judged   ✂ behind the end   ↺ correction   ★ bonus
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from specdec_kernels.errors import InvalidInput
from specdec_teach.cli import asked

if TYPE_CHECKING:
    from rich.text import Text

    from specdec_teach.trace import KV, Cycle, Decision

__all__ = ["add", "lines", "run"]

_QUIET = "bright_black"
_STATUS = {
    "accepted": ("✓", "green"),
    "rejected": ("✗", "red"),
    "unused": ("·", _QUIET),
    "cut": ("✂", "yellow"),
}
_LAST = {"correction": ("↺", "blue"), "bonus": ("★", "magenta")}
_KEY = "✓ accepted  ✗ rejected  · never judged  ✂ behind the end  ↺ correction  ★ bonus"


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "demo",
        help="watch real cycles in the terminal",
        description="Run the embedded pair, or your own, and print each cycle: what was proposed, how the target "
        f"judged it, what both caches hold. A tree has one line for each depth. {_KEY}",
        allow_abbrev=False,
    )
    parser.add_argument("--prompt", default="Once upon a time", help="the text to continue (%(default)s)")
    asked.add_pair(parser)
    asked.add_drafter(parser)
    asked.add_gamma(parser)
    parser.add_argument("--temperature", type=float, default=0.8, help="0 is greedy (%(default)s)")
    parser.add_argument("--seed", type=int, default=7, help="equal seeds give equal runs (%(default)s)")
    parser.add_argument("--max-new-tokens", type=int, default=32, metavar="N", help="stop after N (%(default)s)")
    parser.add_argument("--reject-at", type=int, metavar="J", help="force a rejection at draft J of every cycle")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds to wait after each cycle (%(default)s)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Play the run."""
    from rich.console import Console
    from rich.text import Text

    import specdec_teach as sd
    from specdec_teach.text import pieces

    if not 0 <= args.delay <= 60:
        raise InvalidInput(f"--delay {args.delay}; give seconds from 0 to 60")
    sampling = sd.Sampling(temperature=args.temperature, seed=args.seed)
    console = Console(highlight=False, soft_wrap=True)
    pair = asked.pair(args)
    engine = sd.Engine(pair.target, drafter=asked.drafter(args, pair), tokenizer=pair.tokenizer, gamma=args.gamma)
    stream = engine.stream(args.prompt, sampling, max_new_tokens=args.max_new_tokens, reject_at=args.reject_at)
    console.print(Text(_KEY, style=_QUIET))
    text, tokens, cycles = "", 0, 0
    for cycle in stream:
        ids = {*cycle.proposed, *cycle.emitted, cycle.last}
        words = pieces(pair.tokenizer, {token for token in ids if token is not None})
        for line in lines(cycle, words, stream.meta.planner):
            console.print(line)
        text, tokens, cycles = text + cycle.text, tokens + len(cycle.emitted), cycles + 1
        time.sleep(args.delay)
    console.print(Text.assemble("\n", (args.prompt, _QUIET), text))
    if cycles:
        per = tokens / cycles
        plain = ", where plain decoding has 1" if per > 1 else ", as in plain decoding"
        console.print(f"\n{tokens} tokens in {cycles} cycles: {per:.2f} for each pass of the target{plain}.")
    if args.reject_at is not None:
        console.print("The pattern was forced, so this run is not lossless: a demonstration, not a sample.")
    return 0


def lines(cycle: Cycle, pieces: Mapping[int, str], planner: str | None = None) -> Iterator[Text]:
    """Yield the lines of one cycle; `pieces` holds the display text of its tokens, `planner` who chose its γ."""
    from rich.text import Text

    from specdec_teach.tree import depths

    committed = f"committed {cycle.committed_before} → {cycle.committed_after}"
    yield Text(f"\ncycle {cycle.index} · {_pace(cycle, planner)} · {committed}")
    row, above = Text("  "), 1
    deep = [1] * len(cycle.decisions) if cycle.parents is None else depths(cycle.parents)
    for decision, depth in zip(cycle.decisions, deep, strict=True):
        if depth != above:
            yield row
            row, above = Text("  " * depth), depth
        glyph, colour = _STATUS[decision.status]
        style = f"{colour} strike" if decision.status == "rejected" else colour
        row.append(f"{glyph}{_shown(pieces, decision.token)} ", style=style)
    if cycle.last is not None and cycle.last_kind in _LAST:
        glyph, colour = _LAST[cycle.last_kind]
        row.append(f" {glyph}{_shown(pieces, cycle.last)}", style=f"bold {colour}")
    yield row
    for decision in cycle.decisions:
        if decision.status in ("accepted", "rejected"):
            yield Text(f"    {_judged(decision, pieces)}", style=_QUIET)
    draft = "" if cycle.draft_kv is None else f"    draft {_pointer(cycle.draft_kv)}"
    yield Text(f"  computed  target {_pointer(cycle.target_kv)}{draft}")


def _pace(cycle: Cycle, planner: str | None) -> str:
    """Say how many tokens were asked for, who chose the number, and how many came where they are fewer."""
    if cycle.parents is not None:
        return f"a tree of {len(cycle.proposed)} drafts, {cycle.gamma} deep{'' if planner is None else f' ({planner})'}"
    came = "" if len(cycle.proposed) == cycle.gamma else f", {len(cycle.proposed)} came"
    return f"γ={cycle.gamma}{'' if planner is None else f' ({planner})'}{came}"


def _judged(decision: Decision, pieces: Mapping[int, str]) -> str:
    glyph = _STATUS[decision.status][0]
    head = f"{glyph} {_shown(pieces, decision.token)}  p={_number(decision.p)} q={_number(decision.q)}"
    if decision.u is None or decision.accept_probability is None:
        verdict = "the target's likeliest" if decision.accepted else "not the target's likeliest"
    else:
        sign = "<" if decision.accepted else "≥"
        verdict = f"u={decision.u:.3f} {sign} {decision.accept_probability:.3f}"
    return f"{head} {verdict}{'  (forced)' if decision.forced else ''}"


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:.3f}"


def _pointer(kv: KV) -> str:
    back = f" ↩ {kv.after}" if kv.after != kv.written else ""
    return f"C={kv.before} → {kv.written}{back}"


def _shown(pieces: Mapping[int, str], token: int | None) -> str:
    """Write a token so that spaces and line ends can be seen; one that is unknown is a question mark."""
    if token is None:
        return "?"
    return pieces[token].replace(" ", "␣").replace("\n", "⏎")
