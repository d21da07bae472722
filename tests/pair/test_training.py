"""Training: the network equals the transformers model, stops and goes on, and reports bad options in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from specdec_teach.training.__main__ import parse_options
from specdec_teach.training.batches import Batch, load_batch, plan_epoch, split_batch
from specdec_teach.training.corpus import END_ID, Corpus, build_corpus, train_tokenizer
from specdec_teach.training.export import load_model, save_model, save_tokenizer
from specdec_teach.training.network import Network, Shape
from specdec_teach.training.objective import recall_weights, teacher_losses, token_losses, weighted_mean
from specdec_teach.training.optimizer import orthogonalise
from specdec_teach.training.sampling import sample
from specdec_teach.training.stories.grammar import Mark
from specdec_teach.training.trainer import Loss, Plan, load_progress, rate_factor, train

TINY = Shape(vocab=400, width=16, layers=2, heads=2, inner=24, context=512)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(stories=40, base=1, vocab=TINY.vocab)


@pytest.fixture(scope="module")
def corpus(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    corpus = build_corpus(tokenizer, stories=60, base=1, folder=tmp_path_factory.mktemp("corpus"))
    assert len(corpus) > 5
    return corpus


def _network(seed: int = 3, shape: Shape = TINY) -> Network:
    return Network(shape, torch.Generator().manual_seed(seed))


def _plain_loss(logits: Tensor, batch: Batch) -> Tensor:
    return weighted_mean(token_losses(logits, batch.targets), recall_weights(batch, 4.0))


def _interrupted(calls: int) -> Loss:
    left = [calls]

    def loss(logits: Tensor, batch: Batch) -> Tensor:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return _plain_loss(logits, batch)

    return loss


def test_training_goes_on_where_it_stopped(corpus: Corpus, tmp_path: Path) -> None:
    plan = Plan(steps=6, budget=600, warmup=2, replicas=1, save_every=0.0)
    whole, parts = _network(), _network()
    train(whole, corpus, _plain_loss, plan, tmp_path / "whole.pt")
    with pytest.raises(KeyboardInterrupt):
        train(parts, corpus, _interrupted(3), plan, tmp_path / "parts.pt")
    assert load_progress(tmp_path / "parts.pt").step == 3
    parts = _network(seed=4)
    progress = train(parts, corpus, _plain_loss, plan, tmp_path / "parts.pt")
    assert progress.step == 6
    assert progress.tokens == load_progress(tmp_path / "whole.pt").tokens
    for (name, one), (_, other) in zip(whole.named_parameters(), parts.named_parameters(), strict=True):
        assert torch.equal(one, other), name
    with pytest.raises(ValueError, match="another model shape"):
        train(_network(shape=Shape(vocab=400, width=8, heads=2)), corpus, _plain_loss, plan, tmp_path / "parts.pt")


def test_training_lowers_the_loss_with_two_replicas(corpus: Corpus, tmp_path: Path) -> None:
    network = _network()
    batch = load_batch(corpus, [0, 1])
    with torch.no_grad():
        before = float(_plain_loss(network(batch.inputs), batch))
    train(
        network,
        corpus,
        _plain_loss,
        Plan(steps=25, budget=1200, warmup=2, replicas=2, adam_rate=0.01),
        tmp_path / "two.pt",
    )
    with torch.no_grad():
        after = float(_plain_loss(network(batch.inputs), batch))
    assert after < before - 0.5


def test_the_network_is_a_transformers_llama(tmp_path: Path, tokenizer: Tokenizer) -> None:
    save_model(_network(), tmp_path)
    save_tokenizer(tokenizer, tmp_path)
    network = load_model(tmp_path)
    model = LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    ids = torch.randint(0, TINY.vocab, (2, 50), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(network(ids), model(ids).logits, atol=1e-5, rtol=1e-4)
    fast = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    assert fast.eos_token_id == END_ID == model.config.eos_token_id
    assert fast("Mira").input_ids == tokenizer.encode("Mira").ids


def test_any_text_can_be_encoded(tokenizer: Tokenizer) -> None:
    for text in ("Mira had a red lantern and", "Ĥéllo 🙂 \t 你好\n\n", " ", "\x00"):
        assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_stories_start_at_zero_and_end_once(corpus: Corpus) -> None:
    for start, stop in zip(corpus.starts, corpus.starts[1:], strict=False):
        story = corpus.tokens[int(start) : int(stop)]
        assert story[-1] == END_ID
        assert END_ID not in story[:-1]
        assert len(story) <= TINY.context


def test_an_epoch_holds_every_story_once(corpus: Corpus) -> None:
    epoch = plan_epoch(corpus, budget=1500, seed=1, epoch=0)
    assert sorted(story for batch in epoch for story in batch) == list(range(len(corpus)))
    assert epoch == plan_epoch(corpus, budget=1500, seed=1, epoch=0) != plan_epoch(corpus, budget=1500, seed=1, epoch=1)


def test_batches_shift_by_one_and_mask_padding(corpus: Corpus) -> None:
    batch = load_batch(corpus, [0, 1, 2])
    assert torch.equal(batch.inputs[:, 1:], batch.targets[:, :-1])
    assert batch.valid.sum() == sum(int(length) - 1 for length in corpus.lengths()[:3])
    parts = split_batch(batch, 2)
    assert torch.equal(torch.cat([part.targets for part in parts]), batch.targets)
    weights = recall_weights(batch, 4.0)
    again = (batch.marks == int(Mark.AGAIN_NAME)) | (batch.marks == int(Mark.AGAIN_FACT))
    assert again.any()
    assert (weights[again] == 4).all()
    assert (weights[~batch.valid] == 0).all()


def test_a_teacher_equal_to_the_student_costs_nothing() -> None:
    logits = torch.randn(1, 5, 7, generator=torch.Generator().manual_seed(0))
    assert teacher_losses(logits, logits, 0.8).abs().max() < 1e-6
    assert (teacher_losses(logits, logits.flip(-1), 0.8) > 0).all()


def test_orthogonalise_levels_the_singular_values() -> None:
    matrices = torch.randn(3, 12, 20, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonalise(matrices))
    assert values.min() > 0.5
    assert values.max() < 1.5


def test_samples_keep_their_prompts_and_stop_at_the_end() -> None:
    rows = sample(_network(), [[5, 6, 7], [8]], 30, 0.8, torch.Generator().manual_seed(1))
    assert rows[0][:3] == [5, 6, 7]
    assert rows[1][0] == 8
    assert rows == sample(_network(), [[5, 6, 7], [8]], 30, 0.8, torch.Generator().manual_seed(1))
    for row, prompt in zip(rows, (3, 1), strict=True):
        assert len(row) == prompt + 30 or row[-1] == END_ID
    with pytest.raises(ValueError, match="at least one token"):
        sample(_network(), [[]], 4, 0.8, torch.Generator())
    with pytest.raises(ValueError, match="positions"):
        sample(_network(), [[1]], 600, 0.8, torch.Generator())


def test_rates_rise_hold_and_fall() -> None:
    plan = Plan(steps=100, warmup=10)
    assert rate_factor(0.0, 0, plan) == pytest.approx(0.1)
    assert rate_factor(0.3, 30, plan) == 1.0
    assert rate_factor(1.0, 100, plan) == pytest.approx(0.02)


def test_bad_limits_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="either steps or minutes"):
        Plan()
    with pytest.raises(ValueError, match="positive"):
        Plan(steps=-1)
    with pytest.raises(ValueError, match="multiple of heads"):
        Network(Shape(width=10, heads=4))
    with pytest.raises(SystemExit):
        parse_options(["--target-minutes", "0"])
    assert "--target-minutes must be positive" in capsys.readouterr().err
