"""Several processes, one text: the target split over two of them (gloo, on this CPU), and layers laid over devices.

The oracle is the same engine in one process. The split changes the last bits of the logits, so greedy text may differ
where the target's two best logits lie closer than 1e-4.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM

import specdec_teach as sd
from specdec_teach import hf
from tests.engine import ranks

ROOT = Path(__file__).parents[2]
PATIENCE = 90.0  # seconds; a run takes ten to fifteen
needs_gloo = pytest.mark.skipif(
    not (dist.is_available() and dist.is_gloo_available()), reason="torch was built without gloo"
)


@pytest.fixture(scope="module")
def folder(pair: sd.Pair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded pair as `save_pretrained` writes it."""
    root = tmp_path_factory.mktemp("pair")
    for name, model in (("target", pair.target), ("draft", pair.draft)):
        model.save_pretrained(root / name)
        pair.tokenizer.save_pretrained(root / name)
    return root


@pytest.fixture(scope="module")
def found(folder: Path) -> list[dict[str, Any]]:
    """What each of two ranks says that `torchrun` started."""
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    with _started([*launch, "tests/engine/ranks.py", str(folder), "texts"], _environment()) as run:
        said, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, said
    return [json.loads((folder / f"rank{rank}.json").read_text(encoding="utf-8")) for rank in (0, 1)]


@needs_gloo
def test_two_processes_give_the_text_of_one(pair: sd.Pair, found: list[dict[str, Any]]) -> None:
    """In both ranks, though the second was given another seed: the first one decides."""
    engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer)
    want = ranks.whole(engine, ranks.SEED)
    greedy = {"greedy", "served"}
    assert want["drawn"] != ranks.whole(engine, ranks.SEED + 100)["drawn"]
    for made in found:
        assert {name: made[name] for name in want if name not in greedy} == {
            name: tokens for name, tokens in want.items() if name not in greedy
        }
        _same_but_for_ties(pair, ranks.PROMPT, made["greedy"], want["greedy"])
        for prompt, one, other in zip(ranks.SERVED, made["served"], want["served"], strict=True):
            _same_but_for_ties(pair, prompt, one, other)


@needs_gloo
def test_the_traces_agree(found: list[dict[str, Any]]) -> None:
    """What a rank was told fills its trace as if it had decided itself; seeds and clocks are its own."""
    first, second = (made["trace"] for made in found)
    assert [made["law"][:1] + made["law"][2:] for made in found] == [[1, "residual", [0.25, 0.0, 0.0, 0.5]]] * 2
    assert [made["faults"] for made in found] == [[], []]
    assert (first["meta"]["seed"], second["meta"]["seed"]) == (ranks.SEED, ranks.SEED + 1)
    assert any(cycle["last_kind"] == "correction" for cycle in first["cycles"])
    for one, other in zip(first["cycles"], second["cycles"], strict=True):
        assert {**one, "seconds": None} == {**other, "seconds": None}


@needs_gloo
def test_ranks_that_differ_are_stopped(found: list[dict[str, Any]]) -> None:
    """Own verdicts under different seeds, or different prompts: every rank says so."""
    for made in found:
        for name in ("unshared", "prompts"):
            assert made[name].startswith("EngineFailure: the processes hold different tokens: rank 1"), made[name]
        assert made["split draft"].startswith("InvalidInput: the model of the drafter model is split")


@needs_gloo
@pytest.mark.parametrize("sign", ["SIGKILL", pytest.param("SIGSTOP", marks=pytest.mark.slow)])
def test_a_rank_that_is_lost_ends_the_run(folder: Path, sign: str) -> None:
    """Killed, or silent: the other one says so, no later than the timeout."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = _environment() | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    command = ["tests/engine/ranks.py", str(folder), sign]
    with (
        _started(command, given | {"RANK": "0", "LOCAL_RANK": "0"}) as first,
        _started(command, given | {"RANK": "1", "LOCAL_RANK": "1"}) as second,
    ):
        assert _fate(second.pid) == (0x7F if sign == "SIGSTOP" else signal.SIGKILL)
        since = time.monotonic()
        said, _ = first.communicate(timeout=PATIENCE)
        waited = time.monotonic() - since
    assert first.returncode == 1
    assert "EngineFailure: another process of this run has ended or does not answer" in said
    assert waited < ranks.TIMEOUT + 15


def test_layers_on_several_devices(pair: sd.Pair, folder: Path) -> None:
    """accelerate keeps some layers on the disk, or puts all where they fit: the same text."""
    places = {"model.embed_tokens": "cpu", "model.rotary_emb": "cpu", "model.norm": "disk", "lm_head": "cpu"}
    places |= {f"model.layers.{at}": "cpu" if at < 8 else "disk" for at in range(10)}
    for device_map, decoder in ((places, "hf"), ("auto", "compact")):
        spread = sd.load_pair(str(folder / "target"), draft=str(folder / "draft"), device_map=device_map)
        engines = [sd.Engine(p.target, drafter=sd.ModelDrafter(p.draft), tokenizer=p.tokenizer) for p in (pair, spread)]
        assert engines[1].target_runner.decoder == decoder
        made = [engine.generate(ranks.PROMPT, ranks.DRAWN, max_new_tokens=16).tokens for engine in engines]
        assert made[0] == made[1]


def test_a_model_with_movers_is_not_for_the_compact_decoder(tmp_path: Path) -> None:
    """All matrices in one place and a norm on the disk: only accelerate's own forward can run that."""
    fields = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    whole = hf.llama_from_config({**fields, "num_attention_heads": 2, "num_key_value_heads": 2})
    whole.save_pretrained(tmp_path)
    places = dict.fromkeys(("model.embed_tokens", "model.rotary_emb", "model.layers", "lm_head"), "cpu")
    model = AutoModelForCausalLM.from_pretrained(tmp_path, device_map={**places, "model.norm": "disk"})
    drawn = sd.Sampling(seed=1, eos_token_id=None)
    made = [sd.Engine(one).generate([1, 2], drawn, max_new_tokens=6).tokens for one in (whole, model)]
    assert made[0] == made[1]


def test_what_cannot_be_placed_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(folder / "target")
    with pytest.raises(sd.InvalidInput, match="the embedded pair fits on one device"):
        sd.load_pair(device_map="auto")
    with pytest.raises(sd.InvalidInput, match="give one of them"):
        sd.load_pair(path, device="cpu", device_map="auto")
    with pytest.raises(sd.InvalidInput, match="torchrun starts"):
        sd.load_pair(path, tensor_parallel=True)
    with pytest.raises(sd.InvalidInput, match="name a dtype"):
        sd.load_pair(path, tensor_parallel=True, dtype="auto")
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "accelerate" else find(name))
    with pytest.raises(sd.InvalidInput, match="pip install accelerate"):
        sd.load_pair(path, device_map="auto")


def test_heads_that_do_not_divide_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(sd.InvalidInput, match="4 query and 4 key/value heads, which 3 processes"):
        hf.load_any(str(folder / "target"), device=None, dtype=torch.float32, tensor_parallel=True)
    with pytest.raises(sd.InvalidInput, match="cannot load"):
        hf.load_any(str(folder / "nothing"), device=None, dtype=torch.float32, tensor_parallel=True)


def test_one_process_alone_shares_with_nobody(pair: sd.Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = sd.Engine(pair.target)
    with pytest.raises(sd.InvalidInput, match="no other processes"):
        sd.distributed.shared(engine)
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(sd.InvalidInput, match=r"RANK.*torchrun"), sd.distributed.group():
        pass


def _environment() -> dict[str, str]:
    """What the processes are told, besides their rank."""
    paths = [str(ROOT / part) for part in ("", "kernels", "widgets")]
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}


@contextmanager
def _started(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run a script from the root, and leave no process of it behind."""
    run = subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        yield run
    finally:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.communicate()


def _fate(pid: int) -> int:
    """Wait until a process was killed or stopped, and return how."""
    for _ in range(int(PATIENCE * 10)):
        ended, status = os.waitpid(pid, os.WUNTRACED | os.WNOHANG)
        if ended:
            return status & 0xFF
        time.sleep(0.1)
    raise TimeoutError("the second process went on")


def _same_but_for_ties(pair: sd.Pair, prompt: str, made: list[int], want: list[int]) -> None:
    """Greedy tokens may part only where the two best logits are closer than 1e-4."""
    parting = next((at for at, (a, b) in enumerate(zip(made, want, strict=True)) if a != b), None)
    if parting is None:
        return
    ids = torch.tensor([[*pair.tokenizer(prompt).input_ids, *want[:parting]]])
    with torch.inference_mode():
        best = pair.target(ids).logits[0, -1].topk(2).values
    assert best[0] - best[1] < 1e-4
