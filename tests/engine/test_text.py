"""Streaming text: never a broken character, and the pieces join to the whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from specdec_teach.text import TextStream, pieces

ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """One token per byte."""
    backend = Tokenizer(models.BPE({character: i for i, character in enumerate(ALPHABET)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend)


TOKENIZER = byte_tokenizer()


@given(st.text(min_size=1, max_size=12), st.lists(st.integers(1, 5), min_size=1, max_size=40))
def test_pieces_join_and_never_break(text: str, sizes: list[int]) -> None:
    """Any text, cut anywhere between its bytes."""
    ids = TOKENIZER(text).input_ids
    stream, shown, at = TextStream(TOKENIZER), [], 0
    for size in [*sizes, len(ids)]:
        part = ids[at : at + size]
        at += len(part)
        shown.append(stream.push(part, last=at == len(ids)))
        if at == len(ids):
            break
    assert "".join(shown) == text
    if "�" not in text:
        assert all("�" not in piece for piece in shown)


def test_an_unfinished_character_is_shown_at_the_end_only() -> None:
    """A text that really ends inside a character keeps what a full decode shows."""
    ids = TOKENIZER("a🦊").input_ids[:-1]
    stream = TextStream(TOKENIZER)
    assert stream.push(ids) == ""
    assert stream.push([], last=True) == TOKENIZER.decode(ids)


def test_display_pieces() -> None:
    """Whole characters are text, parts of one are named by byte; without a tokenizer ids stand for themselves."""
    table = pieces(TOKENIZER, TOKENIZER(" é").input_ids)
    assert sorted(table.values()) == [" ", "<0xA9>", "<0xC3>"]
    assert pieces(None, [7, 3]) == {3: "3", 7: "7"}


@pytest.mark.parametrize("entry", ["▁the", "<0xE2>"])
def test_sentencepiece_entries(entry: str) -> None:
    """Other vocabularies mark a space with a bar and bytes by name."""

    class Words:
        def decode(self, token_ids: object) -> str:
            return ""

        def convert_ids_to_tokens(self, ids: object) -> list[str | None]:
            return [entry, None]

    assert pieces(Words(), [1, 2]) == {1: entry.replace("▁", " "), 2: "<2>"}
