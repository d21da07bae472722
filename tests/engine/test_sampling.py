"""Settings are validated once; one function decides what greedy is."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import specdec_teach as sd


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"temperature": -0.1}, "temperature=-0.1"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"temperature": float("inf")}, "temperature=inf"),
        ({"temperature": "hot"}, "temperature='hot'"),
        ({"temperature": True}, "temperature=True"),
        ({"top_p": 0.0}, "top_p=0.0"),
        ({"top_p": 1.5}, "top_p=1.5"),
        ({"min_p": -1}, "min_p=-1"),
        ({"top_k": -1}, "top_k=-1"),
        ({"top_k": 2.5}, "top_k=2.5"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": 2**64}, f"seed={2**64}"),
        ({"eos_token_id": "eos"}, "eos_token_id='eos'"),
        ({"eos_token_id": [3, -1]}, "eos_token_id=-1"),
        ({"eos_token_id": 1.5}, "eos_token_id=1.5"),
        ({"temperature": 1e39}, "temperature=1e+39"),
        ({"stop": 5}, "stop=5"),
        ({"stop": ("a", "")}, "stop=('a', '')"),
        ({"banned": 5}, "banned=5"),
        ({"banned": ((),)}, "banned holds ()"),
        ({"allowed": 5}, "allowed=5"),
        ({"allowed": ()}, "allowed=()"),
        ({"logit_bias": [1]}, "logit_bias=[1]"),
        ({"logit_bias": {1: "x"}}, "logit_bias='x'"),
        ({"processors": (3,)}, "processors holds 3"),
        ({"grammar": "[0-9]"}, "grammar='[0-9]'"),
        ({"repetition_penalty": 0}, "repetition_penalty=0"),
        ({"logprobs": -1}, "logprobs=-1"),
    ],
)
def test_bad_settings_are_refused_with_what_is_allowed(wrong: dict[str, Any], says: str) -> None:
    """One clear line: what was given, what is allowed."""
    with pytest.raises(sd.InvalidInput, match="give ") as caught:
        sd.Sampling(**wrong)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, (sd.SpecDecError, ValueError))


@pytest.mark.parametrize(
    ("temperature", "greedy"),
    [(0, True), (1e-45, True), (1e-38, True), (1e-6, True), (1e-5, True), (1.1e-5, False), (1, False)],
)
def test_one_threshold_for_greedy(temperature: float, greedy: bool) -> None:
    """Temperatures up to 1e-5 are greedy everywhere."""
    assert sd.Sampling(temperature=temperature).greedy_now is greedy


def test_kinds_of_numbers_and_single_texts() -> None:
    """NumPy ids are ids; one text is one phrase, not its letters; settings can be copied and pickled."""
    sampling = sd.Sampling(eos_token_id=np.int64(3), banned="bad", stop="end", logit_bias={np.int32(2): 1})  # type: ignore[arg-type]
    assert (sampling.eos_ids, sampling.banned, sampling.stop, sampling.logit_bias) == (
        (3,),
        ("bad",),
        ("end",),
        {2: 1.0},
    )
    assert pickle.loads(pickle.dumps(sampling)) == copy.deepcopy(sampling) == sampling


def test_settings_are_frozen_and_eos_becomes_a_tuple() -> None:
    """A list of ids is copied, so that the settings cannot change later."""
    ids = [5, 6]
    sampling = sd.Sampling(eos_token_id=ids)  # type: ignore[arg-type]
    ids.append(7)
    assert sampling.eos_ids == (5, 6)
    with pytest.raises(AttributeError):
        sampling.seed = 1  # type: ignore[misc]
