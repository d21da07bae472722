"""What does it cost to record a run? Alternating runs in one process, ratios of medians.

    python benchmarks/trace_overhead.py [--rounds 15] [--tokens 96]

Three ways to run the same request on the embedded pair: nobody listens (`trace=False`), a trace is kept, and a trace is
kept while an observer hears every event. Prints a table and, with --json FILE, writes the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from pathlib import Path

import torch

import specdec_teach as sd


class Recorder:
    """Counts events, as cheaply as an observer can."""

    def __init__(self) -> None:
        self.heard = 0

    def on_event(self, event: object) -> None:
        """See `Observer`."""
        self.heard += 1


def measure(rounds: int, tokens: int) -> dict[str, object]:
    """Return medians in milliseconds a cycle, and the ratios to the silent run."""
    pair = sd.load_pair()
    silent, heard = (
        sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4) for _ in range(2)
    )
    heard.observers.append(Recorder())
    ways = {"nobody listens": (silent, False), "trace kept": (silent, True), "trace and observer": (heard, True)}
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 2):
        order = list(ways.items())
        for name, (engine, trace) in order[turn % 3 :] + order[: turn % 3]:
            sampling = sd.Sampling(temperature=0.8, seed=turn, eos_token_id=None)
            start = time.perf_counter()
            result = engine.generate("Once upon a time", sampling, max_new_tokens=tokens, trace=trace)
            seconds = time.perf_counter() - start
            if turn >= 2:
                spent[name].append(1e3 * seconds / result.stats.cycles)
    base = spent["nobody listens"]
    rows = {
        name: {
            "ms_per_cycle": round(statistics.median(values), 3),
            "ratio": round(statistics.median(values) / statistics.median(base), 4),
            "paired_ratios": [round(v / b, 4) for v, b in zip(values, base, strict=True)],
        }
        for name, values in spent.items()
    }
    machine = {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    return {"machine": machine, "rounds": rounds, "tokens": tokens, "ways": rows}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description="Cost of recording a run, as a ratio of medians.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    figures = measure(args.rounds, args.tokens)
    for name, row in figures["ways"].items():  # type: ignore[attr-defined]
        spread = sorted(row["paired_ratios"])
        ends = f"[{spread[0]:.3f} … {spread[-1]:.3f}]"
        print(f"{name:<20} {row['ms_per_cycle']:8.3f} ms a cycle   × {row['ratio']:.3f}   {ends}")
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
