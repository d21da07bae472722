"""Pairs with padded vocabularies and with different tokenizers: what is drafted, what is read, and the law of it.

Tiny word tokenizers; the law is enumerated and compared with arithmetic on the target's table alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import specdec_teach as sd
from specdec_teach.bridge import Bridge, first_difference
from specdec_teach.caches import ContiguousCache
from specdec_teach.checking import SECTIONS
from specdec_teach.drafters.mirror import Mirror

from ..checks import P4, greedy_equals_plain, logs, product_law, same_law

GREEDY = sd.Sampling.greedy()


def letters(alphabet: str, *merged: str) -> PreTrainedTokenizerFast:
    """A tokenizer with an id for each letter, in this order, and for some words behind them."""
    vocab = {letter: at for at, letter in enumerate(alphabet)}
    vocab |= {word: len(alphabet) + at for at, word in enumerate(merged)}
    merges = [(word[0], word[1]) for word in merged]
    backend = Tokenizer(models.BPE(vocab, merges))
    return PreTrainedTokenizerFast(tokenizer_object=backend)


def words(*vocab: str) -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.WordLevel({word: at for at, word in enumerate(vocab)}, unk_token=vocab[0]))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=backend)


ABCD, DBXA = letters("abcd"), letters("dbxay")
SHARED = {0: 3, 1: 1, 3: 0}
"""Of a, b, c, d all but c are known to both; on the draft's side they are ids 3, 1 and 0."""


def chain(width: int, seed: int) -> sd.testing.TabularLM:
    generator = torch.Generator().manual_seed(seed)
    return sd.testing.TabularLM(2 * torch.randn(width, width, generator=generator, dtype=torch.float64))


def between(target: Any, draft: Any, ours: Any, theirs: Any, gamma: int = 2, **settings: Any) -> sd.Engine:
    mode = settings.pop("mode", "sample")
    drafter = sd.ModelDrafter(draft, mode, tokenizer=theirs, target_tokenizer=ours)
    return sd.Engine(target, drafter=drafter, gamma=gamma, **settings)


def test_what_is_shared() -> None:
    bridge = Bridge(ABCD, DBXA, 5)
    assert bridge.shared == (0, 1, 3)
    assert bridge.spell([0, 1, 3]) == [3, 1, 0]
    wide = bridge.widen(torch.tensor([[10.0, 11.0, 12.0, 13.0, 14.0]]), 6)
    assert wide.tolist() == [[13.0, 11.0, -torch.inf, 10.0, -torch.inf, -torch.inf]]
    assert Bridge(ABCD, DBXA, 3).shared == (1, 3)  # the draft model has no id 3
    twice = words("<unk>", "▁x", " x")
    assert Bridge(words("y", " x"), twice, 3).spell([1]) == [1]  # of two that are written alike, the lowest
    assert Bridge(twice, words("y", " x"), 2).shared == (1,)


def test_other_tokens_are_written() -> None:
    """What only the target has is read as the draft writes it; what cannot be written is still one id."""
    bridge = Bridge(letters("abcdz", "ab", "cd"), letters("dcba", "dc"), 5)
    assert bridge.shared == (0, 1, 2, 3)
    assert bridge.spell([5, 6, 0]) == [3, 2, 1, 0, 3]
    assert bridge.spell([4]) == [0]
    assert bridge.spell([99]) == [0]


def test_two_ways_to_mark_a_space_are_one() -> None:
    """Byte-level words meet those of a sentencepiece vocabulary by their text."""
    from tokenizers import decoders

    backend = Tokenizer(models.BPE({"Ġthe": 0, "é": 1, "Ã©": 2, "a": 3}, []))
    backend.decoder = decoders.ByteLevel()
    ours = PreTrainedTokenizerFast(tokenizer_object=backend)
    theirs = words("<unk>", "a", "▁the", "é")
    bridge = Bridge(ours, theirs, 4)
    assert {token: bridge.spell([token]) for token in bridge.shared} == {0: [2], 2: [3], 3: [1]}


@pytest.mark.parametrize("rule", ["rejection", "block", "coupled"])
@pytest.mark.parametrize("mode", ["sample", "argmax"])
def test_the_law_is_the_targets(rule: str, mode: str) -> None:
    """Chains of four and of five tokens of which three are shared, and those under other ids."""
    target, draft = chain(4, 1), chain(5, 2)
    rows = torch.stack([target(input_ids=torch.tensor([[at]])).logits[0, 0] for at in range(4)]).softmax(-1).tolist()
    engine = between(target, draft, ABCD, DBXA, verify=rule, mode=mode)
    law = sd.exact_law(engine, [0, 2, 1], 3)
    same_law(law, product_law(lambda prefix: rows[prefix[-1]], (1,), 3))
    assert any(2 in tokens for tokens in law)  # "c" is said, though it is never drafted


def test_the_reported_q_is_the_drafts_over_what_is_shared() -> None:
    q = (0.1, 0.2, 0.3, 0.15, 0.25)
    engine = between(sd.testing.TabularLM(logs(P4)), sd.testing.TabularLM(logs(q)), ABCD, DBXA)
    trace = engine.generate([0, 1], sd.Sampling(seed=3), max_new_tokens=40).trace
    assert trace is not None
    over = {ours: q[theirs] / (q[3] + q[1] + q[0]) for ours, theirs in SHARED.items()}
    seen = [decision for cycle in trace.cycles for decision in cycle.decisions]
    assert {decision.token for decision in seen} == set(SHARED)
    assert all(decision.q == pytest.approx(over[decision.token]) for decision in seen)


def test_a_chi_square_across_cycles() -> None:
    """The shares of 4,000 tokens are the target's, within four standard errors."""
    engine = between(sd.testing.TabularLM(logs(P4)), chain(5, 2), ABCD, DBXA, gamma=3)
    rows = engine.generate([[0]] * 20, [sd.Sampling(seed=at) for at in range(20)], max_new_tokens=200, trace=False)
    tokens = [token for row in rows for token in row.tokens]
    for token, share in enumerate(P4):
        assert abs(tokens.count(token) / len(tokens) - share) < 4 * (share * (1 - share) / len(tokens)) ** 0.5


WIDE = letters("".join(chr(0x4E00 + at) for at in range(64)))
MIXED = letters("".join(chr(0x4E00 + at * 5 % 61) for at in range(61)) + "xyz")
TARGET, NEAR = sd.testing.tiny_llama(), sd.testing.tiny_llama(seed=4)


@pytest.mark.parametrize("cache", ["contiguous", "paged", "masked"])
def test_greedy_is_plain(cache: str) -> None:
    engine = between(TARGET, NEAR, WIDE, MIXED, gamma=4, cache=cache, debug=True)
    greedy_equals_plain(engine, [[5, 62, 63, 1], [62], [1, 2, 3]])
    rows = engine.generate([[5, 62, 63, 1], [62], [1, 2, 3]], GREEDY, max_new_tokens=20)
    assert sum(row.stats.drafted for row in rows) > 60


def test_the_check_passes() -> None:
    """Caches of both models against fresh prefills of what each of them reads, and all the rest."""
    engine = between(TARGET, NEAR, WIDE, MIXED)
    report = sd.check(engine, set(SECTIONS) - {"chi-square", "laws", "penalties"})
    assert report.ok, report.failures[:3]
    assert {"draft cache", "target cache", "second call"} <= {line.group for line in report.summary()}


def test_several_ids_for_a_token_and_a_rollback_inside() -> None:
    """The draft's cache is a fresh prefill of what it reads, whatever it takes to write the text."""
    ours = letters("abcdefgh", "ab", "cd", "ef", "gh", "ba", "dc")
    theirs = letters("hgfedcba")
    target, draft = sd.testing.tiny_llama(vocab=14), sd.testing.tiny_llama(vocab=8, seed=3)
    engine = between(target, draft, ours, theirs, gamma=3, debug=True)
    spell = engine.drafter.spell  # type: ignore[union-attr]
    stream = engine.stream([0, 8, 3, 9, 12], sd.Sampling(seed=5), max_new_tokens=60)
    wide = 0
    for cycle in stream:
        mirror = stream.sequence.draft
        assert isinstance(mirror, Mirror)
        assert mirror.ids == spell(stream.sequence.tokens)
        assert cycle.draft_kv is not None
        assert cycle.draft_kv.after <= cycle.committed_after - 1
        fresh = draft(input_ids=torch.tensor([mirror.ids]), use_cache=True).past_key_values
        for (keys, values), layer in zip(mirror.contents(), fresh.layers, strict=True):
            for found, right in ((keys, layer.keys), (values, layer.values)):
                assert torch.allclose(found, right[:, :, : mirror.cache.pointer], atol=1e-5)
        wide += sum(token >= 8 for token in cycle.emitted)
    assert wide > 10


def test_following_other_tokens_keeps_what_is_common() -> None:
    """A detour of tokens that take more ids, then the way that was chosen."""
    mirror = Mirror(ContiguousCache(64), Bridge(letters("abcd", "cd"), letters("dcba"), 4))
    mirror.follow([0, 4, 1])
    mirror.cache.advance(4)
    assert (mirror.ids, mirror.pointer, mirror.lacking) == ([3, 1, 0, 2], 3, [])
    mirror.follow([0, 4, 1])
    assert (mirror.pointer, mirror.lacking) == (2, [2])
    mirror.cache.advance(1)
    mirror.follow([0, 4, 1, 4, 2])  # a detour, computed
    mirror.cache.advance(len(mirror.lacking))
    mirror.follow([0, 4, 2, 1, 1, 1])
    assert mirror.ids == [3, 1, 0, 1, 2, 2, 2]
    assert mirror.cache.pointer == 3
    assert mirror.lacking == [1, 2, 2, 2]
    twin = mirror.fork()
    twin.follow([0])
    assert (mirror.cache.pointer, twin.cache.pointer) == (3, 0)


def test_a_draft_whose_context_is_full_lets_plain_decoding_go_on() -> None:
    """Its context counts in its own ids, of which it needs more."""
    ours, theirs = letters("abcd", "ab", "cd"), letters("dcba")
    target, draft = sd.testing.tiny_llama(vocab=6), sd.testing.tiny_llama(vocab=4, seed=3, context=16)
    engine = between(target, draft, ours, theirs, gamma=3, debug=True)
    found = engine.generate([4, 5, 4, 5, 0], GREEDY, max_new_tokens=24)
    assert found.tokens == engine.generate([4, 5, 4, 5, 0], GREEDY, max_new_tokens=24, speculate=False).tokens
    assert found.trace is not None
    assert found.trace.cycles[0].proposed
    assert not found.trace.cycles[-2].proposed


@pytest.mark.parametrize(("ours", "theirs"), [(64, 60), (60, 64)])
def test_padded_vocabularies_load_as_one(ours: int, theirs: int, tmp_path: Path) -> None:
    """One tokenizer of 58 tokens, embeddings of two widths: the pair loads and says what its target says."""
    tokenizer = letters("".join(chr(0x4E00 + at) for at in range(58)))
    for name, width in (("t", ours), ("d", theirs)):
        sd.testing.tiny_llama(vocab=width, noise=0.1 * (name == "d")).save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
    pair = sd.load_pair(str(tmp_path / "t"), str(tmp_path / "d"))
    assert pair.draft_tokenizer is None
    for name in ("model", "model-argmax"):
        engine = sd.Engine(pair.target, drafter=sd.drafters_for(pair)[name], gamma=3, debug=True)
        greedy_equals_plain(engine, [[1, 2, 3], [57, 0]])


@pytest.mark.parametrize(("ours", "theirs"), [(5, 4), (4, 5)])
def test_the_law_over_padded_vocabularies(ours: int, theirs: int) -> None:
    target, draft = chain(ours, 1), chain(theirs, 2)
    rows = [target(input_ids=torch.tensor([[at]])).logits[0, 0].softmax(-1).tolist() for at in range(ours)]
    engine = sd.Engine(target, drafter=sd.ModelDrafter(draft), gamma=2)
    same_law(sd.exact_law(engine, [0], 2), product_law(lambda prefix: rows[prefix[-1]], (0,), 2))


def test_ids_that_only_the_draft_has_are_never_drafted(tmp_path: Path) -> None:
    """The tokenizers agree where both have a token; the draft's has three more, in the padding of the target's."""
    ours, theirs = letters("abcd"), letters("abcdxyz")
    assert first_difference(ours, theirs) is None
    for name, one, seed in (("t", ours, 0), ("d", theirs, 3)):
        sd.testing.tiny_llama(vocab=8, seed=seed).save_pretrained(tmp_path / name)
        one.save_pretrained(tmp_path / name)
    pair = sd.load_pair(str(tmp_path / "t"), str(tmp_path / "d"))
    engine = sd.Engine(pair.target, drafter=sd.drafters_for(pair)["model"], gamma=3)
    trace = engine.generate([0, 1], sd.Sampling(seed=1, temperature=2.0), max_new_tokens=60).trace
    assert trace is not None
    drafted = {token for cycle in trace.cycles for token in cycle.proposed}
    assert drafted
    assert drafted <= {0, 1, 2, 3}


def test_different_tokenizers_are_refused_or_meet(tmp_path: Path) -> None:
    """The first id that differs is named; "shared" loads the pair, and drafts what both know."""
    for name, tokenizer, width in (("t", ABCD, 4), ("d", DBXA, 5)):
        sd.testing.tiny_llama(vocab=width).save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
    where = str(tmp_path / "t"), str(tmp_path / "d")
    with pytest.raises(sd.InvalidInput, match="differ at id 0: 'a' in the target's, 'd' in the draft's") as caught:
        sd.load_pair(*where)
    assert 'tokenizers="shared"' in str(caught.value)
    with pytest.raises(sd.InvalidInput, match="Did you mean 'shared'"):
        sd.load_pair(*where, tokenizers="share")
    pair = sd.load_pair(*where, tokenizers="shared")
    assert pair.draft_tokenizer.get_vocab() == DBXA.get_vocab()
    made = sd.drafters_for(pair)
    assert "tree" not in made  # it asks for several nodes at once, and each way would have to be spelled anew
    drafter = made["model"]
    greedy_equals_plain(sd.Engine(pair.target, drafter=drafter, tokenizer=pair.tokenizer, debug=True), ["abcd", "c"])


def test_refusals() -> None:
    with pytest.raises(sd.InvalidInput, match="one tokenizer alone"):
        sd.ModelDrafter(NEAR, tokenizer=WIDE)
    with pytest.raises(sd.InvalidInput, match="share no token"):
        sd.ModelDrafter(NEAR, tokenizer=letters("abc"), target_tokenizer=letters("xyz"))


def test_an_encoder_decoder_is_refused(tmp_path: Path) -> None:
    from transformers import T5Config, T5ForConditionalGeneration

    small = {"vocab_size": 8, "d_model": 8, "d_ff": 8, "d_kv": 4, "num_layers": 1, "num_heads": 2}
    model = T5ForConditionalGeneration(T5Config(**small, decoder_start_token_id=0)).eval()
    model.save_pretrained(tmp_path / "t5")
    letters("abcd").save_pretrained(tmp_path / "t5")
    with pytest.raises(sd.InvalidInput, match="cannot load"):
        sd.load_pair(str(tmp_path / "t5"))
    with pytest.raises(sd.InvalidInput, match="encoder-decoder"):
        sd.ModelDrafter(model)
