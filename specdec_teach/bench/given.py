"""How many forwards a text takes with a draft tree, when the text is given: expectations in place of counts.

An exact rule leaves the text to the target, so the target can write it first. Given the text, a draft stands with some
chance at each place and cycles follow from those chances. So two shapes are compared on the same texts, over all ways
their drafts can fall, and nothing of the difference is luck in drawing.
A token x is drawn as a node's first child and stands with probability min(p(x), q(x)), and given that the text has x
there, with min(1, q(x)/p(x)). For the next sibling p is what is left, [p − q]₊ normalised, whichever token fell, and q
is without that token.
Invariant: no drafts are made and nothing is timed. It knows the standard rule and siblings without replacement.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import cast

import torch
from torch import Tensor

from specdec_kernels.errors import InvalidInput
from specdec_teach import rounds
from specdec_teach.bench.telling import law
from specdec_teach.drafters.base import Expandable, Sprout
from specdec_teach.policy import fit_width
from specdec_teach.stream import Stream
from specdec_teach.tree import Parents, chain, children, depths, kept

__all__ = ["chances", "forwards", "grown", "laws", "standing"]


def laws(streams: Items[Stream], texts: Items[Items[int]], depth: int) -> list[tuple[Tensor, Tensor]]:
    """Return for each text p `[N, V]` of its tokens, and q `[D, N, V]`: row (d, n) is behind the first d + n of them.

    The target has computed the first n of them then, and the other d are drafts; q is 0 where the text is shorter.
    `streams`: on one engine, each at the start of a request that the text is for, over a drafter that trees can grow
    from; they are used up. InvalidInput for another drafter.
    """
    drafter = streams[0].drafter
    if not hasattr(drafter, "expand"):
        raise InvalidInput("the drafter cannot say what follows a given draft; give one with `expand`")
    base, found = cast(Expandable, drafter), []
    with torch.inference_mode():
        for stream, text in zip(streams, texts, strict=True):
            p_NV = law(stream, text)
            found.append((p_NV, p_NV.new_zeros(depth, *p_NV.shape)))
        for at in range(max(map(len, texts))):
            going = [k for k, text in enumerate(texts) if at < len(text)]
            rounds.catch_up([streams[k] for k in going])
            for below in range(depth):
                deep = [k for k in going if at + below < len(texts[k])]
                ways = [tuple(texts[k][at : at + below]) for k in deep]
                sprouts = [Sprout(way, chain(below), chain(below), (below - 1,)) for way in ways]
                sequences = [streams[k].sequence for k in deep]
                rows = base.expand(sequences, sprouts) if deep else []
                for k, one, way, logits_1V in zip(deep, sequences, ways, rows, strict=True):
                    q_1V = one.policy.rows(fit_width(logits_1V, one.vocab), [*one.tokens, *way])
                    found[k][1][below, at] = q_1V[0]
            for k in going:
                base.retract(streams[k].sequence)
                streams[k].sequence.tokens.append(texts[k][at])
    return found


def standing(p_NV: Tensor, q_NV: Tensor, text_N: Tensor, siblings: int, generator: torch.Generator) -> Tensor:
    """Return `[S, N]`: the chance that the text's token is a node's k-th child and stands, given that it is the text's.

    Exact for the first two. For the k-th the first k − 2 that fall are drawn: right on average.

    >>> p, q = torch.tensor([[.6, .3, .1]]), torch.tensor([[.2, .5, .3]])
    >>> first, second = standing(p, q, torch.tensor([0]), 2, torch.Generator())[:, 0].tolist()
    >>> round(0.6 * first, 6), round(0.6 * second, 6)  # 0.2, then 0.2 · 0.2/0.5 + 0.2 · 0.2/0.7
    (0.2, 0.137143)
    """
    p_NV, q_NV = p_NV.double(), q_NV.double()
    at_N1 = text_N[:, None]
    p_N, weight_N, law_NV = p_NV.gather(-1, at_N1)[:, 0], torch.ones_like(p_NV[:, 0]), p_NV
    found = [torch.minimum(p_N, q_NV.gather(-1, at_N1)[:, 0]) / p_N]
    while len(found) < siblings:
        fallen_NV, rest_NV = (q_NV - law_NV).clamp_min(0.0), (law_NV - q_NV).clamp_min(0.0)
        mass_N1 = rest_NV.sum(-1, keepdim=True)
        law_NV = rest_NV / mass_N1.clamp_min(1e-300)
        others_NV = (q_NV.sum(-1, keepdim=True) - q_NV).clamp_min(1e-300)  # of q, without the one that fell
        stands_NV = torch.minimum(law_NV.gather(-1, at_N1), q_NV.gather(-1, at_N1) / others_NV)
        found.append(weight_N * (fallen_NV * stands_NV).sum(-1) / p_N)
        weight_N = weight_N * mass_N1[:, 0]
        fell_N1 = torch.multinomial(fallen_NV + (mass_N1 <= 0), 1, generator=generator)
        q_NV = q_NV.scatter(-1, fell_N1, 0.0)
        q_NV = q_NV / q_NV.sum(-1, keepdim=True).clamp_min(1e-300)
    return torch.stack(found[:siblings])


def chances(
    streams: Items[Stream],
    texts: Items[Items[int]],
    depth: int,
    siblings: int,
    generator: torch.Generator,
    draws: int = 1,
) -> list[Tensor]:
    """Return for each text `standing` `[S, N, D]` for the place behind its first n tokens and d drafts; 0 past its end.

    `draws`: how many ways to fall a third or later sibling's chance is a mean of; the rest is as in `laws`.
    """
    found = []
    for text, (p_NV, q_DNV) in zip(texts, laws(streams, texts, depth), strict=True):
        count, text_N = len(text), torch.tensor(text)
        found.append(torch.zeros(siblings, count, depth, dtype=torch.float64))
        for d in range(min(depth, count)):
            p, q, ids = (one.repeat_interleave(draws, 0) for one in (p_NV[d:], q_DNV[d, : count - d], text_N[d:]))
            stands = standing(p, q, ids, siblings, generator).view(siblings, -1, draws)
            found[-1][:, : count - d, d] = stands.mean(-1)
    return found


def _reach(standing_SND: Tensor, shape: Parents) -> dict[int, Tensor]:
    """Return for the pending token (−1) and each node the chance `[N]` that the path comes by, n tokens committed."""
    found, level = {-1: torch.ones_like(standing_SND[0, :, 0])}, (0, *depths(shape))
    for node, family in enumerate(children(shape), start=-1):
        for place, child in enumerate(family):
            found[child] = found[node] * standing_SND[place, :, level[node + 1]]
    return found


def forwards(standing_SND: Tensor, shape: Parents, gamma: int) -> float:
    """Return how many forwards of the target the text takes on average with trees of this shape, cut at depth γ.

    `standing_SND`: see `chances`.

    >>> certain = torch.ones(1, 6, 2)
    >>> forwards(certain, (-1, 0), 2), forwards(certain, (-1, 0), 1), forwards(0 * certain, (-1, 0), 2)
    (2.0, 3.0, 6.0)
    """
    shape = kept(shape, [node for node, depth in enumerate(depths(shape)) if depth <= gamma])
    count, level, families = standing_SND.shape[1], (0, *depths(shape)), children(shape)
    reach = _reach(standing_SND, shape)
    ends_ND = torch.zeros(count, max(level) + 1, dtype=standing_SND.dtype)
    for node, chance_N in reach.items():
        ends_ND[:, level[node + 1]] += chance_N - sum(reach[child] for child in families[node + 1])
    starts = [1.0] + [0.0] * count
    for at, ends in enumerate(ends_ND.tolist()):
        for stood, chance in enumerate(ends[: count - at]):
            starts[at + stood + 1] += starts[at] * chance
    return sum(starts[:count])


def grown(standing_SND: Tensor, nodes: int) -> Parents:
    """Return the shape that grows by the draft that stands most often on average, again and again, to so many drafts.

    >>> grown(torch.tensor([0.5, 0.3])[:, None, None].expand(2, 1, 2), 3)
    (-1, -1, 0)
    """
    siblings, _, most = standing_SND.shape
    shape: Parents = ()
    while len(shape) < nodes:
        reach, families, level = _reach(standing_SND, shape), children(shape), (0, *depths(shape))
        offers = [
            (float((reach[node] * standing_SND[len(families[node + 1]), :, level[node + 1]]).mean()), node)
            for node in range(-1, len(shape))
            if level[node + 1] < most and len(families[node + 1]) < siblings
        ]
        shape = (*shape, max(offers)[1])
    return shape
