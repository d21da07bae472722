"""vLLM's n-gram drafter, repeated on a text that is known: which steps drafted, and what.

A lookup in the text draws nothing and runs no model, so a finished text determines every draft of it. vLLM does not
report the steps in which no n-gram matched; the text does.
Invariant: a repetition that disagrees with one reported step, or leaves one over, is refused: nothing is guessed.
It does not know what a response or a trace is.
Source: vLLM 0.33, method "ngram".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specdec_kernels.errors import InvalidInput

__all__ = ["Step", "draft", "repeat"]

Step = tuple[tuple[int, ...], int]
"""The drafts of a step and how many of them vLLM accepted."""


def draft(text: Sequence[int], shortest: int, longest: int, count: int) -> list[int]:
    """Return what follows the longest n-gram that ends `text` at its first place in it, at most `count` tokens.

    The n-gram is `shortest` to `longest` tokens long and may overlap the end; nothing is returned where none matches.

    >>> draft([1, 2, 3, 4, 2, 3], 2, 3, 4), draft([1, 2, 3], 1, 3, 4)
    ([4, 2, 3], [])
    """
    for size in range(min(longest, len(text) - 1), shortest - 1, -1):
        end = list(text[len(text) - size :])
        for at in range(len(text) - size):
            if list(text[at : at + size]) == end:
                return list(text[at + size : at + size + count])
    return []


def repeat(
    prompt: Sequence[int], tokens: Sequence[int], told: Sequence[tuple[int, int]], sizes: tuple[int, int], count: int
) -> Iterator[Step]:
    """Yield every step after the prefill's token, those that vLLM left out too.

    `told`: (drafted, accepted) of the steps that it reported. `sizes`: the shortest and the longest n-gram that the
    server looks up, `count` its longest draft. InvalidInput where the text drafts otherwise than was reported.
    """
    shortest, longest = sizes
    if not 1 <= shortest <= longest:
        raise InvalidInput(f"ngram={sizes!r}; give prompt_lookup_min and prompt_lookup_max of the server, 1 or more")
    text, done, left = [*prompt, *tokens], len(prompt) + 1, list(told)
    while done < len(text):
        drafts = draft(text[:done], shortest, longest, count)
        if not drafts:
            yield (), 0
            done += 1
            continue
        here = f"ngram={sizes!r} drafts {len(drafts)} tokens after token {done - len(prompt)} of the text"
        advice = "give prompt_lookup_min and prompt_lookup_max as the server has them"
        if not left:
            raise InvalidInput(f"{here}, but vLLM reported no further step; {advice}")
        drafted, accepted = left.pop(0)
        real = text[done : done + accepted]
        if drafted != len(drafts) or real != drafts[: len(real)]:
            raise InvalidInput(f"{here}, which is not the step of {drafted} that vLLM reported there; {advice}")
        if done + accepted < len(text) and accepted < drafted and text[done + accepted] == drafts[accepted]:
            raise InvalidInput(f"{here}, and the text goes on with a draft that vLLM reported as rejected; {advice}")
        yield tuple(drafts), accepted
        done += accepted + 1
    if left:
        raise InvalidInput(
            f"ngram={sizes!r} leaves {len(left)} of {len(told)} reported steps over; give prompt_lookup_min and "
            "prompt_lookup_max as the server has them"
        )
