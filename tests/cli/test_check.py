"""`specdec-teach check`: its statuses, what it prints, and the JSON it writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import specdec_teach as sd
from specdec_teach import checking, faults
from specdec_teach.cli import main


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny pair in place of the embedded one, and the quick sections alone."""
    pair = sd.Pair(sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.08), None)
    monkeypatch.setattr(sd, "load_pair", lambda target, draft, tokenizers: pair, raising=False)
    quick = {name: checking.SECTIONS[name] for name in ("ends", "caps", "self-draft")}
    monkeypatch.setattr(checking, "SECTIONS", quick)


@pytest.mark.usefixtures("tiny")
def test_an_honest_engine_ends_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.json"
    assert main(["check", "--gamma", "2", "--json", str(path)]) == 0
    out = capsys.readouterr().out
    assert "All of it holds" in out
    assert "✓" in out
    assert "EOS" in out
    assert "✗" not in out
    plain = json.loads(path.read_text(encoding="utf-8"))
    assert plain["ok"] is True
    assert {row["group"] for row in plain["rows"]} == {"EOS", "length cap", "self-draft 100 %"}


@pytest.mark.parametrize("name", ["model-argmax", "tree", "ngram", "retrieval"])
@pytest.mark.usefixtures("tiny")
def test_a_drafter_is_chosen_by_name(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []
    honest = sd.Engine

    def watched(*args: Any, **settings: Any) -> sd.Engine:
        seen.append(settings["drafter"].name)
        return honest(*args, **settings)

    monkeypatch.setattr(sd, "Engine", watched)
    assert main(["check", "--gamma", "2", "--drafter", name]) == 0
    assert seen == [{"tree": "model-tree"}.get(name, name)]
    assert "All of it holds" in capsys.readouterr().out


@pytest.mark.parametrize("pace", ["auto", "heuristic"])
@pytest.mark.usefixtures("tiny")
def test_a_planned_gamma_is_proven_too(
    pace: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    paces: list[str] = []
    honest = checking.run

    def watched(engine: sd.Engine) -> Any:
        paces.append(engine.pace)
        return honest(engine)

    monkeypatch.setattr(checking, "run", watched)
    assert main(["check", "--gamma", pace]) == 0
    assert paces == [pace]
    assert "All of it holds" in capsys.readouterr().out


def test_a_target_alone_can_look_things_up(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pair = sd.Pair(sd.testing.tiny_llama(), None, None)
    monkeypatch.setattr(sd, "load_pair", lambda target, draft, tokenizers: pair, raising=False)
    monkeypatch.setattr(checking, "SECTIONS", {"ends": checking.SECTIONS["ends"]})
    assert main(["check", "--gamma", "2", "--drafter", "ngram"]) == 0
    assert main(["check"]) == 2
    assert "--drafter with one of ngram, retrieval" in capsys.readouterr().err


@pytest.mark.usefixtures("tiny")
def test_a_failure_ends_with_1_and_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    honest = sd.Engine

    def broken(*args: Any, **settings: Any) -> sd.Engine:
        return faults.inject(honest(*args, **settings), "engine_d")

    monkeypatch.setattr(sd, "Engine", broken)
    path = tmp_path / "report.json"
    assert main(["check", "--json", str(path)]) == 1
    out = capsys.readouterr().out
    assert "✗ EOS: at place 0" in out
    assert "checks failed" in out
    assert json.loads(path.read_text(encoding="utf-8"))["ok"] is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gamma", "0"], "drafts nothing"),
        (["--gamma", "-1"], "gamma"),
        (["--gamma", "2.5"], "no whole number of tokens; give one, like 2, or auto"),
        (["--gamma", "inf"], "no whole number of tokens; give one, or auto"),
        (["--gamma", "heuristik"], "Did you mean 'heuristic'?"),
        (["--tokenizers", "share"], "Did you mean 'shared'?"),
        (["--cache", "pagd"], "paged"),
        (["--verify", "typical"], "lossy"),
        (["--drafter", "n-gram"], "Did you mean 'ngram'?"),
        (["--draft", "somewhere"], "without a target"),
        (["--target", "no/such/folder/here"], "cannot load"),
        (["--json", "no-such-folder/report.json"], "make it first"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_ends_with_2_and_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
