"""Lesson 07, "The verify kernel": its judges, a record of every read, and a picture of them.

Judges launch the learner's kernel in Triton's interpreter on buffers between guards, then have it compiled for sm_90.
Invariant: the truth comes from the torch reference; a stub is told from a kernel without importing Triton. It does not
know the notebook.
"""

from __future__ import annotations

import ast
import base64
import inspect
import linecache
import textwrap
import warnings
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Items
from contextlib import contextmanager
from typing import Any, Final, final
from unittest.mock import patch

import torch
from torch import Tensor

from specdec_kernels import noise, race, rejection, verify_chain
from specdec_teach.exercises.ahead import Refused, compile_for
from specdec_teach.exercises.kit import NotYet, ask, exercise

__all__ = ["altered", "picture", "reads"]

_SLACK: Final = 64
_UNTOUCHED: Final = -77
_FOUR = ([0.4, 0.3, 0.2, 0.1], [0.1, 0.15, 0.25, 0.5])
_RESTART = "restart the kernel and run the first cell before anything else: TRITON_INTERPRET came after Triton"


def _stub(function: Any) -> bool:
    """Return whether the body is nothing but a docstring and three dots."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return False
    body = tree.body[0].body if isinstance(tree.body[0], ast.FunctionDef) else [ast.Raise()]
    return all(isinstance(line, ast.Pass) or _idle(getattr(line, "value", None)) for line in body)


def _idle(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and (value.value is ... or isinstance(value.value, str))


def _launch(kernel: Any, programs: int, outputs: Items[Tensor], *inputs: Any, **sizes: int) -> None:
    """Run the kernel in the interpreter; a stub is not attempted, and whatever it raises is a wrong answer."""
    function = getattr(kernel, "fn", kernel)
    if not callable(function) or _stub(function):
        ask(... if callable(function) else function)
    if type(kernel).__name__ != "InterpretedFunction":
        raise NotYet(_RESTART if hasattr(kernel, "fn") else "write `@triton.jit` above the function")
    given = [_guarded(it) if isinstance(it, Tensor) else it for it in inputs]
    places = [_guarded(it) for it in outputs]
    # Outputs stand behind the tensors, before the sizes.
    last = max(index for index, it in enumerate(given) if isinstance(it, Tensor)) + 1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kernel[(programs,)](*given[:last], *places, *given[last:], **sizes)
    except Exception as error:
        raise NotYet(f"the kernel stops: {(str(error) or type(error).__name__).splitlines()[0]}") from None
    for output, place in zip(outputs, places, strict=True):
        behind = torch.as_strided(place, (_SLACK,), (1,), _SLACK + place.numel())
        if not behind.eq(_UNTOUCHED).all():
            raise NotYet("the kernel writes behind the end of its output: give `tl.store` a mask")
        output.copy_(place)
    if all(output.eq(_UNTOUCHED).all() for output in outputs):
        raise NotYet("the kernel ran, and its output is as it was: nothing was stored")


def _guarded(tensor: Tensor) -> Tensor:
    """Return a copy between two stretches of NaN, or of the mark of untouched places."""
    real = tensor.is_floating_point() and not tensor.eq(_UNTOUCHED).all()
    whole = tensor.new_full((tensor.numel() + 2 * _SLACK,), float("nan") if real else _UNTOUCHED)
    middle = whole[_SLACK : _SLACK + tensor.numel()]
    middle.copy_(tensor.flatten())
    return middle.view(tensor.shape)


def _untouched(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.full(shape, _UNTOUCHED, dtype=dtype)


def _compiles(kernel: Any, pointers: str, sizes: str, **constants: int) -> None:
    """Have the kernel compiled for sm_90: what the interpreter lets pass must pass there too."""
    types = {"f": "*fp32", "i": "*i64"}
    names = list(inspect.signature(kernel.fn).parameters)
    signature = dict(zip(names, [*(types[it] for it in pointers), *("i32" for _ in sizes)], strict=False))
    constants = dict(zip(names[len(signature) :], constants.values(), strict=True))
    try:
        made = compile_for(90, kernel, signature, constants)
    except Refused as refusal:
        raise NotYet(f"the interpreter runs it, but the compiler for sm_90 does not take it: {refusal}") from None
    if made.overflows:
        raise NotYet(
            f"the numbers are right, but the row times V is computed in 32 bits: {15408 * 151936:,} for row 15408 of "
            f"V = 151936, and int32 ends at {2**31 - 1:,}. Make `row` an int64"
        )


def _show(values: Tensor) -> str:
    return "[" + ", ".join(f"{value:.4g}" for value in values.flatten().tolist()) + "]"


@exercise("07.1")
def _gather(kernel: Any) -> str:
    for batch, length, width, lanes in ((1, 1, 2, 1), (1, 2, 3, 2), (1, 3, 4, 4), (2, 2, 3, 2), (3, 3, 5, 4)):
        p = torch.arange(batch * (length + 1) * width).view(batch, length + 1, width) / 100
        drafts = (torch.arange(batch * length).view(batch, length) * 2 + 1) % width
        out = _untouched(batch, length)
        _launch(kernel, batch, [out], drafts, p, length, width, BLOCK_K=lanes)
        right = p[:, :length].gather(-1, drafts[..., None])[..., 0]
        for row in range(batch):
            if out[row].tolist() != right[row].tolist():
                raise NotYet(
                    f"program {row}, K = {length}, V = {width}, drafts {drafts[row].tolist()}, p counting up in "
                    f"hundredths: should be {_show(right[row])}, and yours stores {_show(out[row])}"
                )
    _compiles(kernel, "iff", "KV", BLOCK_K=8)
    return "every draft's own p; and the compiler multiplies rows by V in 64 bits"


@exercise("07.2")
def _count(kernel: Any) -> str:
    stands, falls, equal, never = (0.5, 0.5, 0.5), (0.5, 0.5, 0.125), (0.5, 0.5, 0.25), (0.5, 0.0, 0.0)
    for drafts in (
        [[stands]], [[falls]], [[equal]], [[never]], [[stands, falls, stands]], [[stands] * 3],
        [[stands, stands], [falls, stands], [stands, falls]],
    ):  # fmt: skip
        u, q, p = torch.tensor(drafts).unbind(-1)
        length, out = u.shape[1], _untouched(len(drafts), dtype=torch.int64)
        _launch(kernel, len(drafts), [out], u, q, p, length, BLOCK_K=4)
        for row, told in enumerate(drafts):
            passed = [rejection.accepts(u_k, p_k, q_k) for u_k, q_k, p_k in told]
            right = [*passed, False].index(False)
            if int(out[row]) != right:
                raise NotYet(
                    f"program {row}, K = {length}, u = {_show(u[row])}, q = {_show(q[row])}, p = {_show(p[row])}: "
                    f"should be {right}, and yours stores {int(out[row])}"
                )
    _compiles(kernel, "fffi", "K", BLOCK_K=8)
    return "strict, without a break, and blind to the lanes behind K"


@exercise("07.3")
def _mass(kernel: Any) -> str:
    p, q = torch.tensor(_FOUR)
    six = torch.tensor([[0.3, 0.1, 0.1, 0.1, 0.3, 0.1], [0.1, 0.2, 0.2, 0.2, 0.1, 0.2]])
    for p_BV, q_BV, block in (
        (p[None], q[None], 4), (p[None, :3], q[None, :3], 4), (six[:1], six[1:], 4),
        (torch.stack([p, q]), torch.stack([q, p]), 4), (six, six.flip(0), 4),
    ):  # fmt: skip
        batch, width = p_BV.shape
        out = _untouched(batch)
        _launch(kernel, batch, [out], p_BV, q_BV, width, BLOCK_V=block)
        right = rejection.residual(p_BV, q_BV, torch.zeros(batch, dtype=torch.int64))[1]
        for row in range(batch):
            if not abs(float(out[row] - right[row])) < 1e-6:
                raise NotYet(
                    f"program {row}, V = {width}, BLOCK_V = {block}, p = {_show(p_BV[row])}, q = {_show(q_BV[row])}: "
                    f"should be {float(right[row]):.4g}, and yours stores {float(out[row]):.4g}"
                )
    _compiles(kernel, "fff", "V", BLOCK_V=1024)
    return "any V, in blocks; the tail adds nothing"


@exercise("07.4")
def _race(kernel: Any) -> str:
    for weights, times in (
        ([[0.1, 0.6, 0.2, 0.1]], [[1.0, 1.0, 1.0, 1.0]]), ([[0.1, 0.6, 0.2, 0.1]], [[1.0, 2.0, 0.5, 1.0]]),
        ([[0.0, 0.5, 0.5, 0.0]], [[0.125, 1.0, 1.0, 1.0]]), ([[0.1, 0.2, 0.1, 0.1, 0.1, 0.4]], [[1.0] * 6]),
        ([[0.1, 0.3, 0.1, 0.1, 0.1, 0.3]], [[1.0] * 6]), ([[0.0, 0.0, 0.0, 0.0, 1.0]], [[1.0] * 5]),
        ([[0.5, 0.2, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.2, 0.5]], [[1.0] * 5] * 2),
    ):  # fmt: skip
        w_BV, e_BV = torch.tensor(weights), torch.tensor(times)
        batch, width = w_BV.shape
        out = _untouched(batch, dtype=torch.int64)
        _launch(kernel, batch, [out], w_BV, e_BV, width, BLOCK_V=4)
        right = race.winner(w_BV, e_BV)
        for row in range(batch):
            if int(out[row]) != int(right[row]):
                raise NotYet(
                    f"program {row}, V = {width}, BLOCK_V = 4, weights {_show(w_BV[row])}, times {_show(e_BV[row])}: "
                    f"should be token {int(right[row])}, and yours stores {int(out[row])}"
                )
    _compiles(kernel, "ffi", "V", BLOCK_V=1024)
    return "the first to arrive, and the lowest id where two arrive together"


@exercise("07.5")
def _whole(kernel: Any) -> str:
    for batch, length, width, seed in ((1, 1, 4, 0), (1, 1, 4, 2), (1, 3, 4, 1), (4, 3, 10, 3), (4, 2, 37, 4)):
        drafts, q, p, u = _case(batch, length, width, seed)
        rows = torch.arange(batch) + seed
        verdict = verify_chain(drafts, q, p, seeds=rows, positions=rows, uniforms=u, backend="torch")
        times = torch.stack([noise.race_times(rows, noise.TOKEN, rows + n, width) for n in range(length + 1)], 1)
        n_B = verdict.accepted
        right_B = verdict.tokens.gather(-1, n_B[:, None])[:, 0]
        alone_B = race.winner(p[range(batch), n_B], times[range(batch), n_B])
        first_B = race.winner((p[:, 0] - q[:, 0]).clamp_min(0.0), times[:, 0])
        accepted, token = _untouched(batch, dtype=torch.int64), _untouched(batch, dtype=torch.int64)
        _launch(
            kernel, batch, [accepted, token], drafts, q, p, u, times, length, width,
            BLOCK_K=4, BLOCK_V=4 if width <= 10 else 16,
        )  # fmt: skip
        for row in range(batch):
            n, right, found = int(n_B[row]), int(right_B[row]), int(token[row])
            where = f"program {row} of {batch}, K = {length}, V = {width}"
            if int(accepted[row]) != n:
                raise NotYet(f"{where}: {n} drafts stand, and yours stores {int(accepted[row])}")
            if found != right:
                why = "the token behind them"
                if n < length and found == int(alone_B[row]):
                    why = "yours is what p alone would draw: subtract q"
                elif n and found == int(first_B[row]):
                    why = "yours is the correction of row 0"
                elif n == length:
                    why = "no q behind the last draft: the bonus comes from p"
                raise NotYet(f"{where}, {n} stand: token {right} follows, and yours stores {found} ({why})")
    _compiles(kernel, "iffffii", "KV", BLOCK_K=8, BLOCK_V=1024)
    return "every count and every token as verify_chain gives them, and it compiles for sm_90"


def _case(batch: int, length: int, width: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return drafts, q, p and u: a draft that is near its target, and numbers that let a part of it stand."""
    generator = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(batch, length + 1, width, generator=generator)
    p = logits.softmax(-1)
    q = (logits[:, :length] + 0.7 * torch.randn(batch, length, width, generator=generator)).softmax(-1)
    drafts = torch.multinomial(q.flatten(0, 1), 1, generator=generator).view(batch, length)
    return drafts, q, p, torch.rand(batch, length, generator=generator).clamp(1e-3, 1 - 1e-3)


def reads(launch: Callable[[], object], *tensors: Tensor) -> list[Tensor]:
    """Run `launch` in the interpreter and return, for each tensor, how often each of its elements was read."""
    from triton.runtime.interpreter import InterpreterBuilder

    asked: list[Tensor] = []
    load = InterpreterBuilder.create_masked_load

    def watched(self: Any, ptrs: Any, mask: Any, *others: Any) -> Any:
        asked.append(torch.as_tensor(ptrs.data[mask.data].astype("int64")).flatten())
        return load(self, ptrs, mask, *others)

    with patch.object(InterpreterBuilder, "create_masked_load", watched):
        launch()
    addresses = torch.cat(asked)
    found = []
    for tensor in tensors:
        at = (addresses - tensor.data_ptr()) // tensor.element_size()
        at = at[(addresses >= tensor.data_ptr()) & (at < tensor.numel())]
        found.append(at.bincount(minlength=tensor.numel()).view(tensor.shape))
    return found


@contextmanager
def altered(old: str, new: str) -> Iterator[None]:
    """Put a copy of the real verifying kernel with `old` replaced by `new` in its place, then the real one back."""
    from specdec_kernels import triton_chain, triton_launch

    text = inspect.getsource(triton_chain.chain_kernel.fn)
    if text.count(old) != 1:
        raise ValueError(f"the kernel holds {old!r} {text.count(old)} times, not once")
    text = text.replace(old, new)
    name = f"<altered: {new}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space = dict(vars(triton_chain))
    exec(compile(text, name, "exec"), space)
    with patch.object(triton_launch, "chain_kernel", space["chain_kernel"]):
        yield


@final
class _Picture:
    """A still for a notebook: an image with words for those who do not see it."""

    __slots__ = ("_html", "_words")

    def __init__(self, html: str, words: str) -> None:
        self._html, self._words = html, words

    def __repr__(self) -> str:
        return self._words

    def _repr_html_(self) -> str:
        return self._html


def picture(tile: int, **read: Tensor) -> object:
    """Return the rows of each tensor `[rows, V]` cut into tiles, with the elements read in every tile.

    >>> picture(2, p=torch.tensor([[0, 1, 0, 0], [1, 1, 1, 1]]))
    elements read in each tile: p row 0 = 1, 0; p row 1 = 2, 2
    """
    boxes, says, top = [], [], 40
    for name, counts in read.items():
        for row, line in enumerate(counts):
            tiles = [int((part > 0).sum()) for part in line.split(tile)]
            says.append(f"{name} row {row} = {', '.join(map(str, tiles))}")
            boxes.append(f'<text x="16" y="{top + 17}">{name} row {row}</text>')
            for index, (part, seen) in enumerate(zip(line.split(tile), tiles, strict=True)):
                fill = "#2b6cb0" if seen == len(part) else "#fbd38d" if seen else "#ffffff"
                ink = "#ffffff" if seen == len(part) else "#1a202c"
                left = 90 + 74 * index
                boxes.append(
                    f'<rect x="{left}" y="{top}" width="70" height="24" fill="{fill}" stroke="#4a5568"/>'
                    f'<text x="{left + 35}" y="{top + 17}" text-anchor="middle" fill="{ink}">{seen or "–"}</text>'
                )
            top += 28
        top += 12
    words = "elements read in each tile: " + "; ".join(says)
    columns = max(-(-counts.shape[-1] // tile) for counts in read.values())
    width = max(110 + 74 * columns, 480)
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" '
        f'width="{width}" height="{top}" font-family="sans-serif" font-size="13">'
        '<rect width="100%" height="100%" fill="#ffffff"/>'
        '<text x="16" y="22">elements read in each tile: dark = all, light = a few, white = none</text>'
        f"{''.join(boxes)}</svg>"
    )
    data = base64.b64encode(svg.encode()).decode()
    html = f'<img alt="{words}" style="max-width:100%;height:auto" src="data:image/svg+xml;base64,{data}">'
    return _Picture(html, words)
