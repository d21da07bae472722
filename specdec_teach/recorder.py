"""Write down what happened to every draft: from the cycle's tensors to plain records.

It works in two steps: `measure` takes what it needs off the cycle's tensors, a few numbers a row, and `Pending.cycle`
turns them into records when somebody asks. Invariant: every number is read off the tensors that decided, none is
computed again from a model; of older cycles nothing bigger than the 17 likeliest tokens of a row is kept.
It does not know how a cycle was run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence as Items
from dataclasses import dataclass, replace
from typing import final
from weakref import ReferenceType, ref

import torch
from torch import Tensor

from specdec_kernels.rejection import overlap, residual
from specdec_teach.drafters.base import Proposal
from specdec_teach.rules.base import Verdict
from specdec_teach.trace import Bar, Cycle, Decision, Draws, Status, Top
from specdec_teach.tree import below

__all__ = ["TOP", "Pending", "Unread", "draw_numbers", "likeliest", "measure"]

TOP = 16
_BARS = 6
_WIDE, _PART = 8192, 64
_ROOM = 1 << 20  # 4 MB of float32


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Measured:
    """The numbers of one cycle: the likeliest tokens of the rows of p, residual and q, α, and the bars' columns.

    `values_RN`, `ids_RN`: K + 1 rows of p, then K of the residual and, unless q is one-hot, K of q. `ids_KW`: the
    tokens worth a bar in each row, with repeats; `bars_RW`: their p, residual and q, K rows each.
    """

    values_RN: Tensor
    ids_RN: Tensor
    alpha_K: Tensor
    ids_KW: Tensor
    bars_RW: Tensor


@torch.inference_mode()
def measure(proposal: Proposal, p_RV: Tensor, verdict: Verdict) -> _Measured:
    """Take off the tensors of a cycle what its record will need."""
    count, at = len(proposal.tokens), verdict.deciding
    p_RV = p_RV if verdict.path is None else _by_draft(proposal, p_RV, verdict)
    drafts_K = torch.tensor(proposal.tokens, dtype=torch.int64, device=p_RV.device)
    p_KV, q_KV = p_RV[:count], proposal.q_KV
    scaled_KV = p_KV if min(verdict.scales, default=1.0) == 1.0 else p_KV * p_KV.new_tensor(verdict.scales)[:, None]
    rest_KV, mass_K = residual(scaled_KV, q_KV, drafts_K)
    last_K1 = drafts_K[:, None].clone()
    last_K1[at:] = verdict.token
    rows = [p_KV, rest_KV] if q_KV is None else [p_KV, rest_KV, q_KV]
    if q_KV is None and p_RV.shape[1] > TOP:
        values_RN, ids_RN = _without_drafts(*likeliest(p_RV, TOP + 1), drafts_K, rest_KV)
    else:
        values_RN, ids_RN = likeliest(torch.cat([p_RV, *rows[1:]]), TOP)
    likely = [ids_RN[:count, :_BARS]] if q_KV is None else [ids_RN[:count, :_BARS], ids_RN[2 * count + 1 :, :_BARS]]
    ids_KW = torch.cat([*likely, drafts_K[:, None], last_K1], dim=1)
    bars_RW, alpha_K = torch.cat([row_KV.gather(-1, ids_KW) for row_KV in rows]), overlap(p_KV, q_KV, drafts_K)
    mass_K1 = mass_K.clamp_min(torch.finfo(mass_K.dtype).tiny)[:, None]
    values_RN[count + 1 : 2 * count + 1] /= mass_K1
    bars_RW[count : 2 * count] /= mass_K1
    return _Measured(values_RN, ids_RN, alpha_K, ids_KW, bars_RW)


def _without_drafts(values_RN: Tensor, ids_RN: Tensor, drafts_K: Tensor, rest_KV: Tensor) -> tuple[Tensor, Tensor]:
    """Return the likeliest tokens of p, and below them those of its residual under certain drafts: the same but one."""
    count, most = len(drafts_K), ids_RN.shape[1] - 1
    behind_KN = (ids_RN[:count] == drafts_K[:, None]).cumsum(-1)[:, :most]
    rest_ids_KN = ids_RN[:count].gather(-1, torch.arange(most, device=ids_RN.device) + behind_KN)
    rest_KN = rest_KV.gather(-1, rest_ids_KN)
    return torch.cat([values_RN[:, :most], rest_KN]), torch.cat([ids_RN[:, :most], rest_ids_KN])


def likeliest(weights_RV: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Return the `most` largest weights of each row and their tokens, largest first, like `topk`.

    A wide row is searched in two steps: the largest lie in those parts whose own largest are the largest.

    >>> [part.tolist() for part in likeliest(torch.tensor([[0.1, 0.6, 0.3]]), 2)]
    [[[0.6..., 0.3...]], [[1, 2]]]
    """
    rows, width = weights_RV.shape
    parts = width // _PART
    if width <= _WIDE:
        return weights_RV.topk(min(most, width), dim=-1)
    parts_RBP = weights_RV[:, : parts * _PART].view(rows, parts, _PART)
    best_RB1 = parts_RBP.amax(-1).topk(min(most, parts), dim=-1, sorted=False).indices[..., None]
    inside_RBP = best_RB1 * _PART + torch.arange(_PART, device=weights_RV.device)
    behind_RP = torch.arange(parts * _PART, width, device=weights_RV.device).expand(rows, -1)
    ids_RC = torch.cat([inside_RBP.view(rows, -1), behind_RP], dim=1)
    values_RN, at_RN = weights_RV.gather(-1, ids_RC).topk(most, dim=-1)
    return values_RN, ids_RC.gather(-1, at_RN)


def _by_draft(proposal: Proposal, p_RV: Tensor, verdict: Verdict) -> Tensor:
    """Return the row that each draft of a tree was judged by, or would be, `[K + 1, V]`; behind them its path's end."""
    path = verdict.path or (-1,)
    by_draft_RV = p_RV[[*(parent + 1 for parent in proposal.shape), path[-1] + 1]]
    for node, left_V in verdict.left:
        by_draft_RV[node] = left_V
    return by_draft_RV


def draw_numbers(
    proposal: Proposal, verdict: Verdict, first: int, by_position: bool, drawn: bool, drafts_drawn: bool
) -> Draws:
    """Say which draw numbers a cycle used that began with number `first`.

    A rule by position draws a token in every row it judges; `drawn`, `drafts_drawn`: whether chance had a part
    in the last token, and in the drafts.
    """
    judged = [row for row, u in enumerate(verdict.uniforms) if u is not None]
    drafts = proposal.depth if by_position else len(proposal.tokens)
    token = (first, verdict.accepted + 1) if by_position else (first + verdict.accepted, 1)
    return Draws(
        draft=(first, drafts if drafts_drawn and proposal.q_KV is not None else 0),
        accept=(first + min(judged, default=0), max(judged) - min(judged) + 1 if judged else 0),
        token=token if drawn else (token[0], 0),
    )


@final
class Pending:
    """A cycle that is written out when it is first asked for. `shell`: its record without the decisions.

    It holds the cycle's own tensors until it is `read`, and after that nothing as wide as the vocabulary. Two threads
    may ask at once: both get the same numbers.
    """

    __slots__ = ("__weakref__", "_cut", "_done", "_forced", "_measured", "_tensors", "_verdict", "shell")

    def __init__(
        self, shell: Cycle, proposal: Proposal, p_RV: Tensor, verdict: Verdict, cut: bool, forced: Items[bool]
    ) -> None:
        self.shell, self._cut, self._forced = shell, cut, forced
        self._tensors: tuple[Proposal, Tensor, Verdict] | None = (proposal, p_RV, verdict)
        self._measured: _Measured | None = None
        self._done: Cycle | None = None
        self._verdict = replace(verdict, law_V=verdict.law_V.new_empty(0), left=())

    @property
    def held(self) -> int:
        """How many numbers as wide as the vocabulary it holds: rows times the vocabulary's size."""
        if self._tensors is None:
            return 0
        proposal, p_RV, verdict = self._tensors
        return p_RV.numel() + (0 if proposal.q_KV is None else proposal.q_KV.numel()) + verdict.law_V.numel()

    def read(self) -> _Measured:
        """Take the numbers off the tensors, once, and let the tensors go."""
        tensors = self._tensors
        if tensors is not None:
            self._measured = measure(*tensors)
            self._tensors = None
        assert self._measured is not None
        return self._measured

    def cycle(self) -> Cycle:
        """Return the whole record, the same one each time."""
        if self._done is None:
            self._done = self._write()
        return self._done

    def _write(self) -> Cycle:
        verdict, measured, count = self._verdict, self.read(), len(self.shell.proposed)
        pairs = zip(measured.ids_RN.tolist(), measured.values_RN.tolist(), strict=True)
        tops = [_top(ids, values) for ids, values in pairs]
        p_tops, rest_tops, q_tops = tops[: count + 1], tops[count + 1 : 2 * count + 1], tops[2 * count + 1 :]
        rest_tops = [top if top.tokens else Top((), 0.0) for top in rest_tops]
        q_tops = q_tops or [Top(((token, 1.0),), 0.0) for token in self.shell.proposed if token is not None]
        alpha, bars = measured.alpha_K.tolist(), self._bars(measured)
        decisions = tuple(
            self._decision(row, alpha[row], p_tops[row], q_tops[row], rest_tops[row], bars[row]) for row in range(count)
        )
        last_top = (rest_tops if verdict.source == "residual" else p_tops)[verdict.deciding]
        return replace(self.shell, decisions=decisions, last_top=None if self._cut else last_top)

    def _decision(self, row: int, alpha: float, p_top: Top, q_top: Top, rest: Top, bars: tuple[Bar, ...]) -> Decision:
        verdict, shell = self._verdict, self.shell
        status = self._status(row)
        judged = row < len(verdict.uniforms) and status != "unused"
        return Decision(
            position=row + 1,
            token=shell.proposed[row],
            p=verdict.p[row],
            q=verdict.q[row],
            u=verdict.uniforms[row] if judged else None,
            accept_probability=verdict.chances[row] if judged else None,
            accepted=status == "accepted",
            alpha=min(1.0, alpha),
            p_top=p_top,
            q_top=q_top,
            residual_top=rest,
            bars=bars,
            status=status,
            forced=self._forced[row],
        )

    def _status(self, row: int) -> Status:
        """Return what became of draft `row`; in a tree what hangs below the last kept draft is behind a cut."""
        verdict, shell = self._verdict, self.shell
        if shell.path is None or shell.parents is None:
            status: Status = "accepted" if row < shell.accepted else "cut" if self._cut else "unused"
            return "rejected" if status == "unused" and row == verdict.accepted else status
        if row in shell.path:
            return "accepted"
        if self._cut and row in below(shell.parents, shell.path[-1]):
            return "cut"
        return "rejected" if row in verdict.judged else "unused"

    def _bars(self, measured: _Measured) -> list[tuple[Bar, ...]]:
        """Return the bars of each row: the likeliest of p and q, the draft, and where it fell what replaced it."""
        shell, ids_KW, numbers = self.shell, measured.ids_KW.tolist(), measured.bars_RW.tolist()
        count, one_hot = len(ids_KW), len(numbers) == 2 * len(ids_KW)
        rows = []
        for row, ids in enumerate(ids_KW):
            p, rest = numbers[row], numbers[count + row]
            q = [float(t == shell.proposed[row]) for t in ids] if one_hot else numbers[2 * count + row]
            wanted = ids if row == self._verdict.deciding else ids[:-1]
            bars = {t: Bar(t, p[at], q[at], rest[at]) for at, t in enumerate(wanted)}
            rows.append(tuple(sorted(bars.values(), key=lambda bar: (-max(bar.p, bar.q), bar.token))))
        return rows


@final
class Unread:
    """The cycles of one request whose tensors nobody has read yet: the newest, and others while they are small.

    Watching a run then costs little while it runs. What is left of an older cycle is read off its tensors when newer
    ones need the room; one that nobody holds any more never is.
    """

    __slots__ = ("_cycles", "_held")

    def __init__(self) -> None:
        self._cycles: deque[tuple[ReferenceType[Pending], int]] = deque()
        self._held = 0

    def add(self, cycle: Pending) -> Pending:
        """Take a cycle in, read the oldest that no longer fit, and return the new one."""
        self._cycles.append((ref(cycle), cycle.held))
        self._held += cycle.held
        while self._held > _ROOM and len(self._cycles) > 1:
            oldest, held = self._cycles.popleft()
            self._held -= held
            if (left := oldest()) is not None:
                left.read()
        return cycle


def _top(ids: list[int], values: list[float]) -> Top:
    if values[-1] <= 0.0:
        keep = sum(value > 0.0 for value in values)
        ids, values = ids[:keep], values[:keep]
    return Top(tuple(zip(ids, values, strict=True)), max(0.0, 1.0 - sum(values)))
