"""What commands that run the engine are asked alike: which pair, who drafts, and how many tokens a cycle.

Invariant: a flag means the same in every command that has it; what it stands for is decided by `load_pair`,
`drafters_for` and `Engine`, whose refusals name it. It does not know what a command does with the answer.
"""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from specdec_kernels.errors import InvalidInput, unknown_name

if TYPE_CHECKING:
    from specdec_teach.drafters.base import Drafter
    from specdec_teach.pairs import Pair

__all__ = ["add_drafter", "add_gamma", "add_pair", "drafter", "pair"]


def add_pair(parser: argparse.ArgumentParser) -> None:
    """Let a command be given a pair."""
    parser.add_argument("--target", metavar="PATH_OR_ID", help="your own target (the embedded pair)")
    parser.add_argument("--draft", metavar="PATH_OR_ID", help="the draft of your target (none)")
    parser.add_argument(
        "--tokenizers",
        default="same",
        metavar="HOW",
        help="same: refuse a draft that splits text otherwise; shared: draft the tokens that both know (%(default)s)",
    )


def add_drafter(parser: argparse.ArgumentParser) -> None:
    """Let a command be told who drafts."""
    parser.add_argument("--drafter", metavar="NAME", help="who drafts, by its name in drafters_for (model)")


def add_gamma(parser: argparse.ArgumentParser) -> None:
    """Let a command be told how many tokens a cycle proposes."""
    parser.add_argument(
        "--gamma",
        type=_gamma,
        default=4,
        metavar="N",
        help="tokens proposed per cycle; auto plans them from what became of earlier ones and what cycles cost, "
        "heuristic is the usual rule of thumb (%(default)s)",
    )


def pair(args: argparse.Namespace) -> Pair:
    """Return the pair that was asked for."""
    import specdec_teach as sd

    return sd.load_pair(args.target, args.draft, tokenizers=args.tokenizers)


def drafter(args: argparse.Namespace, pair: Pair) -> Drafter:
    """Return the drafter that was asked for.

    InvalidInput: no such name for this pair, or none was given and there is no draft model.
    """
    from specdec_teach.lineup import drafters_for

    made = drafters_for(pair)
    if args.drafter is None and pair.draft is None:
        raise InvalidInput(
            "a target alone has no draft model to draft with; give --draft too, or --drafter with one of "
            + ", ".join(made)
        )
    chosen = made.get(args.drafter or "model")
    if chosen is None:
        raise unknown_name("--drafter", args.drafter, made)
    return chosen


def _gamma(text: str) -> int | str:
    """Return a whole number as such, and a name for the engine to know."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return text
    nearest = f", like {round(number)}" if math.isfinite(number) else ""
    raise argparse.ArgumentTypeError(f"{text} is no whole number of tokens; give one{nearest}, or auto or heuristic")
