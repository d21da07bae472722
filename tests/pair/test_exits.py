"""Exits learn, are written with the name of their target, and the shipped one keeps what its card says."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

import specdec_teach
from specdec_teach.drafters.early import Exit
from specdec_teach.training.__main__ import main
from specdec_teach.training.exits import Way, measure_way, save_way, train_ways
from specdec_teach.training.network import Network, Shape

WEIGHTS = Path(specdec_teach.__file__).parent / "weights"
TINY = Shape(vocab=60, width=16, layers=3, heads=2, inner=24)


@pytest.fixture(scope="module")
def network() -> Network:
    return Network(TINY, torch.Generator().manual_seed(3))


def test_an_exit_begins_near_and_learns(network: Network) -> None:
    """Least squares beat the bare norm; steps beat least squares, on states that nothing was learnt from."""
    random = torch.Generator().manual_seed(1)
    x = torch.randn(800, 16, generator=random)
    last = (x @ torch.randn(16, 16, generator=random)).abs() * 10
    states = {1: x[:600].half(), 3: last[:600].half()}
    bare, fitted = (Way(16, 512, torch.Generator().manual_seed(1)) for _ in range(2))
    fitted.fit(x[:600], last[:600])
    ways = train_ways(network, states, [1], steps=80, rows=200, rate=0.01, seed=1)
    alphas = [measure_way(network, way, x[600:], last[600:])["alpha"] for way in (bare, fitted, ways[1])]
    assert alphas == sorted(alphas)
    assert alphas[2] > alphas[1] + 0.02


def test_what_is_written_is_what_drafts(tmp_path: Path) -> None:
    """The file names its target, and the drafter's exit computes what was trained, up to fp16."""
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "model.safetensors").write_bytes(b"a target")
    way = Way(16, 8, torch.Generator().manual_seed(1))
    torch.nn.init.normal_(way.down, generator=torch.Generator().manual_seed(2))
    size = save_way(way, 2, tmp_path)
    path = tmp_path / "exit" / "2.safetensors"
    assert path.stat().st_size == size
    with safe_open(path, framework="pt") as opened:
        weights, about = {name: opened.get_tensor(name) for name in opened.keys()}, opened.metadata()  # noqa: SIM118
    assert about["target"] == hashlib.sha256(b"a target").hexdigest()[:12]
    x = torch.randn(5, 16, generator=torch.Generator().manual_seed(3))
    leave = Exit.of(weights, float(about["epsilon"]), x)
    assert torch.allclose(leave(x), way(x), atol=2e-2)


def test_the_shipped_exit_fits_its_card() -> None:
    card = json.loads((WEIGHTS / "exit" / "card.json").read_text(encoding="utf-8"))
    shipped = [int(path.stem) for path in (WEIGHTS / "exit").glob("*.safetensors")]
    assert shipped
    for layers in shipped:
        row = card[str(layers)]
        assert row["bytes"] == (WEIGHTS / "exit" / f"{layers}.safetensors").stat().st_size <= 1_000_000
        assert row["alpha"] > 0.55
        with safe_open(WEIGHTS / "exit" / f"{layers}.safetensors", framework="pt") as opened:
            digest = hashlib.sha256((WEIGHTS / "target" / "model.safetensors").read_bytes()).hexdigest()
            assert opened.metadata()["target"] == digest[:12]


def test_bad_options_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["exit", "--layers", "10"])
    assert "between 1 and 9" in capsys.readouterr().err
