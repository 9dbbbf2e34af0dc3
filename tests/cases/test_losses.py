"""Cases H30 to H32: the loss is a mean over the right count."""

from dataclasses import replace

import pytest
import torch

from captioning.text.vocabulary import PAD
from captioning.training.losses import word_loss
from captioning.training.objectives import CrossEntropy
from captioning.training.settings import OptimizerSettings
from tests.training.small_run import fit, make

LOGITS = torch.tensor([[2.0, 1, 0], [0, 1, 2]])
TARGETS = torch.tensor([0, 2])


def test_H30_label_smoothing_over_words_only():
    """Padded places never reach the loss: `PackedWords` hands over the words alone."""
    assert word_loss(LOGITS, TARGETS, smoothing=0.1).smoothed.item() / 2 == pytest.approx(0.5076, abs=5e-5)


def smoothed(batch, module):
    features = module.captioner.features(batch)
    reading = module.captioner.decoder(features, batch.inputs, batch.is_word)
    return CrossEntropy(label_smoothing=0.1, penalty_weight=0.0)(reading, batch, features)


@pytest.mark.parametrize("extra", [1, 10])
def test_H30_padding_changes_neither_sum_nor_count(extra):
    module, loaders = make(images=5)
    module.eval()
    batch = next(iter(loaders.train_dataloader()))
    padded = replace(batch, words=torch.nn.functional.pad(batch.words, (0, extra, 0, 2), value=PAD))
    plain, with_padding = smoothed(batch, module), smoothed(padded, module)
    torch.testing.assert_close(with_padding.total, plain.total)
    assert (with_padding.count, with_padding.words) == (plain.count, plain.words)


def wordless(batch):
    """The batch with nothing but padding in it."""
    return replace(batch, words=torch.full_like(batch.words, PAD))


def test_H31_a_batch_of_padding_is_a_loss_of_zero_without_gradient():
    module, loaders = make(images=5)
    batch = next(iter(loaders.train_dataloader()))
    loss = smoothed(wordless(batch), module)
    assert loss.total.item() == 0
    assert loss.count == loss.words == 0
    loss.total.backward()
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    assert all((gradient == 0).all() for gradient in gradients)


def test_H31_a_batch_of_padding_moves_no_weight():
    module, loaders = make(images=4)
    train = loaders.train
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    original = type(train).__getitem__
    loaders.train = type("Wordless", (), {"__len__": lambda self: 4, "lengths": train.lengths})()
    type(loaders.train).__getitem__ = lambda self, request: wordless(original(train, request))
    fit(module, loaders)
    for name, tensor in module.state_dict().items():
        if "running" not in name and "num_batches" not in name:
            assert torch.equal(tensor, before[name]), name


def test_H32_parts_are_divided_by_the_words_of_the_whole_step():
    parts = [(1.0, 2), (4.0, 8)]
    total = sum(mean * words for mean, words in parts)
    assert total / sum(words for _, words in parts) == pytest.approx(3.4)


@pytest.mark.parametrize("reduction", ["token_mean", "caption_mean"])
def test_H32_two_batches_of_one_are_one_batch_of_two(reduction):
    """The captions of the two images differ in number and length."""
    stepped = []
    for batch_size, accumulate in ((1, 2), (2, 1)):
        objective = CrossEntropy(penalty_weight=0.0, loss_reduction=reduction)
        settings = OptimizerSettings(name="sgd", learning_rate=0.1, encoder_learning_rate=0.0)
        module, loaders = make(images=2, batch_size=batch_size, objective=objective, optimizer=settings)
        fit(module, loaders, accumulate_grad_batches=accumulate, limit_val_batches=0)
        stepped.append([parameter.detach() for parameter in module.captioner.decoder.parameters()])
    for one, other in zip(*stepped, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)
