"""A run as plain text: for terminals, diffs and readers without a browser.

Invariant: the same trace gives the same text, and no timing is in it; what was not recorded is called unknown.
It knows traces only.
"""

from __future__ import annotations

from specdec_teach.trace import Cycle, Decision, Meta, Trace
from specdec_teach.tree import depths

__all__ = ["render"]

_MARKS = {"accepted": "✓", "rejected": "✗", "unused": "·", "cut": "✂"}
_LAST = {"correction": "↺", "bonus": "★"}


def render(trace: Trace) -> str:
    """Return the whole run: how it was made, a block per cycle, and the totals."""
    meta = trace.meta
    temperature = meta.sampling.get("temperature")
    mode = "greedy" if isinstance(temperature, (int, float)) and temperature <= 1e-5 else f"T={_known(temperature)}"
    exact = {True: "", False: "not lossless", None: "lossless or not is unknown"}[meta.lossless]
    claims = ["forced" if meta.forced is not None else "", exact]
    lines = [
        f"target {meta.models['target']} · drafter {meta.drafter or 'none'} · {_gamma(meta)} · {mode} "
        f"· rule {meta.verify} · seed {_known(meta.seed)}" + "".join(f" · {claim}" for claim in claims if claim),
        f"prompt {_words(trace, trace.prompt)}",
    ]
    if trace.dropped:
        lines.append(f"(the first {trace.dropped} cycles were not kept)")
    for cycle in trace.cycles:
        lines += ["", *_cycle(trace, cycle)]
    return "\n".join([*lines, "", _totals(trace)]) + "\n"


def _gamma(meta: Meta) -> str:
    return f"γ={meta.gamma}" if meta.planner is None else f"γ≤{meta.gamma} ({meta.planner})"


def _cycle(trace: Trace, cycle: Cycle) -> list[str]:
    kv = cycle.target_kv
    pointers = f"target {kv.before}→{kv.written}→{kv.after}"
    if cycle.draft_kv is not None:
        kv = cycle.draft_kv
        pointers += f", draft {kv.before}→{kv.written}→{kv.after}"
    head = f"cycle {cycle.index}: committed {cycle.committed_before}→{cycle.committed_after}, computed {pointers}"
    ways = [""] * len(cycle.decisions) if cycle.parents is None else ["  " * (at - 1) for at in depths(cycle.parents)]
    lines = [head, *(_decision(trace, one, way) for one, way in zip(cycle.decisions, ways, strict=True))]
    if cycle.last is not None:
        chance = (
            next((p for token, p in cycle.last_top.tokens if token == cycle.last), None) if cycle.last_top else None
        )
        where = {"residual": " from the residual", "p": " from p", None: ""}[cycle.last_from]
        if cycle.degenerate_residual:
            where = " from p, since the residual was empty"
        odds = "" if chance is None else f", probability {chance:.4f}"
        lines.append(f"  {_LAST[cycle.last_kind]} {cycle.last_kind} {_word(trace, cycle.last)}{where}{odds}")
    if cycle.stop_cut:
        lines.append(f"  ✂ {cycle.stop_cut} drafts lay behind the end of the text")
    return lines


def _decision(trace: Trace, decision: Decision, way: str) -> str:
    """Return the line of one draft, `way` in front of it: in a tree, as far in as it is deep."""
    if decision.p is None and decision.q is None:
        head = f"  {_MARKS[decision.status]} {way}{decision.position} {_word(trace, decision.token):<14}"
        return f"{head} p, q and u unknown  {decision.status}"
    parts = [f"p {_chance(decision.p)}", f"q {_chance(decision.q)}"]
    if decision.u is not None and decision.accept_probability is not None:
        parts += [f"u {decision.u:.4f}", f"accept below {decision.accept_probability:.4f}"]
    parts.append(f"α {_chance(decision.alpha)}")
    mark = _MARKS[decision.status]
    forced = " (swapped in)" if decision.forced else ""
    word = _word(trace, decision.token)
    return f"  {mark} {way}{decision.position} {word:<14} {'  '.join(parts)}  {decision.status}{forced}"


def _totals(trace: Trace) -> str:
    drafted = sum(len(cycle.proposed) for cycle in trace.cycles)
    accepted = sum(cycle.accepted for cycle in trace.cycles)
    judged = drafted - sum(cycle.stop_cut for cycle in trace.cycles)
    emitted = sum(len(cycle.emitted) for cycle in trace.cycles)
    rate = f"{accepted / judged:.3f}" if judged else "none"
    each = f"{emitted / len(trace.cycles):.2f}" if trace.cycles else "none"
    return (
        f"{len(trace.cycles)} cycles, {emitted} tokens, {drafted} drafted, {accepted} accepted; "
        f"acceptance rate {rate}, tokens per cycle {each}; ended by {trace.finish_reason or 'nothing yet'}"
    )


def _known(value: object) -> str:
    return "unknown" if value is None else str(value)


def _chance(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"


def _word(trace: Trace, token: int | None) -> str:
    if token is None:
        return "unknown"
    return repr(trace.pieces.get(token, str(token)))


def _words(trace: Trace, tokens: tuple[int, ...]) -> str:
    if any(token not in trace.pieces for token in tokens):
        return str(list(tokens))
    text = "".join(trace.pieces[token] for token in tokens)
    return repr(text) if any(not piece.isdigit() for piece in trace.pieces.values()) else str(list(tokens))
