"""Reports go into JSON and come back; a gate compares ratios; tables and charts say what the report says."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from specdec_kernels.errors import InvalidInput
from specdec_teach.bench import chart, gate
from specdec_teach.bench.records import Report
from specdec_teach.bench.table import tables
from tests.bench.reports import META, race, report


def test_json_there_and_back(tmp_path: Path) -> None:
    path = report().save(tmp_path / "r.json")
    assert Report.load(path) == report()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "no report of a benchmark"),
        ('{"meta": {"schema_version": 1}}', "no report of a benchmark"),
        ('{"meta": {"suite": "speed", "schema_version": 99}}', "99"),
    ],
)
def test_strange_files_are_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=said):
        Report.load(path)


def test_a_damaged_report_is_refused(tmp_path: Path) -> None:
    path = report().save(tmp_path / "r.json")
    plain = json.loads(path.read_text())
    plain["races"][0]["comparisons"][0]["ratio"] = "fast"
    path.write_text(json.dumps(plain))
    with pytest.raises(InvalidInput, match="ratio"):
        Report.load(path)


@pytest.mark.parametrize(("fast", "fallen"), [(1.0, False), (0.5, False), (1.17, False), (1.18, True), (2.0, True)])
def test_a_ratio_may_fall_by_its_tolerance(fast: float, fallen: bool) -> None:
    """The stored ratio is 2; 15 % below it is 1.7 = 2 / 1.176."""
    found = gate.falls(report(race(fast, None)), report(race(1.0, None)))
    assert bool(found) is fallen
    if fallen:
        assert f"is {2.0 / fast:.2f}, was 2.00; at least 1.70" in str(found[0])


def test_seconds_are_never_compared() -> None:
    """A machine ten times as slow passes."""
    slow = race()
    slower = tuple(replace(one, seconds={k: 10 * v for k, v in one.seconds.items()}) for one in slow.rounds)
    assert gate.falls(report(replace(slow, rounds=slower)), report()) == []


def test_the_tolerance_is_the_stored_one() -> None:
    assert gate.falls(report(race(1.5, None, tolerance=0.9)), report(race(1.0, None, tolerance=0.1)))
    assert not gate.falls(report(race(1.5, None, tolerance=0.1)), report(race(1.0, None, tolerance=0.9)))


def test_what_is_missing() -> None:
    """A guest may stay away; ours may not."""
    assert gate.falls(report(race(guest=None)), report()) == []
    other = replace(race(), name="T=0.8")
    found = gate.falls(report(race()), report(race(), other))
    assert [str(one) for one in found] == ["T=0.8: fast / plain was 2.00 and was not measured now"]
    guests = tuple(one for one in race().comparisons if one.baseline == "guest")
    with pytest.raises(InvalidInput, match="in common"):
        gate.falls(report(race(guest=None)), report(replace(race(), comparisons=guests)))


@pytest.mark.parametrize("field", ["target", "draft", "dtype", "decoder", "tokens"])
def test_like_is_gated_with_like(field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        gate.falls(replace(report(), meta=replace(META, **{field: "other"})), report())


def test_stored_reports_that_cannot_gate(tmp_path: Path) -> None:
    path = report().save(tmp_path / "r.json")
    assert gate.admits(path, "speed") == report()
    with pytest.raises(InvalidInput, match=r"'speed'.*'verify'"):
        gate.admits(path, "verify")
    with pytest.raises(InvalidInput, match="not made with --quick"):
        gate.admits(path, "speed", quick=True)
    report(replace(race(), comparisons=())).save(path)
    with pytest.raises(InvalidInput, match="compares nothing"):
        gate.admits(path, "speed")
    report(race(tolerance=1.5)).save(path)
    with pytest.raises(InvalidInput, match=r"tolerance 1\.5"):
        gate.admits(path, "speed")


def test_tables_say_what_the_report_says() -> None:
    text = io.StringIO()
    console = Console(file=text, width=120)
    for part in tables(report()):
        console.print(part)
    said = text.getvalue()
    for words in (
        "a processor",
        "✓ stories",
        "fast",
        "2.000",
        "4.000",
        "2 s a token",
        "growth",
        "operations",
        "left out",
    ):
        assert words in said, words
    assert "?" not in said


def test_the_table_of_drafters_has_the_quickest_first_and_the_slow_ones_too() -> None:
    console = Console(width=140, record=True, file=io.StringIO())
    for part in tables(report()):
        console.print(part)
    lines = [line.split() for line in console.export_text().splitlines() if line.split()[:1] in (["model"], ["ngram"])]
    assert lines == [
        ["model", "4", "0.500", "2.50", "20.0%", "900", "1.80"],
        ["ngram", "4", "–", "1.00", "1.0%", "4", "0.90"],
    ]


def test_doubts_are_shown() -> None:
    text = io.StringIO()
    unsteady = replace(race(), comparisons=(replace(race().comparisons[0], low=3.0, high=4.0),))
    for part in tables(report(unsteady)):
        Console(file=text, width=120).print(part)
    assert "2.000 ?" in text.getvalue()


@pytest.mark.parametrize("curves", [True, False])
def test_pictures_are_drawn(curves: bool, tmp_path: Path) -> None:
    from matplotlib.image import imread

    given = report() if curves else report(curves=())
    pixels = imread(chart.write(given, tmp_path / "c.png"))
    assert min(pixels.shape[:2]) > 200
    assert (pixels[..., :3].min(axis=-1) < 0.9).mean() > 0.005, "an empty picture"


def test_the_page_needs_no_network(tmp_path: Path) -> None:
    """The library is in the page, and so are names and values."""
    text = chart.write(report(curves=()), tmp_path / "c.html").read_text(encoding="utf-8")
    assert '"fast"' in text
    assert "2.00 \\u00d7 plain" in text or "2.00 × plain" in text
    assert "<script src=" not in text
    assert len(text) > 1_000_000


def test_charts_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"\.png, \.svg, \.html"):
        chart.write(report(), tmp_path / "c.gif")
    with pytest.raises(InvalidInput, match="folder that exists"):
        chart.write(report(), tmp_path / "no" / "c.png")
