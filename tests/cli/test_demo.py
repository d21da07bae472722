"""What the demo prints, told from the record of a cycle, and one real run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import specdec_teach as sd
from specdec_teach.cli import demo, main

PIECES = {0: "zero", 1: " one", 2: "two\n"}


def test_every_fate_has_its_glyph(result: sd.Result) -> None:
    assert result.trace is not None
    cycle = result.trace.cycles[0]
    assert [decision.status for decision in cycle.decisions] == ["accepted", "rejected", "unused"]
    text = [line.plain for line in demo.lines(cycle, PIECES)]
    assert text[0].strip() == f"cycle 0 · γ=3 · committed 1 → {cycle.committed_after}"
    assert text[1].split() == ["✓␣one", "✗zero", "·zero", "↺two⏎"]
    assert "the target's likeliest" in text[2]
    assert "not the target's likeliest" in text[3]
    kv = cycle.target_kv
    assert text[-1].strip().startswith(f"computed  target C={kv.before} → {kv.written} ↩ {kv.after}")


def test_sampled_numbers_are_shown(result: sd.Result) -> None:
    assert result.trace is not None
    cycle = result.trace.cycles[0]
    first = replace(cycle.decisions[0], p=0.25, q=0.5, u=0.125, accept_probability=0.5, forced=True)
    text = [line.plain for line in demo.lines(replace(cycle, decisions=(first,)), PIECES)]
    assert text[2].strip() == "✓ ␣one  p=0.250 q=0.500 u=0.125 < 0.500  (forced)"


def test_the_demo_runs_on_the_embedded_pair(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--max-new-tokens", "12", "--reject-at", "2"]) == 0
    out = capsys.readouterr().out
    assert "cycle 0" in out
    assert "(forced)" in out
    assert "\x1b[" not in out
    assert "for each pass of the target" in out


def test_who_chose_gamma_and_how_much_came_of_it(result: sd.Result) -> None:
    assert result.trace is not None
    cycle = result.trace.cycles[0]
    head = next(demo.lines(cycle, PIECES, "auto")).plain
    assert head.strip().startswith("cycle 0 · γ=3 (auto) · committed")
    less = replace(cycle, proposed=cycle.proposed[:1], decisions=cycle.decisions[:1])
    assert " · γ=3 (auto), 1 came · " in next(demo.lines(less, PIECES, "auto")).plain
    assert " · γ=3, 1 came · " in next(demo.lines(less, PIECES)).plain


def test_a_tree_has_a_line_for_each_depth(result: sd.Result) -> None:
    assert result.trace is not None
    cycle = replace(result.trace.cycles[0], parents=(-1, -1, 0), gamma=2, path=(0,))
    text = [line.plain for line in demo.lines(cycle, PIECES)]
    assert " · a tree of 3 drafts, 2 deep · " in text[0]
    assert [text[1].split(), text[2].split()] == [["✓␣one", "✗zero"], ["·zero", "↺two⏎"]]
    assert text[2].startswith("    ·")


def drafts(out: str) -> Iterator[str]:
    """The heads of the cycles of a printed run."""
    return (line for line in out.splitlines() if line.startswith("cycle "))


@pytest.mark.parametrize(
    "name",
    ["model", "model-argmax", "tree", "early-exit", "ngram", "retrieval", "head", "head3", "medusa", "head-tree",
     "medusa-tree"],
)  # fmt: skip
def test_everybody_can_draft(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--drafter", name, "--max-new-tokens", "8", "--temperature", "0"]) == 0
    out = capsys.readouterr().out
    assert ("a tree of" in out) == ("tree" in name)
    plain = sd.Engine((pair := sd.load_pair()).target, tokenizer=pair.tokenizer)
    text = plain.generate("Once upon a time", sd.Sampling.greedy(), max_new_tokens=8).text
    assert f"Once upon a time{text}\n" in out


@pytest.mark.parametrize("pace", ["auto", "heuristic"])
def test_gamma_can_be_planned(pace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--gamma", pace, "--max-new-tokens", "16"]) == 0
    heads = list(drafts(capsys.readouterr().out))
    assert heads
    assert all(f"({pace})" in head for head in heads)


def test_two_tokenizers_meet_where_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The draft's tokens have other ids; it is refused, or drafts what both know."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    for name, text, seed in (("t", "abcd", 0), ("d", "dbxa", 3)):
        sd.testing.tiny_llama(vocab=4, seed=seed).save_pretrained(tmp_path / name)
        backend = Tokenizer(models.BPE({letter: at for at, letter in enumerate(text)}, []))
        PreTrainedTokenizerFast(tokenizer_object=backend).save_pretrained(tmp_path / name)
    run = ["demo", "--target", str(tmp_path / "t"), "--draft", str(tmp_path / "d"), "--prompt", "abcd"]
    run += ["--max-new-tokens", "12"]
    assert main(run) == 2
    assert "differ at id 0: 'a' in the target's, 'd' in the draft's" in capsys.readouterr().err
    assert main([*run, "--tokenizers", "shared"]) == 0
    out = capsys.readouterr().out
    assert out.count("\ncycle ") > 0
    assert "p=" in out
    assert main(["check", *run[1:5], "--tokenizers", "shared", "--drafter", "model", "--gamma", "0"]) == 2
    assert "drafts nothing" in capsys.readouterr().err


def test_the_engine_refuses_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--prompt", ""]) == 2
    assert "the prompt is empty" in capsys.readouterr().err
