"""Traces of runs that another engine made: what its report says, and nothing else.

vLLM says for every verification step how many tokens were drafted and how many accepted. With the ids of the text that
is enough to rebuild each cycle's counts, pointers and kept drafts. Probabilities, random numbers and seconds are not
reported, nor are the rejected tokens: they are None in the trace, and the views say so.
Invariant: every number in the trace is in the response or follows from it by the bookkeeping of one cycle; a response
that fits no run, or more than one, is refused. It does not know an engine, a network or torch.
Source: vLLM 0.33, "Per-Request Acceptance Metrics".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from specdec_kernels.errors import InvalidInput, shown
from specdec_teach.lookup import repeat
from specdec_teach.text import TextStream, Tokenizer, pieces
from specdec_teach.trace import KV, SCHEMA_VERSION, Cycle, Decision, FinishReason, Meta, Status, Top, Trace

__all__ = ["from_vllm"]

_NOTHING = Top((), 1.0)


def from_vllm(response: object, *, tokenizer: Tokenizer | None = None, ngram: tuple[int, int] | None = None) -> Trace:
    """Return the trace of one request that vLLM answered with `--per-request-spec-decode-metrics detailed`.

    `response`: a completion or chat completion with `return_token_ids`, as JSON text, as a dict or as the client's
    object; or a RequestOutput of offline inference. `tokenizer`: the target's, for the texts of tokens; without it they
    come from the response's logprobs where it has some, else tokens show by id. `ngram`: for a server that drafts by
    n-grams, its `prompt_lookup_min` and `prompt_lookup_max`; the lookup is repeated on the text, which tells the steps
    that vLLM leaves out and the rejected drafts. InvalidInput names the field that is missing or contradicts another,
    or the steps that cannot be told apart.

    >>> metrics = {"per_step_drafted": [2], "per_step_accepted": [1], "num_spec_tokens": 2}
    >>> choice = {"prompt_token_ids": [5, 6], "token_ids": [7, 8, 9], "finish_reason": "length"}
    >>> trace = from_vllm({"choices": [choice], "metrics": {"speculative_decoding": metrics}})
    >>> [(cycle.proposed, cycle.emitted, cycle.last_kind) for cycle in trace.cycles]
    [((), (7,), 'bonus'), ((8, None), (8, 9), 'correction')]
    """
    if isinstance(response, (str, bytes)):
        try:
            response = json.loads(response)
        except ValueError:
            raise InvalidInput("the response is not JSON; give the body that vLLM sent, or the parsed dict") from None
    offline = _field(response, "outputs") is not None
    choice = _only(response, "outputs" if offline else "choices")
    metrics = _field(choice, "spec_decode_metrics") if offline else _field(_field(response, "metrics"), _SECTION)
    if metrics is None:
        raise InvalidInput(
            f"the response has no {'outputs[0].spec_decode_metrics' if offline else 'metrics.' + _SECTION}; start vLLM "
            "with a --speculative-config and --per-request-spec-decode-metrics detailed, and ask for one text (n = 1)"
        )
    asked = {"prompt_token_ids": response if offline else choice, "token_ids": choice}
    if not offline and _field(choice, "prompt_token_ids") is None:
        asked["prompt_token_ids"] = response
    prompt, tokens = (_whole_numbers(_field(where, name), name, _IDS) for name, where in asked.items())
    if not prompt or not tokens:
        raise InvalidInput(f"{len(prompt)} prompt tokens and {len(tokens)} new ones; a run has at least one of each")
    for name, ids in (("prompt_tokens", prompt), ("completion_tokens", tokens)):
        said = _field(_field(response, "usage"), name)
        if said is not None and said != len(ids):
            raise InvalidInput(f"usage.{name} is {shown(said)}, but {len(ids)} token ids came; the response is damaged")
    longest, steps = _steps(metrics)
    drafts = None
    if ngram is not None:
        repeated = list(repeat(prompt, tokens, steps, ngram, longest))
        drafts, steps = [drafted for drafted, _ in repeated], [(len(drafted), kept) for drafted, kept in repeated]
    cut = _cut(steps, len(tokens))
    texts = _Texts(tokenizer, prompt, tokens, choice)
    meta = Meta(
        schema_version=SCHEMA_VERSION,
        models={"target": str(_field(response, "model") or "unknown")},
        revisions={"target": "unknown"},
        drafter="unknown" if ngram is None else "ngram",
        dtype="unknown",
        decoder="vLLM",
        vocab=None,
        sampling={},
        gamma=longest,
        verify="unknown",
        cache="paged",
        seed=None,
        speculate=True,
        max_new_tokens=None,
        lossless=None,
        backend="vLLM",
    )
    cycles = tuple(_cycles(prompt, tokens, longest, steps, drafts, cut, texts))
    return Trace(meta, tuple(prompt), None, cycles, _reason(choice), texts.pieces)


_SECTION = "speculative_decoding"
_IDS = "send `return_token_ids: true` with the request"
_DETAILED = "start vLLM with --per-request-spec-decode-metrics detailed"


def _field(thing: object, name: str) -> Any:
    """Read a field of a dict or of an object; None where it is missing."""
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def _only(response: object, name: str) -> object:
    choices = _field(response, name)
    if not isinstance(choices, Sequence) or isinstance(choices, (str, bytes)):
        raise InvalidInput(
            f"the response {shown(response)} has no list of choices; give a completion, a chat completion or a "
            "RequestOutput of vLLM"
        )
    if len(choices) != 1:
        raise InvalidInput(f"the response has {len(choices)} choices; vLLM reports its steps for one only: send n = 1")
    return choices[0]


def _whole_numbers(given: object, name: str, advice: str) -> list[int]:
    if given is None:
        raise InvalidInput(f"the response has no {name}; {advice}")
    items = list(given) if isinstance(given, Sequence) and not isinstance(given, (str, bytes)) else None
    if items is None or not all(isinstance(item, int) and not isinstance(item, bool) and item >= 0 for item in items):
        raise InvalidInput(f"{name} is {shown(given)}; expected a list of whole numbers from 0 on")
    return items


def _steps(metrics: object) -> tuple[int, list[tuple[int, int]]]:
    """Return the longest draft and (drafted, accepted) of every step, after they were compared with the totals."""
    drafted, accepted = (
        _whole_numbers(_field(metrics, name), name, _DETAILED) for name in ("per_step_drafted", "per_step_accepted")
    )
    if len(drafted) != len(accepted):
        raise InvalidInput(f"per_step_drafted has {len(drafted)} steps, per_step_accepted {len(accepted)}")
    longest = _field(metrics, "num_spec_tokens")
    if not isinstance(longest, int) or isinstance(longest, bool) or longest < 0:
        raise InvalidInput(f"num_spec_tokens is {shown(longest)}; expected the longest draft, a whole number")
    steps = list(zip(drafted, accepted, strict=True))
    for index, (long, kept) in enumerate(steps):
        if not kept <= long <= longest:
            raise InvalidInput(f"step {index} accepted {kept} of {long} drafts, and {longest} is the most per step")
    histogram = _field(metrics, "acceptance_histogram")
    counts = {
        "num_spec_steps": len(steps),
        "num_draft_tokens": sum(drafted),
        "num_accepted_draft_tokens": sum(accepted),
    }
    for name, count in counts.items():
        said = _field(metrics, name)
        if said is not None and said != count:
            raise InvalidInput(f"{name} is {shown(said)}, the steps make {count}; the response is damaged")
    found = [accepted.count(kept) for kept in range(longest + 1)]
    histogram = _field(metrics, "histogram") if histogram is None else histogram
    if histogram is not None and list(histogram) != found:
        raise InvalidInput(f"acceptance_histogram is {shown(histogram)}, the steps make {found}")
    return longest, steps


def _cut(steps: list[tuple[int, int]], count: int) -> int:
    """Return how many tokens of the last step stood behind the end of the text."""
    made = 1 + sum(kept + 1 for _, kept in steps)
    if count > made:
        raise InvalidInput(
            f"{count} tokens came, the prefill and the {len(steps)} steps make {made}: in {count - made} steps nothing "
            "was drafted, vLLM does not report those, and so it cannot be told which tokens belong to which step. "
            "For a server that drafts by n-grams give ngram=(prompt_lookup_min, prompt_lookup_max)"
        )
    if made - count > (steps[-1][1] if steps else 0):
        raise InvalidInput(
            f"{count} tokens came, the prefill and the {len(steps)} steps make {made}; only the last step may be cut"
        )
    return made - count


def _cycles(
    prompt: list[int],
    tokens: list[int],
    longest: int,
    steps: list[tuple[int, int]],
    drafts: list[tuple[int, ...]] | None,
    cut: int,
    texts: _Texts,
) -> Iterator[Cycle]:
    """Yield the cycles: the token that the prefill gave, then one for each step."""
    at = len(prompt)
    for index, (drafted, accepted) in enumerate([(0, 0), *steps]):
        ended = cut > 0 and index == len(steps)
        count = accepted + 1 - (cut if ended else 0)
        emitted = tuple(tokens[at - len(prompt) : at - len(prompt) + count])
        kept = count if ended else accepted
        proposed: tuple[int | None, ...] = (*emitted[:kept], *[None] * (drafted - kept))
        if drafts is not None and index:
            proposed = drafts[index - 1]
        yield Cycle(
            index=index,
            gamma=longest if index else 0,
            proposed=proposed,
            accepted=kept,
            emitted=emitted,
            last=None if ended else emitted[-1],
            last_kind="none" if ended else "bonus" if accepted == drafted else "correction",
            last_top=None,
            committed_before=at,
            committed_after=at + count,
            target_kv=KV(at - 1, at + drafted, at + count - 1),
            draft_kv=None,
            decisions=tuple(_decisions(proposed, kept, ended=ended)),
            rng=None,
            degenerate_residual=None,
            seconds=None,
            stop_cut=drafted - kept if ended else 0,
            text=texts.push(emitted, last=index == len(steps)),
            last_from="p" if not ended and accepted == drafted else None,
        )
        at += count


def _decisions(proposed: tuple[int | None, ...], kept: int, *, ended: bool) -> Iterator[Decision]:
    for row, token in enumerate(proposed):
        behind: Status = "cut" if ended else "rejected" if row == kept else "unused"
        yield Decision(
            position=row + 1,
            token=token,
            p=None,
            q=None,
            u=None,
            accept_probability=None,
            accepted=row < kept,
            alpha=None,
            p_top=_NOTHING,
            q_top=_NOTHING,
            residual_top=_NOTHING,
            bars=(),
            status="accepted" if row < kept else behind,
        )


def _reason(choice: object) -> FinishReason | None:
    """Return why the text ended; a stop with a string is a stop string, with an id or nothing an end token."""
    said = _field(choice, "finish_reason")
    if said == "stop":
        return "stop" if isinstance(_field(choice, "stop_reason"), str) else "eos"
    return "length" if said == "length" else None


class _Texts:
    """What tokens look like: by the tokenizer, else by the response's logprobs, else not at all."""

    def __init__(self, tokenizer: Tokenizer | None, prompt: list[int], tokens: list[int], choice: object) -> None:
        self.stream = TextStream(tokenizer)
        self.pieces: Mapping[int, str] = {}
        self.known = tokenizer is not None
        if tokenizer is not None:
            self.pieces = pieces(tokenizer, {*prompt, *tokens})
            return
        logprobs = _field(choice, "logprobs")
        named = _field(logprobs, "tokens") or [_field(entry, "token") for entry in _field(logprobs, "content") or []]
        if len(named) == len(tokens) and all(isinstance(text, str) for text in named):
            whole = {token: text for token, text in zip(tokens, named, strict=True) if "�" not in text}
            self.pieces = {token: text for token, text in whole.items() if not text.startswith("token_id:")}

    def push(self, emitted: tuple[int, ...], *, last: bool) -> str:
        if self.known:
            return self.stream.push(emitted, last=last)
        return "".join(self.pieces.get(token, "") for token in emitted)
