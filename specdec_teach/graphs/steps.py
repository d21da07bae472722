"""The recorded steps of a cycle: draft forwards and draws, the target's forward, the verdict and what follows from it.

A cycle with K drafts replays: one draft forward over the one or two tokens that the draft lacks and K − 1 over one, a
draw behind each; the target over K + 1; the verdict. All of it follows from the board, which the last step moves to the
next cycle. Invariant: "computed catches up with committed", on the device: after a verdict the target's pointer stands
one behind the committed tokens, and the draft's no further. It does not know streams, records or when a text ends.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from specdec_kernels import verify_chain, verify_workspace
from specdec_kernels.noise import acceptance_uniforms
from specdec_kernels.rejection import accept_probability
from specdec_teach.graphs.board import Board
from specdec_teach.graphs.capture import Capture, Work
from specdec_teach.graphs.draw import pick, pick_coupled, uniform
from specdec_teach.graphs.job import MOST_DRAFTS, Form
from specdec_teach.graphs.model import FixedModel
from specdec_teach.noise import StreamId
from specdec_teach.policy import processed
from specdec_teach.rules.base import Verdict

__all__ = ["Judge", "Report", "Steps"]


@final
@dataclass(frozen=True, slots=True)
class Report:
    """What comes to the host: K drafts with p, q and u of each, how many stand, and the tokens that are emitted."""

    status: int
    accepted: int
    degenerate: bool
    bad: int
    tokens: tuple[int, ...]
    drafts: tuple[int, ...]
    p: tuple[float, ...]
    q: tuple[float, ...]
    u: tuple[float, ...]

    @classmethod
    def of(cls, host_R: Tensor, count: int) -> Report:
        """Read a report of K = `count` drafts, int64 `[5 + 5K]`, its last 3K words the bits of float64."""
        status, accepted, degenerate, bad, *ids = host_R.tolist()
        drafts, bits = ids[count + 1 : 2 * count + 1], ids[2 * count + 1 :]
        floats = struct.unpack(f"{3 * count}d", struct.pack(f"{3 * count}q", *bits))
        numbers = [floats[at : at + count] for at in (0, count, 2 * count)]
        return cls(status, accepted, degenerate == 1, bad, tuple(ids[: accepted + 1]), tuple(drafts), *numbers)

    def verdict(self, form: Form, nothing_0: Tensor) -> Verdict:
        """Return the verdict as the rule itself would write it down; in place of its last token's law, `nothing_0`."""
        count, judged = len(self.drafts), min(len(self.drafts), self.accepted + 1)
        nobody: tuple[float | None, ...] = (None,) * judged
        corrects = form.rule == "rejection" and self.accepted < count and not self.degenerate
        return Verdict(
            self.accepted,
            self.tokens[-1],
            nothing_0,
            self.p,
            self.q,
            self.u[:judged] if form.by_number else nobody,
            tuple(map(accept_probability, self.p[:judged], self.q[:judged])) if form.by_number else nobody,
            (1.0,) * count,
            "residual" if corrects else "p",
            self.degenerate,
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """The recorded verdict, where it reports, and the rows `[K + 1, V]` it was made from."""

    replay: Work
    report_R: Tensor
    p_RV: Tensor


@final
class Steps:
    """The steps of one pair of models, or of a target alone, over one board. Shapes: K drafts, vocabulary V."""

    def __init__(self, board: Board, target: FixedModel, draft: FixedModel | None, capture: Capture) -> None:
        self.board, self.target, self.draft = board, target, draft
        self._capture = capture
        drafts = MOST_DRAFTS if draft is not None else 0
        self._q_MV = torch.zeros(drafts, target.decoder.vocab, device=board.text_S.device)
        self._draws: dict[Form, Work] = {}
        self._judges: dict[tuple[Form, int], Judge] = {}

    @property
    def forms(self) -> list[Form]:
        """The forms that have a verdict, in the order in which they were met."""
        return [form for form, _ in self._judges]

    def q(self, count: int) -> Tensor:
        """Return where the draft's distributions lie, `[K, V]`."""
        return self._q_MV[:count]

    def knows(self, form: Form, count: int, lacking: int) -> bool:
        """Return whether every step of such a cycle has been recorded."""
        drafted = count == 0 or (
            self.draft is not None
            and form in self._draws
            and all(self.draft.knows(fed, 1) for fed in {lacking, min(count, 1)})
        )
        return drafted and (form, count) in self._judges and self.target.knows(count + 1, count + 1)

    def drafting(self, form: Form, count: int, lacking: int) -> list[Work]:
        """Return the replays that make K drafts, `lacking` being what the draft has not computed yet."""
        if count == 0:
            return []
        assert self.draft is not None
        first, next_one = self.draft.forward(lacking, 1), self.draft.forward(1, 1)
        if form not in self._draws:
            self._draws[form] = self._capture.record(self._draw(form))
        draw = self._draws[form]
        return [first, draw, *[next_one, draw] * (count - 1)]

    def judge(self, form: Form, count: int) -> Judge:
        """Return the verdict over K drafts."""
        if (form, count) not in self._judges:
            device = self.board.text_S.device
            p_RV = torch.zeros(count + 1, self.target.decoder.vocab, device=device)
            report_R = torch.zeros(5 + 5 * count, dtype=torch.int64, device=device)
            replay = self._capture.record(self._verdict(form, count, p_RV, report_R))
            self._judges[form, count] = Judge(replay, report_R, p_RV)
        return self._judges[form, count]

    def _draw(self, form: Form) -> Work:
        """Take the draft that follows the draft's pointer, and keep what it was drawn from."""
        board = self.board
        assert self.draft is not None
        logits_1V = self.draft.logits(1)

        def work() -> None:
            if form.draws:
                row_1 = (board.draft - board.committed).clamp(0, MOST_DRAFTS - 1)
                q_1V = processed(logits_1V, form.sampling)
                self._q_MV.index_copy_(0, row_1, q_1V)
                if form.rule == "coupled":
                    token_1 = pick_coupled(q_1V[0], board.seed, board.number + row_1)
                else:
                    token_1 = pick(q_1V[0], uniform(board.seed, StreamId.DRAFT, board.number + row_1))
            else:
                token_1 = logits_1V.argmax(-1)
            board.put(board.draft, token_1)
            board.bad.add_(~logits_1V.amax(-1).isfinite())

        return work

    def _verdict(self, form: Form, count: int, p_RV: Tensor, report_R: Tensor) -> Work:
        """Judge, report, and move the board to the next cycle."""
        board, logits_RV = self.board, self.target.logits(count + 1)
        workspace = verify_workspace(1, count, p_RV.shape[1], device=p_RV.device)
        q_KV = self.q(count) if form.draws and count else None

        def work() -> None:
            p_RV.copy_(processed(logits_RV, form.sampling))
            drafts_K = board.read(board.committed, count)
            it = verify_chain(
                drafts_K[None],
                None if q_KV is None else q_KV[None],
                p_RV[None],
                seeds=board.seed,
                positions=board.number,
                rule=form.rule,
                backend=form.backend,
                workspace=workspace,
            )
            p_K = p_RV[:count].gather(-1, drafts_K[:, None])[:, 0]
            q_K = torch.ones_like(p_K) if q_KV is None else q_KV.gather(-1, drafts_K[:, None])[:, 0]
            u_K = acceptance_uniforms(board.seed, board.number, count)[0]
            floats_3K = torch.cat([p_K, q_K, u_K]).double().view(torch.int64)
            head_4 = torch.cat([workspace.status, it.accepted, it.degenerate.long(), board.bad])
            report_R.copy_(torch.cat([head_4, it.tokens[0], drafts_K, floats_3K]))
            board.put(board.committed, it.tokens[0].clamp_min(0))
            board.committed.add_(it.accepted + 1)
            board.target.copy_(board.committed - 1)
            board.draft.copy_(torch.minimum(board.draft, board.target))
            if form.rule == "coupled":
                board.number.copy_(board.committed)
            else:
                board.number.add_(count + 1)
            board.bad.zero_()

        return work
