"""The command: what it refuses before it measures, what it writes, and what its status says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

import specdec_teach as sd
from specdec_teach.bench import suites
from specdec_teach.bench.records import Report
from specdec_teach.bench.setting import Options, Say
from specdec_teach.cli import bench, main
from tests.bench.reports import race, report


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    """No suite runs; a report made by hand comes back, and what was asked for is kept."""
    seen: list[Options] = []

    def find(name: str) -> object:
        def run(options: Options, say: Say) -> Report:
            seen.append(options)
            return report(curves=())

        return run

    monkeypatch.setattr(suites, "find", find)
    return seen


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["spead"], "spead"),
        (["--rounds", "0"], "--rounds"),
        (["--threads", "-1"], "--threads"),
        (["--rounds", "many"], "many"),
        (["--json", "no/such/folder/x.json"], "no/such/folder"),
        (["--json", "."], "folder"),
        (["--chart", "x.gif"], ".png"),
        (["--gate", "no-such-file.json"], "no-such-file.json"),
        (["--dtype", "float7"], "float7"),
        (["--decoder", "fast"], "fast"),
        (["--tokenizers", "share"], "Did you mean 'shared'?"),
        (["--draft", "somewhere"], "somewhere"),
        (["--target", "no/such/model"], "no/such/model"),
    ],
)
def test_bad_input_ends_with_2_and_one_line(words: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert named in err


def test_help_names_every_suite(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in bench.SUITES)


def test_every_suite_is_there() -> None:
    for name in bench.SUITES:
        assert callable(suites.find(name))


def test_what_is_asked_for_arrives_and_what_is_found_is_written(
    asked: list[Options], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--target", "a", "--draft", "b", "--dtype", "bfloat16", "--decoder", "hf", "--rounds", "3", "--quick"]
    words += ["--tokenizers", "shared"]
    files = [tmp_path / name for name in ("r.json", "c.png", "c.html")]
    charts = [word for path in files[1:] for word in ("--chart", str(path))]
    assert main(["bench", *words, "--json", str(files[0]), *charts]) == 0
    assert asked == [Options("a", "b", "bfloat16", "hf", 3, True, "shared")]
    assert Report.load(files[0]) == report(curves=())
    assert all(path.stat().st_size > 1000 for path in files)
    out, err = capsys.readouterr()
    assert "2.000" in out
    assert f"wrote {files[0]}" in err


def test_the_gate(asked: list[Options], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was twice as fast and is so still passes; what was three times as fast does not."""
    path = tmp_path / "stored.json"
    report().save(path)
    assert main(["bench", "--gate", str(path)]) == 0
    report(race(fast=2 / 3, guest=None)).save(path)
    assert main(["bench", "--gate", str(path)]) == 1
    assert "✗ greedy: fast / plain is 2.00, was 3.00; at least 2.55 is allowed" in capsys.readouterr().out


def test_a_gate_that_cannot_be_is_refused_before_anything_runs(asked: list[Options], tmp_path: Path) -> None:
    path = report().save(tmp_path / "stored.json")
    assert main(["bench", "verify", "--gate", str(path)]) == 2
    plain = json.loads(path.read_text())
    plain["meta"]["schema_version"] = 0
    path.write_text(json.dumps(plain))
    assert main(["bench", "--gate", str(path)]) == 2
    assert asked == []


def test_threads_are_given_back(asked: list[Options], tmp_path: Path) -> None:
    before = torch.get_num_threads()
    path = tmp_path / "r.json"
    assert main(["bench", "--threads", str(before + 1), "--json", str(path)]) == 0
    assert torch.get_num_threads() == before


def test_a_real_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The smallest suite, from the words to the file."""
    path = tmp_path / "r.json"
    assert main(["bench", "rollback", "--quick", "--rounds", "1", "--json", str(path)]) == 0
    found = Report.load(path)
    assert found.meta.suite == "rollback"
    assert {race.name for race in found.races} >= {"paged: context", "masked: rejected"}
    assert "rollback by context" in capsys.readouterr().out


@pytest.fixture
def strangers(tmp_path: Path) -> list[str]:
    """The words for a pair whose draft writes the same letters with other ids."""
    alphabet = "".join(chr(at) for at in range(32, 127))
    words = []
    for name, letters, seed in (("target", alphabet, 0), ("draft", alphabet[::-1], 3)):
        sd.testing.tiny_llama(vocab=len(letters), context=512, seed=seed).save_pretrained(tmp_path / name)
        backend = Tokenizer(models.BPE({letter: at for at, letter in enumerate(letters)}, []))
        PreTrainedTokenizerFast(tokenizer_object=backend).save_pretrained(tmp_path / name)
        words += [f"--{name}", str(tmp_path / name)]
    return [*words, "--quick", "--rounds", "1", "--json", str(tmp_path / "r.json")]


def test_two_tokenizers_meet_where_asked(strangers: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The draft is refused, or drafts what both know; whoever wants one tokenizer is left out of the race."""
    assert main(["bench", "drafters", *strangers]) == 2
    assert "differ at id 0: ' ' in the target's, '~' in the draft's" in capsys.readouterr().err
    assert main(["bench", "drafters", *strangers, "--tokenizers", "shared"]) == 0
    found = Report.load(strangers[-1])
    assert {fare.drafter for fare in found.fares} == {"model", "model-argmax", "ngram", "retrieval"}
    assert all(fare.alpha is not None for fare in found.fares if fare.drafter == "model" and fare.gamma)
    assert all(check.holds for check in found.checks)
    assert main(["bench", *strangers, "--tokenizers", "shared"]) == 0
    found = Report.load(strangers[-1])
    assert {one.source for one in found.races[0].candidates} == {"ours", "transformers"}
    assert not [one for one in found.races[0].candidates if "assisted" in one.name]
    assert any("one tokenizer" in note for note in found.notes)
    assert all(check.holds for check in found.checks)
