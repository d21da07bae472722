"""Check and time whole cycles of the engine on one GPU, in less than eight minutes.

    python benchmarks/gpu_engine.py [--json FILE]      # writes benchmarks/gpu_engine.json unless told otherwise
    python benchmarks/gpu_engine.py --smoke            # tiny sizes, on a CPU too: tests the script itself

It needs PyTorch 2.11 or newer with CUDA, Triton 3.6 or newer, transformers 5.17 or newer, this repository on the path
(`pip install -e .`), and 60 GB of GPU memory for the pair of 8B and 1B shape; `--small` takes 1B and a quarter of it,
in 12 GB. No weights are downloaded: they are random (`gpu_models`), and drafts agree with a chance that is planted.

1. Equality, small float32 models: recorded cycles against the general way, and greedy ones against transformers' own
   generate: tokens, cycles, accepted drafts; greedy, drawn, filtered, coupled, plain; how many cycles were recorded.
2. Equality, the large pair in bfloat16: the planted text, recorded and not.
3. Time of the large pair, greedy and drawn, and of the target alone. A cycle from end to end, with everything that the
   host does, against the sum of its forwards, replayed alone: `overhead` is what is more (goal: 5 % at most); against
   the floor, which is the time to read every weight that a cycle needs at the bandwidth of a plain copy. The share of
   the draws and of the verdict. Tokens a second without graphs; and of whole texts, prefill included, against
   transformers' assisted generation (plain generation for the target alone), run eagerly.

Times are medians over cycles; rates are totals. Prints a table last; the exit status is 1 when a check failed.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

if __package__:  # imported by a test; a script finds its neighbours by their bare names
    from benchmarks import gpu_models
    from benchmarks.gpu_timing import bytes_per_us, median_us
else:
    import gpu_models
    from gpu_timing import bytes_per_us, median_us
import specdec_teach as sd
from specdec_teach.bench.peers import assisted, plain
from specdec_teach.bench.task import Task
from specdec_teach.graphs import CudaGraphs, Graphs, Replayed
from specdec_teach.rules import rule_of
from specdec_teach.rules.kernel import ByKernel

GOAL = 0.05


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything; `smoke` takes seconds on a CPU."""

    target: gpu_models.Shape = gpu_models.B8
    draft: gpu_models.Shape = gpu_models.B1
    vocab: int = 128_256
    context: int = 2048
    agree: float = 0.8
    gamma: int = 4
    tokens: int = 384
    prompt: int = 128
    near_vocab: int = 5000
    near_tokens: int = 96
    seeds: int = 4
    rounds: int = 30
    flush_bytes: int = 512 << 20

    @classmethod
    def small(cls) -> Sizes:
        """Return sizes for a GPU with little memory."""
        return cls(target=gpu_models.B1, draft=gpu_models.Shape("0.25B", 1024, 4096, 8, 16, 8))

    @classmethod
    def smoke(cls) -> Sizes:
        """Return sizes that take seconds on a CPU."""
        tiny = gpu_models.TINY
        return cls(tiny, tiny, 300, 256, 0.7, 3, 24, 8, 300, 16, 1, 2, 1 << 12)


def engine(pair: tuple[Any, Any], gamma: int, rule: str, device: str, recorded: bool) -> sd.Engine:
    """An engine of the pair, with graphs or without; on a CPU the kernels' reference judges, and replays run again."""
    made = sd.Engine(pair[0], drafter=sd.ModelDrafter(pair[1]), gamma=gamma, verify=rule)
    made.graphs = Graphs(CudaGraphs() if device == "cuda" else Replayed()) if recorded else None
    if device == "cpu":
        made.rule = ByKernel(rule_of(rule), "torch")
    return made


def counts(result: sd.Result) -> tuple[int, ...]:
    """What must be equal besides the tokens."""
    return result.stats.cycles, result.stats.drafted, result.stats.accepted, result.stats.emitted


def equality(sizes: Sizes, device: str) -> dict[str, Any]:
    """Small float32 models, texts that depend on every token: both ways, and transformers where it can be asked."""
    pair = gpu_models.near(device, sizes.near_vocab, sizes.context, 0.1)
    found: dict[str, Any] = {"texts": 0, "differ": 0, "transformers_differ": 0, "recorded_cycles": 0, "why": None}
    oracle = plain(pair[0], Task(sizes.near_tokens, 0.0))
    for rule in ("rejection", "coupled"):
        ours, theirs = (engine(pair, sizes.gamma, rule, device, recorded) for recorded in (True, False))
        for seed in range(sizes.seeds):
            samplings = [
                sd.Sampling(temperature=0.0, eos_token_id=None),
                sd.Sampling(seed=seed, eos_token_id=None),
                sd.Sampling(seed=seed, temperature=0.7, top_k=50, top_p=0.9, min_p=0.01, eos_token_id=None),
            ]
            prompt = [(7 * seed + at) % sizes.near_vocab for at in range(3 + 5 * seed)]
            for sampling in samplings:
                for speculate in (True, False):
                    cap = sizes.near_tokens
                    both = [
                        it.generate(prompt, sampling, max_new_tokens=cap, speculate=speculate, trace=False)
                        for it in (ours, theirs)
                    ]
                    found["texts"] += 1
                    found["differ"] += both[0].tokens != both[1].tokens or counts(both[0]) != counts(both[1])
                if sampling.greedy_now:
                    found["transformers_differ"] += oracle(prompt, 0) != both[0].tokens
        assert ours.graphs is not None
        found["recorded_cycles"] += ours.graphs.cycles
        found["why"] = found["why"] or ours.graphs.why
    wrong = found["differ"] or found["transformers_differ"] or found["why"] is not None
    return found | {"ok": not wrong and found["recorded_cycles"] > found["texts"]}


def planted(sizes: Sizes, pair: tuple[Any, Any], device: str) -> dict[str, Any]:
    """The large pair: the greedy text that was planted, recorded, the general way, and without speculation."""
    prompt, sampling = list(range(1, 1 + sizes.prompt)), sd.Sampling(temperature=0.0, eos_token_id=None)
    texts, stats = [], []
    for recorded, speculate in ((True, True), (False, True), (True, False)):
        made = engine(pair, sizes.gamma, "rejection", device, recorded)
        result = made.generate(prompt, sampling, max_new_tokens=sizes.tokens // 2, speculate=speculate, trace=False)
        del made
        let_go()
        texts.append(result.tokens)
        stats.append(counts(result))
    same = texts[0] == texts[1] == texts[2] and stats[0] == stats[1]
    return {"tokens": len(texts[0]), "accepted": stats[0][2], "drafted": stats[0][1], "ok": same}


def cycles(made: sd.Engine, sizes: Sizes, sampling: sd.Sampling, speculate: bool, device: str) -> dict[str, Any]:
    """Decode once to record, then again: microseconds of every full cycle, whether its draft caught up, tokens/s."""
    prompt, gamma = list(range(1, 1 + sizes.prompt)), sizes.gamma if speculate else 0
    given: dict[str, Any] = {"max_new_tokens": sizes.tokens, "speculate": speculate, "trace": False}
    made.generate(prompt, sampling, **given)
    stream = made.stream(prompt, sampling, **given)
    stream.step()  # with it goes the prefill
    spent, twos, all_stood, emitted = [], 0, stream.progress.stats.accepted == gamma > 0, 0
    while stream.next_gamma() == gamma:
        before, start = stream.progress.stats, time.perf_counter()
        if not stream.step():
            break
        after = stream.progress.stats
        spent.append(1e6 * (time.perf_counter() - start))
        twos += all_stood
        all_stood = after.accepted - before.accepted == gamma > 0
        emitted += after.emitted - before.emitted
    return {
        "cycles": len(spent),
        "caught_up": twos,
        "cycle_us": statistics.median(spent),
        "tokens_per_cycle": emitted / len(spent),
        "tokens_per_s": 1e6 * emitted / sum(spent),
    }


def forwards(made: sd.Engine, sizes: Sizes, device: str, speculate: bool) -> dict[str, float]:
    """Median microseconds of each recorded step, replayed alone on the memory that the last request left."""
    assert made.graphs is not None
    steps = made.graphs.steps
    assert steps is not None
    gamma, quiet = sizes.gamma if speculate else 0, torch.empty(1, device=device)
    board = steps.board
    at = sizes.prompt + sizes.tokens // 2

    def once(replay: Callable[[], None]) -> Callable[[], None]:
        def work() -> None:
            for number in (board.committed, board.target, board.draft):
                number.fill_(at)
            replay()

        return work

    form = steps.forms[-1]
    parts = {"target": steps.target.forward(gamma + 1, gamma + 1), "verdict": steps.judge(form, gamma).replay}
    if speculate:
        assert steps.draft is not None
        parts |= {"draft": steps.draft.forward(1, 1), "catch_up": steps.draft.forward(2, 1)}
        parts["draw"] = steps.drafting(form, 1, 1)[1]
    with torch.inference_mode():
        nothing = median_us(once(lambda: None), quiet, sizes.rounds, device)
        times = {name: median_us(once(replay), quiet, sizes.rounds, device) for name, replay in parts.items()}
    return {name: max(spent - nothing, 0.0) for name, spent in times.items()}


def read_bytes(model: Any) -> int:
    """Bytes of weights that a forward over a few tokens reads: all but the table of embeddings."""
    table = model.model.embed_tokens.weight
    return sum(weight.nbytes for weight in model.parameters()) - table.nbytes


def speeds(sizes: Sizes, pair: tuple[Any, Any], device: str) -> list[dict[str, Any]]:
    """One row for each kind of decoding."""
    flush = torch.empty(sizes.flush_bytes, dtype=torch.uint8, device=device)
    speed = bytes_per_us(flush, sizes.rounds, device)
    rows = []
    greedy = sd.Sampling(temperature=0.0, eos_token_id=None)
    for name, sampling, speculate in (
        ("greedy", greedy, True),
        ("drawn", sd.Sampling(seed=3, eos_token_id=None), True),
        ("plain", greedy, False),
    ):
        made = engine(pair, sizes.gamma, "rejection", device, recorded=True)
        row = {"kind": name} | cycles(made, sizes, sampling, speculate, device)
        parts = forwards(made, sizes, device, speculate)
        gamma = sizes.gamma if speculate else 0
        share = row["caught_up"] / row["cycles"]
        drafted = (gamma - 1) * parts.get("draft", 0.0) + (1 - share) * parts.get("draft", 0.0)
        summed = parts["target"] + (drafted + share * parts["catch_up"] if gamma else 0.0)
        floor = (read_bytes(pair[0]) + gamma * read_bytes(pair[1])) / speed
        row |= {f"{part}_us": spent for part, spent in parts.items()}
        row |= {"forwards_us": summed, "overhead": row["cycle_us"] / summed - 1, "floor_us": floor}
        row["verdict_share"] = parts["verdict"] / row["cycle_us"]
        row["draw_share"] = gamma * parts.get("draw", 0.0) / row["cycle_us"]
        row["of_floor"] = row["cycle_us"] / floor
        row["without_graphs"] = cycles(
            engine(pair, sizes.gamma, "rejection", device, recorded=False), sizes, sampling, speculate, device
        )["tokens_per_s"]
        temperature = 0.0 if sampling.greedy_now else 1.0
        task = Task(sizes.tokens, temperature)
        other = assisted(pair[0], pair[1], task, sizes.gamma) if speculate else plain(pair[0], task)
        prompt = list(range(1, 1 + sizes.prompt))
        ours = functools.partial(text, made, prompt, sampling, sizes.tokens, speculate)
        row["text_tokens_per_s"] = rate(ours)
        row["transformers"] = rate(functools.partial(other, prompt, 0))
        row["against_transformers"] = row["text_tokens_per_s"] / row["transformers"]
        rows.append(row)
        del made, ours
        let_go()
    return rows


def text(made: sd.Engine, prompt: list[int], sampling: sd.Sampling, cap: int, speculate: bool) -> tuple[int, ...]:
    """Return the new tokens of a text."""
    return made.generate(prompt, sampling, max_new_tokens=cap, speculate=speculate, trace=False).tokens


def let_go() -> None:
    """Give back what engines held that are no longer needed: records hold themselves in circles."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def rate(decode: Callable[[], tuple[int, ...]]) -> float:
    """Tokens a second of a whole text, prefill included, after one text to warm up."""
    decode()
    start = time.perf_counter()
    tokens = decode()  # ends in ids on the host
    return len(tokens) / (time.perf_counter() - start)


def main() -> int:
    """Run all parts and print; return the exit status."""
    parser = argparse.ArgumentParser(description="Check and time whole cycles of the engine on one GPU.")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes; runs on a CPU")
    parser.add_argument("--small", action="store_true", help="models that fit 12 GB")
    parser.add_argument("--json", type=Path, help="where the figures go; default benchmarks/gpu_engine.json on a GPU")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not args.smoke:
        print("no GPU here; --smoke tests the script itself")
        return 2
    sizes = Sizes.smoke() if args.smoke else Sizes.small() if args.small else Sizes()
    start = time.perf_counter()
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    checks: dict[str, Any] = {"equality": equality(sizes, device)}
    pair = gpu_models.planted((sizes.target, sizes.draft), sizes.agree, sizes.vocab, sizes.context, device, dtype)
    checks["planted"] = planted(sizes, pair, device)
    rows = speeds(sizes, pair, device)
    result = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "CPU, replays run again: no figure is a GPU's",
        "torch": torch.__version__,
        "pair": f"{sizes.target.name} and {sizes.draft.name}, {str(dtype).removeprefix('torch.')}, γ = {sizes.gamma}",
        "overhead_goal": GOAL,
        **checks,
        "speeds": rows,
        "seconds": time.perf_counter() - start,
    }
    print(f"{result['device']}, torch {result['torch']}, {result['pair']}, {result['seconds']:.0f} s")
    for name, check in checks.items():
        rest = ", ".join(f"{key} {value}" for key, value in check.items() if key != "ok")
        print(f"{'ok  ' if check['ok'] else 'FAIL'} {name}: {rest}")
    columns = ("cycle_us", "forwards_us", "overhead", "of_floor", "verdict_share", "draw_share", "tokens_per_s")
    columns += ("without_graphs", "text_tokens_per_s", "transformers")
    print("  ".join(["kind  ", *(f"{column:>17}" for column in columns)]))
    for row in rows:
        print("  ".join([f"{row['kind']:<6}", *(f"{row[column]:>17.3f}" for column in columns)]))
    path = args.json or (Path(__file__).parent / "gpu_engine.json" if device == "cuda" else None)
    if path is not None:
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if all(check["ok"] for check in checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
