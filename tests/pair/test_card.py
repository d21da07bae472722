"""The shipped pair keeps what its card says, and the card lies within what the lessons need."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import specdec_teach
from specdec_teach.training.corpus import END_ID, END_TEXT
from specdec_teach.training.evaluate import Figures, load_pair, measure

WEIGHTS = Path(specdec_teach.__file__).parent / "weights"


@pytest.fixture(scope="module")
def card() -> dict[str, dict[str, float]]:
    card: dict[str, dict[str, float]] = json.loads((WEIGHTS / "card.json").read_text(encoding="utf-8"))
    return card


@pytest.fixture(scope="module")
def figures() -> Figures:
    return measure(*load_pair(WEIGHTS))


def test_the_card_lies_in_the_bands(card: dict[str, dict[str, float]]) -> None:
    _check_bands(Figures(**card["figures"]))  # type: ignore[arg-type]
    assert card["training"]["bytes"] <= 20_000_000
    assert card["losses"]["repeated_names"] < 0.25 * card["losses"]["new_names"]


def test_the_weights_lie_in_the_bands(figures: Figures) -> None:
    _check_bands(figures)


def test_the_weights_are_those_of_the_card(figures: Figures, card: dict[str, dict[str, float]]) -> None:
    known = card["figures"]
    assert figures.alpha == pytest.approx(known["alpha"], abs=0.02)
    assert figures.fact_share == pytest.approx(known["fact_share"], abs=0.06)
    assert figures.wrong_name_rate == pytest.approx(known["wrong_name_rate"], abs=0.04)


def test_files_and_tokenizer_are_complete(card: dict[str, dict[str, float]]) -> None:
    target, draft, tokenizer = load_pair(WEIGHTS)
    for part, network in (("target", target), ("draft", draft)):
        assert sum(weight.numel() for weight in network.parameters()) == card[part]["parameters"]
        assert network.shape.context >= 512
    assert target.shape.vocab == draft.shape.vocab == tokenizer.get_vocab_size()
    assert tokenizer.token_to_id(END_TEXT) == END_ID
    for word in (" Mira", " lantern", " red", " lighthouse", " seven", " pancakes"):
        assert len(tokenizer.encode(word).ids) == 1, word
    assert tokenizer.decode(tokenizer.encode("Ĥéllo 🙂 你好").ids) == "Ĥéllo 🙂 你好"
    assert "Apache-2.0" in (WEIGHTS / "CARD.md").read_text(encoding="utf-8")


def _check_bands(figures: Figures) -> None:
    assert 0.75 <= figures.alpha <= 0.90
    assert figures.fact_share >= 0.25
    assert figures.wrong_name_rate <= 0.10
    assert figures.cost_ratio <= 0.12
    assert figures.ended > 0.05
