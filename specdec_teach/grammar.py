"""Structured output: only tokens that keep the text in a language, by xgrammar (the extra `grammar`).

A matcher is moved to a prefix the way a cache is: it forgets what is not shared with where it stands, and takes the
rest. So drafts that are thrown away, interrupts and forks need no rule of their own.
Invariant: a row's mask depends on the tokens before that row alone. It does not know models or how tokens are drawn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from collections.abc import Sequence as Items
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Literal, final

from torch import Tensor

from specdec_kernels.errors import InvalidInput

__all__ = ["Grammar", "GrammarMasks"]


@final
@dataclass(frozen=True, slots=True)
class Grammar:
    """A language that the emitted text must belong to: made by `regex`, `json_schema` or `ebnf`.

    >>> Grammar.regex("[0-9]+;").kind
    'regex'
    """

    kind: Literal["regex", "json_schema", "ebnf"]
    text: str

    @classmethod
    def regex(cls, pattern: str) -> Grammar:
        """Return the language of a regular expression, which must match the whole text."""
        return cls("regex", pattern)

    @classmethod
    def json_schema(cls, schema: str | Mapping[str, Any]) -> Grammar:
        """Return the language of JSON values that fit a JSON Schema."""
        return cls("json_schema", schema if isinstance(schema, str) else json.dumps(dict(schema)))

    @classmethod
    def ebnf(cls, text: str) -> Grammar:
        """Return the language of a grammar in xgrammar's EBNF, whose first rule is `root`."""
        return cls("ebnf", text)


@final
class GrammarMasks:
    """The masks of one request, for any prefix of its new tokens.

    InvalidInput when xgrammar is not installed, without a tokenizer or an end token, and for a grammar it cannot read.
    """

    __slots__ = ("_bits", "_fed", "_matcher", "_tools")

    def __init__(self, grammar: Grammar, tokenizer: Any, vocab: int, eos: frozenset[int]) -> None:
        if find_spec("xgrammar") is None:
            raise InvalidInput(
                "a grammar needs the package xgrammar; install it with pip install 'specdec-teach[grammar]'"
            )
        if tokenizer is None:
            raise InvalidInput("a grammar needs text and the engine has no tokenizer; pass tokenizer=… to the engine")
        if not eos:
            raise InvalidInput("a grammar needs an end token, or its text could never end; give eos_token_id")
        import xgrammar

        self._tools = xgrammar
        compiler = _compiler(tokenizer, vocab, tuple(sorted(eos)))
        try:
            compiled = _compile(compiler, grammar)
        except (RuntimeError, ValueError) as error:
            first = str(error).strip().splitlines()[0]
            raise InvalidInput(f"the {grammar.kind} {grammar.text[:60]!r} cannot be read: {first}") from None
        self._matcher = xgrammar.GrammarMatcher(compiled)
        self._bits = xgrammar.allocate_token_bitmask(1, vocab)
        self._fed: list[int] = []

    def mask(self, row_V: Tensor, tokens: Items[int]) -> Tensor:
        """Return the row `[V]` with −inf for every token that cannot follow `tokens` (new tokens, from the first).

        Behind an end token nothing is masked: no such row is ever used.
        """
        if self._move(tokens) < len(tokens) or self._matcher.is_terminated():
            return row_V
        self._matcher.fill_next_token_bitmask(self._bits, 0)
        masked_1V = row_V[None].clone()
        self._tools.apply_token_bitmask_inplace(masked_1V, self._bits.to(row_V.device))
        return masked_1V[0]

    def legal(self, tokens: Items[int], drafts: Items[int]) -> int:
        """Return how many of `drafts` may follow `tokens`, up to the first that may not."""
        return self._move([*tokens, *drafts]) - len(tokens)

    def _move(self, tokens: Items[int]) -> int:
        """Stand behind as many of `tokens` as the language allows; return how many."""
        shared = 0
        while shared < min(len(tokens), len(self._fed)) and tokens[shared] == self._fed[shared]:
            shared += 1
        if len(self._fed) > shared:
            self._matcher.rollback(len(self._fed) - shared)
            del self._fed[shared:]
        for token in tokens[shared:]:
            if self._matcher.is_terminated() or not self._matcher.accept_token(token):
                break
            self._fed.append(token)
        return len(self._fed)


def _compile(compiler: Any, grammar: Grammar) -> Any:
    if grammar.kind == "regex":
        return compiler.compile_regex(grammar.text)
    if grammar.kind == "ebnf":
        return compiler.compile_grammar(grammar.text)
    return compiler.compile_json_schema(grammar.text, any_whitespace=False)


@lru_cache(maxsize=4)
def _compiler(tokenizer: Any, vocab: int, eos: tuple[int, ...]) -> Any:
    import xgrammar

    info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=vocab, stop_token_ids=list(eos))
    return xgrammar.GrammarCompiler(info)
