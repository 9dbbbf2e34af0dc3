"""Losses by hand-computed values, by loops, and the convention that they are sums."""

import pytest
import torch

from captioning.data.batch import collate
from captioning.decoders.reading import Reading
from captioning.errors import ConfigError
from captioning.features.image_features import ImageFeatures
from captioning.tensors.packing import PackedWords
from captioning.training.losses import doubly_stochastic_penalty, word_loss
from captioning.training.objectives import CrossEntropy

V, R = 11, 6


def example(lengths=((3, 2), (4, 1))):
    torch.manual_seed(1)
    captions = [[[1, *torch.randint(4, V, (n - 1,)).tolist(), 2] for n in of_image] for of_image in lengths]
    features = ImageFeatures(torch.randn(len(lengths), R, 5), 2, 3)
    batch = collate([str(i) for i in range(len(lengths))], features, captions)
    words = PackedWords.of(batch.is_word)
    n = len(words.time)
    logits = torch.randn(n, V, requires_grad=True)
    weights = torch.rand(n, R).softmax(-1)
    return Reading(logits, weights, words), batch, features


def test_label_smoothing_over_real_words_only():
    logits = torch.tensor([[2.0, 1, 0], [0, 1, 2]])
    loss = word_loss(logits, torch.tensor([0, 2]), smoothing=0.1)
    assert loss.smoothed.item() / 2 == pytest.approx(0.5076, abs=5e-5)
    assert loss.nats.item() / 2 == pytest.approx(0.4076, abs=5e-5)


def test_no_words_give_zero_and_zero_gradients():
    logits = torch.randn(0, V, requires_grad=True)
    loss = word_loss(logits, torch.zeros(0, dtype=torch.int64), smoothing=0.1)
    assert loss.smoothed.item() == 0
    loss.smoothed.backward()
    assert logits.grad.shape == (0, V)


def test_penalty_equals_a_loop_over_captions_and_regions():
    reading, batch, features = example()
    loss = CrossEntropy()(reading, batch, features)
    expected = 0.0
    weights = reading.words.unpack(reading.weights)
    for b in range(2):
        for m in range(2):
            for i in range(R):
                expected += (1 - weights[b, m, :, i].sum().item()) ** 2
    assert loss.penalty == pytest.approx(expected, rel=1e-5)


def test_captions_and_regions_that_do_not_exist_are_not_penalized():
    coverage = torch.zeros(2, 3, R)
    exists = torch.tensor([[True, False, True], [True, False, False]])
    assert doubly_stochastic_penalty(coverage, exists).item() == 3 * R
    mask = torch.tensor([[True] * R, [True] * 2 + [False] * (R - 2)])
    assert doubly_stochastic_penalty(coverage, exists, mask=mask).item() == 2 * R + 2


def test_loss_is_a_sum_over_captions():
    reading, batch, features = example()
    loss = CrossEntropy(penalty_weight=0.0)(reading, batch, features)
    assert (loss.words, loss.captions, loss.count) == (3 + 2 + 4 + 1, 4, 4)
    log_probabilities = reading.logits.log_softmax(-1)
    said = log_probabilities.gather(1, reading.words.pack(batch.targets).unsqueeze(1))
    torch.testing.assert_close(loss.total, -said.sum())
    assert loss.nats == pytest.approx(-said.sum().item(), rel=1e-5)


@pytest.mark.parametrize(("reduction", "scale"), [("sum", 1.0), ("mean", 1 / R), ("released", 4 / R)])
def test_penalty_reductions_are_what_they_say(reduction, scale):
    reading, batch, features = example()
    plain = CrossEntropy(penalty_weight=0.0)(reading, batch, features)
    loss = CrossEntropy(penalty_weight=0.5, penalty_reduction=reduction)(reading, batch, features)
    penalty_of_mean_loss = (loss.total - plain.total).item() / loss.count
    assert penalty_of_mean_loss == pytest.approx(0.5 * scale * loss.penalty / 4, rel=1e-4)


def test_token_mean_is_the_widely_copied_ports_loss():
    reading, batch, features = example()
    loss = CrossEntropy(penalty_reduction="mean", loss_reduction="token_mean")(reading, batch, features)
    coverage = reading.words.sum_over_time(reading.weights)
    expected = torch.nn.functional.cross_entropy(reading.logits, reading.words.pack(batch.targets))
    expected = expected + (1 - coverage).square().mean()
    torch.testing.assert_close(loss.total / loss.count, expected)


def test_unknown_reductions_are_named():
    with pytest.raises(ConfigError, match="penalty_reduction: expected one of sum, mean, released, got 'max'"):
        CrossEntropy(penalty_reduction="max")
    with pytest.raises(ConfigError, match="loss_reduction"):
        CrossEntropy(loss_reduction="sum")
