"""What must hold of the probabilities in a cycle's record: a verdict follows from the numbers shown beside it.

Claims in the manner of `specdec_teach.claims`: a function for each, yielding a sentence if it is broken.
Sources: Leviathan et al. 2023, algorithm 1 (rejection); Sun et al. 2024, algorithm 2 (block).
Invariant: nothing is computed from a model, only compared with what the record shows; where a record shows a part of a
row, the part alone is judged, and of a draft whose numbers are unknown nothing is. It does not know pointers or counts.
"""

from __future__ import annotations

import math

from specdec_teach.branches import after_a_fall, last_fallen
from specdec_teach.claims import EXACT, Claims, Run
from specdec_teach.trace import Cycle, Decision, Top

__all__ = ["acceptance", "drawn_from_q", "residual", "rows", "surprise"]

_LISTED = 16  # a Top lists no more tokens than this: a shorter one is complete
_DOUBT = math.log(1e9)
_CLOSE = 1e-6


def acceptance(run: Run, cycle: Cycle) -> Claims:
    """Every draft's verdict follows from its u, p and q under the rule of the run."""
    for decision in cycle.decisions:
        at, p, q, alpha = f"draft {decision.position}", decision.p, decision.q, decision.alpha
        if p is None or q is None or alpha is None:
            continue
        if not -_CLOSE <= alpha <= 1.0 + _CLOSE:
            yield f"{at} has α = {alpha:.6g}; an overlap is between 0 and 1"
        elif (least := _overlap(decision, min(p, q))) > alpha + 1e-4:
            yield f"{at} has α = {alpha:.6g}, the tokens shown overlap by {least:.6g} already"
        if decision.accepted and run.rule in EXACT and p <= 0.0:
            yield f"{at}, token {decision.token}, was accepted though p = {p}"
        if decision.status == "unused" and decision.u is not None:
            yield f"{at} stands behind a rejection and was judged with u = {decision.u:.6g}"
        if decision.status in ("accepted", "rejected"):
            yield from (f"{at} {broken}" for broken in _verdict(run, decision, p, q))
    if run.rule == "block" and not run.certain and cycle.accepted and cycle.last is not None:
        deciding = cycle.decisions[cycle.accepted - 1] if cycle.accepted <= len(cycle.decisions) else None
        if deciding is not None and deciding.u is None:
            yield f"the first {cycle.accepted} drafts were accepted, and no number decided it"


def _overlap(decision: Decision, own: float) -> float:
    """Return the part of Σ min(p, q) that a decision shows; `own` is the proposed token's."""
    shown: dict[int | None, float] = {bar.token: min(bar.p, bar.q) for bar in decision.bars}
    return sum({decision.token: own, **shown}.values())


def _verdict(run: Run, decision: Decision, p: float, q: float) -> Claims:
    """Compare the verdict on one draft with its numbers."""
    u, chance, stands = decision.u, decision.accept_probability, decision.status == "accepted"
    said = decision.status
    if run.certain:
        if stands != (p == 1.0):
            yield f"was {said} with p = {p}; a greedy run accepts the target's favourite (p = 1) and no other"
        return
    if run.rule == "rejection":
        if u is None or chance is None:
            yield f"was {said} and nobody judged it: there is no u"
            return
        if stands != (u * q < p) and not _tied(run, u * q, p):
            sign = "<" if u * q < p else "≥"
            yield f"was {said}, but u·q = {u * q:.6g} {sign} p = {p:.6g}"
        right = 0.0 if p <= 0.0 else 1.0 if p >= q else p / q
        if not math.isclose(chance, right, rel_tol=_CLOSE, abs_tol=1e-12):
            yield f"has acceptance probability {chance:.6g}; min(1, p/q) is {right:.6g}"
        return
    if u is None or chance is None or run.rule not in ("block", "synthetic"):
        return
    if stands != (u < chance) and not _tied(run, u, chance):
        yield f"was {said} with u = {u:.6g} and acceptance probability {chance:.6g}"


def _tied(run: Run, left: float, right: float) -> bool:
    """Whether a kernel, which computes in float32, may see the two numbers the other way round."""
    return run.meta is not None and run.meta.backend != "torch" and math.isclose(left, right, rel_tol=1e-5)


def residual(run: Run, cycle: Cycle) -> Claims:
    """A correction is drawn from what p has more than q, and from p only where nothing of that is left."""
    if cycle.degenerate_residual and (cycle.last_kind != "correction" or cycle.last_from != "p"):
        yield f"an empty residual is reported, but the token after the drafts is a {cycle.last_kind}"
    by_residual = run.rule in ("rejection", "block")
    if by_residual and cycle.last_kind == "correction" and not cycle.degenerate_residual:
        if cycle.last_from != "residual":
            yield f"the correction {cycle.last} was drawn from p though the residual is not empty"
    elif run.rule is not None and cycle.last_from == "residual" and cycle.last_kind != "none":
        yield f"the {cycle.last_kind} {cycle.last} was drawn from a residual; it comes from p"
    if run.rule in EXACT and cycle.last_kind == "correction" and not cycle.degenerate_residual:
        judged = [cycle.decisions[node] for node in last_fallen(cycle)]
        fallen = judged[-1] if judged else None
        if any(decision.token == cycle.last for decision in judged):
            yield f"the correction is token {cycle.last}, the draft that was just rejected"
        bar = next((bar for bar in (fallen.bars if fallen else ()) if bar.token == cycle.last), None)
        if by_residual and bar is not None and bar.residual <= 0.0:
            yield f"the correction {cycle.last} has p = {bar.p:.6g}, q = {bar.q:.6g} and nothing in the residual"
    top = cycle.last_top
    complete = top is not None and 0 < len(top.tokens) < _LISTED
    if cycle.last is not None and top is not None and complete and cycle.last not in dict(top.tokens):
        yield f"token {cycle.last} follows the drafts, but its row gives it no probability"


def drawn_from_q(run: Run, cycle: Cycle) -> Claims:
    """Drafts come from the reported q: none has q = 0, q is 1 for a certain drafter, and not each is the favourite."""
    if run.meta is None or run.meta.drafter == "scripted":
        return
    certain = run.meta.drafter == "model-argmax" or (run.greedy and run.meta.drafter == "model")
    for decision in cycle.decisions:
        if decision.q is None:
            continue
        if decision.q <= 0.0:
            yield f"draft {decision.position}, token {decision.token}, has q = {decision.q}: it was not drawn from q"
        elif certain and decision.q != 1.0:
            yield (
                f"draft {decision.position}, token {decision.token}, has q = {decision.q:.6g}; this drafter takes its "
                "favourite each time, so q is 1"
            )
    before, after = run.surprise, surprise(run, cycle)
    if before is not None and after is not None and before <= _DOUBT < after:
        yield (
            f"every draft of the run up to this cycle is the likeliest token of its q; were they drawn from q, the "
            f"chance of that would be {math.exp(-after):.1e}"
        )


def surprise(run: Run, cycle: Cycle) -> float | None:
    """Return −ln of the chance that all drafts of a run, this cycle's included, are the likeliest of their q.

    None once one was not, and where drafts are no independent draws. Ville's inequality: it passes ln(1/ε) at any time
    of an honest run with a chance of at most ε.
    """
    meta, total = run.meta, run.surprise
    if total is None or meta is None or meta.drafter != "model" or meta.forced is not None or run.rule == "coupled":
        return None
    for decision in cycle.decisions:
        q = decision.q or 0.0
        if not decision.q_top.tokens or decision.q_top.tokens[0][0] != decision.token or q <= 0.0:
            return None
        total -= math.log(min(1.0, q))
    return total


def rows(run: Run, cycle: Cycle) -> Claims:
    """Rows of p and q are distributions, filtered as the settings say, and each draft's p and q are read off them."""
    own_q = run.meta is not None and run.meta.drafter != "scripted"
    for at, decision in enumerate(cycle.decisions):
        whole = run.meta is not None and (cycle.parents is None or not after_a_fall(cycle, at))
        for name, value, top, judged in (
            ("p", decision.p, decision.p_top, whole),
            ("q", decision.q, decision.q_top, own_q),
        ):
            if value is None or decision.token is None:
                continue
            shown = dict(top.tokens).get(decision.token)
            least = top.tokens[-1][1] if len(top.tokens) == _LISTED else 0.0
            if shown is not None and not math.isclose(shown, value, rel_tol=_CLOSE, abs_tol=1e-12):
                yield f"draft {decision.position} has {name} = {value:.6g}, its row shows {shown:.6g}"
            elif shown is None and top.tokens and value > least + _CLOSE:
                yield f"draft {decision.position} has {name} = {value:.6g} and is not among the likeliest of its row"
            if judged:
                broken = _filtered(run, top)
                yield from (f"the row {name} of draft {decision.position} {one}" for one in broken)
    if cycle.last_top is not None and cycle.last_from == "p" and not (cycle.parents and cycle.degenerate_residual):
        yield from (f"the row p of the {cycle.last_kind} {broken}" for broken in _filtered(run, cycle.last_top))


def _filtered(run: Run, top: Top) -> Claims:
    """Compare the likeliest tokens of one processed row with what the filters leave."""
    chances = [chance for _, chance in top.tokens]
    if not chances:
        return
    if sum(chances) > 1.0 + 1e-4 or min(chances) < 0.0:
        yield f"has a mass of {sum(chances):.6g}"
    kept, floor = int(run.setting("top_k", 0)), run.setting("min_p", 0.0)
    if run.greedy:
        kept, floor = 1, 0.0
    if 0 < kept < len(chances) and chances[kept] < chances[kept - 1] * (1.0 - _CLOSE):
        yield f"gives at least {len(chances)} tokens a chance; {'greedy' if run.greedy else 'top-k'} keeps {kept}"
    if chances[-1] < floor * chances[0] * (1.0 - 1e-4):
        yield f"keeps a token of {chances[-1]:.6g} beside one of {chances[0]:.6g}, min_p = {floor} does not"
