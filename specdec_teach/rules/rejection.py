"""The standard rule: each draft on its own, from left to right, until one falls; in a tree its siblings come then.

Sources: Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2; for trees, where every sibling that falls
leaves a smaller p for the next one, Miao et al. 2024, "SpecInfer", algorithm 2, and Yang et al. 2024, "Multi-candidate
speculative decoding".
Invariant: exact for drafts drawn from the reported q. It does not know where p and q come from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, final

from torch import Tensor

from specdec_kernels.rejection import accept_probability, residual
from specdec_teach.drafters.base import Proposal
from specdec_teach.noise import Noise
from specdec_teach.rules.base import Rows, Verdict, follow, numbers

__all__ = ["Rejection"]


@final
@dataclass(frozen=True, slots=True)
class Rejection:
    """Accept a draft d iff u·q(d) < p(d), where p is its row, or what siblings that fell have left of it: [p − q]₊.

    After the last draft draw from what is left of p. An empty residual leaves p as it was before, and ends the row.
    """

    name: ClassVar[str] = "rejection"
    lossless: ClassVar[bool] = True
    by_number: ClassVar[bool] = True
    by_position: ClassVar[bool] = False
    branches: ClassVar[bool] = True

    def judge(self, proposal: Proposal, p_RV: Tensor, noise: Noise, first: int) -> Verdict:
        """See `Rule.judge`."""
        rows, node, degenerate = Rows(proposal, p_RV), -1, False
        path: list[int] = []
        met: dict[int, tuple[float, float | None]] = {}
        left: list[tuple[int, Tensor]] = []
        while True:
            law_V, fallen = p_RV[node + 1], None
            for child in rows.families[node + 1]:
                p, q = rows.at(child)
                if fallen is not None:
                    law_V = law_V / law_V.sum()
                    left.append((child, law_V))
                    p, q = numbers(float(law_V[proposal.tokens[child]]), q, child)
                stands, u = noise.accepts(first + child, p, q)
                met[child] = (p, u)
                if stands:
                    path.append(child)
                    break
                fallen = child
                rest_V, mass = residual(law_V, rows.q_V(child), rows.drafts_K[child])
                degenerate = not bool(mass > 0)
                if degenerate:
                    break
                law_V = rest_V
            if not path or path[-1] == node:
                break
            node = path[-1]
        token = follow(noise, first + len(path), law_V, node + 1)
        source: Literal["p", "residual"] = "residual" if fallen is not None and not degenerate else "p"
        uniforms = tuple(u for _, u in met.values())
        chances = tuple(None if u is None else accept_probability(p, rows.q[at]) for at, (p, u) in met.items())
        ones = (1.0,) * len(proposal.tokens)
        verdict = Verdict(
            len(path), token, law_V, rows.p, rows.q, uniforms, chances, ones, source, degenerate
        )  # fmt: skip
        if proposal.parents is None:
            return verdict
        every = range(len(proposal.tokens))
        by_node = dict(zip(met, zip(uniforms, chances, strict=True), strict=True))
        return replace(
            verdict,
            p=tuple(met[at][0] if at in met else rows.p[at] for at in every),
            uniforms=tuple(by_node.get(at, (None, None))[0] for at in every),
            chances=tuple(by_node.get(at, (None, None))[1] for at in every),
            path=tuple(path),
            judged=tuple(met),
            fallen=fallen,
            left=tuple(left),
        )
