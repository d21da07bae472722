"""Traces of vLLM's reports: counts follow from the response, what it lacks is unknown, contradictions are refused.

The fixtures are written after vLLM 0.33's documented response format.
"""

from __future__ import annotations

import copy
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

import specdec_teach as sd
from specdec_teach.schema import schema
from specdec_teach.traces import from_vllm

FIXTURES = Path(__file__).parents[1] / "fixtures"
GOOD = ("completion", "chat", "offline")


def response(name: str) -> Any:
    return json.loads((FIXTURES / f"vllm_{name}.json").read_text(encoding="utf-8"))


def made(drafted: list[int], accepted: list[int], cut: int = 0, gamma: int = 4) -> dict[str, Any]:
    """Return a response with these steps, the last of which lost `cut` tokens."""
    count = 1 + sum(kept + 1 for kept in accepted) - cut
    choice = {"prompt_token_ids": [1, 2], "token_ids": list(range(10, 10 + count)), "finish_reason": "length"}
    metrics = {"per_step_drafted": drafted, "per_step_accepted": accepted, "num_spec_tokens": gamma}
    return {"choices": [choice], "metrics": {"speculative_decoding": metrics}}


def cycle_text(cycle: sd.Cycle) -> str:
    marks = {"accepted": "a", "rejected": "r", "unused": "-", "cut": "c"}
    return (
        "".join(marks[d.status] for d in cycle.decisions)
        + {"bonus": "+", "correction": "!", "none": "."}[cycle.last_kind]
    )


def test_a_completion_step_by_step() -> None:
    trace = from_vllm((FIXTURES / "vllm_completion.json").read_text(encoding="utf-8"))
    assert [cycle_text(cycle) for cycle in trace.cycles] == ["+", "aaa+", "r--!", "aar!", "ar-!"]
    assert [cycle.emitted for cycle in trace.cycles] == [
        (220,), (221, 222, 223, 224), (225,), (226, 227, 228), (229, 230),
    ]  # fmt: skip
    assert trace.cycles[3].proposed == (226, 227, None)
    assert [(c.target_kv.before, c.target_kv.written, c.target_kv.after) for c in trace.cycles] == [
        (3, 4, 4), (4, 8, 8), (8, 12, 9), (9, 13, 12), (12, 16, 14),
    ]  # fmt: skip
    assert trace.finish_reason == "length"
    assert trace.meta.models == {"target": "example/target-8b"}
    assert trace.meta.gamma == 3
    assert "".join(cycle.text for cycle in trace.cycles) == response("completion")["choices"][0]["text"]


def test_a_chat_that_ends_inside_an_accepted_block() -> None:
    """The end token was an accepted draft: what vLLM accepted behind it is cut, and so is what it rejected."""
    trace = from_vllm(response("chat"))
    last = trace.cycles[-1]
    assert cycle_text(last) == "ac."
    assert (last.accepted, last.stop_cut, last.last, last.proposed) == (1, 1, None, (9008, None))
    assert trace.finish_reason == "eos"
    assert trace.prompt == tuple(response("chat")["prompt_token_ids"])


def test_offline_output_as_a_dict_and_as_an_object() -> None:
    plain = response("offline")
    thing = SimpleNamespace(**{**plain, "outputs": [SimpleNamespace(**plain["outputs"][0])]})
    thing.outputs[0].spec_decode_metrics = SimpleNamespace(**plain["outputs"][0]["spec_decode_metrics"])
    trace = from_vllm(plain)
    assert from_vllm(thing) == trace
    assert trace.finish_reason == "stop"
    assert [len(cycle.proposed) for cycle in trace.cycles] == [0, 2, 2, 1, 2, 2]


@pytest.mark.parametrize("name", GOOD)
def test_the_totals_are_vllms(name: str) -> None:
    """Against the summary, which is counted apart from the steps; the cut belongs to the last step alone."""
    trace, plain = from_vllm(response(name)), response(name)
    said = (
        plain["metrics"]["speculative_decoding"] if "metrics" in plain else plain["outputs"][0]["spec_decode_metrics"]
    )
    assert sum(len(cycle.proposed) for cycle in trace.cycles) == said["num_draft_tokens"]
    accepted = [cycle.accepted for cycle in trace.cycles[1:]]
    steps = said.get("acceptance_histogram", said.get("histogram"))
    lost = sum(kept * count for kept, count in enumerate(steps)) - sum(accepted)
    assert lost == (1 if name == "chat" else 0)
    tokens = (plain.get("outputs") or plain["choices"])[0]["token_ids"]
    assert [token for cycle in trace.cycles for token in cycle.emitted] == tokens


def test_no_number_is_invented() -> None:
    for name in GOOD:
        trace = from_vllm(response(name))
        for cycle in trace.cycles:
            assert (cycle.rng, cycle.seconds, cycle.degenerate_residual, cycle.last_top) == (None,) * 4
            assert cycle.last_from == ("p" if cycle.last_kind == "bonus" else None)
            for decision in cycle.decisions:
                assert (decision.p, decision.q, decision.u, decision.alpha, decision.accept_probability) == (None,) * 5
                assert not (decision.bars)
                assert not (decision.p_top.tokens)
                assert not decision.q_top.tokens
                assert (decision.token is None) == (decision.status != "accepted")
        assert (trace.meta.lossless, trace.meta.seed, trace.meta.vocab, trace.meta.max_new_tokens) == (None,) * 4
        assert dict(trace.meta.sampling) == {}
        assert trace.prefill is None


def shapes() -> Iterator[tuple[list[int], list[int], int]]:
    """Every run of two steps of up to three drafts, with every possible cut."""
    steps = [(drafted, accepted) for drafted in range(4) for accepted in range(drafted + 1)]
    for (d0, a0), (d1, a1) in product(steps, repeat=2):
        yield from (([d0, d1], [a0, a1], cut) for cut in range(a1 + 1))


def test_every_small_run_obeys_the_bookkeeping_of_a_cycle() -> None:
    """The invariants that our own engine's traces are held to."""
    for drafted, accepted, cut in shapes():
        trace = from_vllm(made(drafted, accepted, cut))
        assert sd.invariants.check(trace) == [], (drafted, accepted, cut)


@pytest.mark.parametrize("name", GOOD)
def test_saved_loaded_checked_and_drawn(name: str, tmp_path: Path) -> None:
    trace = from_vllm(response(name))
    path = trace.save(tmp_path / "run.json")
    assert sd.Trace.load(path) == trace
    jsonschema.validate(json.loads(path.read_text(encoding="utf-8")), schema())
    assert "p, q and u unknown" in trace.to_table()
    assert "T=unknown" in trace.to_table()
    for cycle in trace.cycles:
        svg = trace.to_svg(cycle.index)
        assert "T unknown" in svg
        assert ("p, q and u are unknown" in svg) == bool(cycle.proposed)
        assert not re.search(r"\b(NaN|None|null)\b", svg)
    assert "p, q and u are unknown" in trace.to_html(tmp_path / "run.html").read_text(encoding="utf-8")
    assert trace.show() is not None


def test_texts_come_from_a_tokenizer_where_one_is_given(pair: sd.Pair) -> None:
    ids = pair.tokenizer("Once upon a time there was a little fox").input_ids
    plain = made([2, 2], [2, 1])
    count = len(plain["choices"][0]["token_ids"])
    plain["choices"][0].update(prompt_token_ids=ids[:2], token_ids=ids[2 : 2 + count])
    trace = from_vllm(plain, tokenizer=pair.tokenizer)
    assert (
        "".join(cycle.text for cycle in trace.cycles)
        == pair.tokenizer.decode(ids)[len(pair.tokenizer.decode(ids[:2])) :][
            : len("".join(cycle.text for cycle in trace.cycles))
        ]
    )
    assert set(trace.pieces) == {*ids[: 2 + count]}


def test_chat_logprobs_name_the_tokens() -> None:
    plain = made([1], [1])
    plain["choices"][0]["logprobs"] = {"content": [{"token": text} for text in (" a", "�", "token_id:12")]}
    assert from_vllm(plain).pieces == {10: " a"}


def damaged(change: Callable[[Any], object], name: str = "completion") -> Any:
    plain = copy.deepcopy(response(name))
    change(plain)
    return plain


def spec(plain: Any) -> Any:
    return plain["metrics"]["speculative_decoding"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda r: r.pop("metrics"), "no metrics.speculative_decoding.*--per-request-spec-decode-metrics detailed"),
        (lambda r: r["metrics"].update(speculative_decoding=None), "no metrics.speculative_decoding"),
        (lambda r: r.pop("choices"), "no list of choices"),
        (lambda r: r.update(choices="x"), "no list of choices"),
        (lambda r: r["choices"].append(r["choices"][0]), "2 choices.*n = 1"),
        (lambda r: r["choices"][0].pop("token_ids"), "no token_ids.*return_token_ids"),
        (lambda r: r["choices"][0].pop("prompt_token_ids"), "no prompt_token_ids.*return_token_ids"),
        (lambda r: r["choices"][0].update(token_ids=[1.5]), "token_ids is .1.5.; expected"),
        (lambda r: r["choices"][0].update(token_ids=[True]), "token_ids is .True.; expected"),
        (lambda r: r["choices"][0].update(token_ids="123"), "token_ids is '123'; expected"),
        (lambda r: r["choices"][0].update(token_ids=[]), "0 new ones"),
        (lambda r: r["choices"][0]["token_ids"].pop(), "usage.completion_tokens is 11, but 10"),
        (lambda r: r["usage"].update(prompt_tokens=5), "usage.prompt_tokens is 5, but 4"),
        (lambda r: spec(r).pop("per_step_accepted"), "no per_step_accepted.*detailed"),
        (lambda r: spec(r).update(per_step_drafted=[3, -1, 3, 3]), "per_step_drafted is .*whole numbers"),
        (lambda r: spec(r)["per_step_drafted"].pop(), "per_step_drafted has 3 steps, per_step_accepted 4"),
        (lambda r: spec(r).update(per_step_accepted=[3, 0, 2, 4]), "step 3 accepted 4 of 3"),
        (lambda r: spec(r).update(num_spec_tokens=2), "step 0 accepted 3 of 3 drafts, and 2 is the most"),
        (lambda r: spec(r).update(num_spec_tokens=None), "num_spec_tokens is None"),
        (lambda r: spec(r).update(num_spec_steps=5), "num_spec_steps is 5, the steps make 4"),
        (lambda r: spec(r).update(num_draft_tokens=11), "num_draft_tokens is 11, the steps make 12"),
        (lambda r: spec(r).update(num_accepted_draft_tokens=7), "num_accepted_draft_tokens is 7"),
        (lambda r: spec(r).update(acceptance_histogram=[1, 1, 2, 0]), "acceptance_histogram is"),
    ],
)  # fmt: skip
def test_a_malformed_response_is_refused_by_name(change: Callable[[Any], object], says: str) -> None:
    with pytest.raises(sd.InvalidInput, match=says):
        from_vllm(damaged(change))


def test_a_summary_has_no_steps() -> None:
    with pytest.raises(sd.InvalidInput, match=r"no per_step_drafted.*detailed"):
        from_vllm(response("summary"))


def test_steps_that_cannot_be_told_apart_are_refused() -> None:
    """Three tokens came from steps without a match, and nothing says which three."""
    with pytest.raises(sd.InvalidInput, match="in 3 steps nothing was drafted"):
        from_vllm(response("ngram"))
    with pytest.raises(sd.InvalidInput, match="leaves 2 of 2 reported steps over"):
        from_vllm(response("ngram"), ngram=(1, 3))


def looked_up(text: list[int], shortest: int, longest: int, count: int) -> list[int]:
    """Every match there is, the longest first and then the earliest: slow and plain."""
    found = [
        (size, -at)
        for at in range(len(text))
        for size in range(shortest, longest + 1)
        if at + size < len(text) and text[at : at + size] == text[-size:]
    ]
    if not found:
        return []
    size, at = max(found)
    return text[size - at : size - at + count]


def served(rng: random.Random, shortest: int, longest: int, gamma: int) -> tuple[dict[str, Any], list[list[int]]]:
    """Return the response of a server that drafts by n-grams, and the drafts of all its steps, empty ones too."""
    text = [rng.randrange(4) for _ in range(40)]
    prompt, done, drafts = rng.randrange(1, 8), 0, []
    done, steps = prompt + 1, []
    while done < len(text):
        guess = looked_up(text[:done], shortest, longest, gamma)
        kept = 0
        while kept < len(guess) and done + kept < len(text) and guess[kept] == text[done + kept]:
            kept += 1
        drafts.append(guess)
        if guess:
            steps.append((len(guess), kept))
        done += kept + 1
    plain = made([d for d, _ in steps], [a for _, a in steps], gamma=gamma)
    plain["choices"][0].update(prompt_token_ids=text[:prompt], token_ids=text[prompt:])
    return plain, drafts


def test_a_repeated_lookup_tells_the_steps_that_were_left_out() -> None:
    """200 random texts over four tokens: every step and every draft, the rejected ones too, as the server had them."""
    rng, left_out, rejected = random.Random(0), 0, 0
    for _ in range(200):
        shortest = rng.randrange(1, 4)
        longest, gamma = rng.randrange(shortest, 6), rng.randrange(1, 6)
        plain, drafts = served(rng, shortest, longest, gamma)
        trace = from_vllm(plain, ngram=(shortest, longest))
        assert [list(cycle.proposed) for cycle in trace.cycles[1:]] == drafts
        assert sd.invariants.check(trace) == []
        assert trace.meta.drafter == "ngram"
        left_out += drafts.count([])
        rejected += sum(len(cycle.proposed) - cycle.accepted for cycle in trace.cycles)
    assert left_out > 500
    assert rejected > 500


def test_a_repeated_lookup_that_disagrees_is_refused() -> None:
    """Other settings give another run, or the same one; never a third."""
    rng, refused = random.Random(1), 0
    for _ in range(200):
        plain, drafts = served(rng, 2, 3, 4)
        try:
            trace = from_vllm(plain, ngram=(1, 3))
        except sd.InvalidInput:
            refused += 1
        else:
            assert [list(cycle.proposed) for cycle in trace.cycles[1:]] == drafts
    assert refused > 150


@pytest.mark.parametrize("sizes", [(0, 3), (3, 2)])
def test_impossible_sizes_are_refused(sizes: tuple[int, int]) -> None:
    with pytest.raises(sd.InvalidInput, match="prompt_lookup_min"):
        from_vllm(response("ngram"), ngram=sizes)


def test_only_the_last_step_may_be_cut() -> None:
    assert from_vllm(made([3, 3], [1, 3], cut=3)).cycles[-1].stop_cut == 2
    with pytest.raises(sd.InvalidInput, match="only the last step may be cut"):
        from_vllm(made([3, 3], [1, 3], cut=4))
    with pytest.raises(sd.InvalidInput, match="only the last step may be cut"):
        from_vllm(made([3, 3], [3, 1], cut=2))


@pytest.mark.parametrize("text", ["{", "[]", "null", "3", '"x"', '{"choices": [3]}', '{"outputs": 3}'])
def test_what_is_no_response_is_refused(text: str) -> None:
    with pytest.raises(sd.InvalidInput):
        from_vllm(text)
    with pytest.raises(sd.InvalidInput):
        from_vllm(text.encode())


def test_no_torch_is_needed() -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['transformers'] = None; import specdec_teach as sd;"
        f"print(len(sd.traces.from_vllm(open({str(FIXTURES / 'vllm_chat.json')!r}).read()).to_table()) > 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "True", done.stderr


@pytest.mark.parametrize(
    ("tokens", "accepted", "says"),
    [([2, 3, 4], 1, "not the step of 1"), ([2, 1], 0, "reported as rejected"), ([2, 1, 5, 1, 7], 1, "no further step")],
)
def test_a_text_that_drafts_otherwise_is_refused(tokens: list[int], accepted: int, says: str) -> None:
    """After 1 2 1 2 the lookup drafts 1: it can be neither accepted as 3 nor rejected for 1, nor drafted unreported."""
    plain = made([1], [accepted], gamma=1)
    plain["choices"][0].update(prompt_token_ids=[1, 2, 1], token_ids=tokens)
    with pytest.raises(sd.InvalidInput, match=says):
        from_vllm(plain, ngram=(1, 1))
