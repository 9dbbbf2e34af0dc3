"""The marginal decoder: its likelihood and gradient by listing all R^T ways to look, its parts, test-time rules."""

import pytest
import torch
from torch.nn import functional as F

from captioning.captioner import DecoderStep
from captioning.data.batch import collate
from captioning.decoders import marginal
from captioning.decoders.glimpses import read_glimpses
from captioning.decoders.rule import looking_by
from captioning.errors import ConfigError
from captioning.estimators import all_paths
from captioning.features.image_features import ImageFeatures
from captioning.text.vocabulary import END, START
from captioning.training.objectives import CrossEntropy
from tests.decoders.test_all_decoders import make

R, D, V = 3, 5, 11
CAPTION = [START, 7, 4, END]
T = len(CAPTION) - 1


def example():
    torch.manual_seed(2)
    features = ImageFeatures(torch.randn(1, R, D, dtype=torch.float64), 1, R)
    return features, collate(["one"], features, [[CAPTION]])


def loud(**settings):
    """With maps that are not even, so that it matters which way one looks."""
    decoder = make("marginal", **settings)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.mul_(3)
    return decoder.train()


def all_ways(decoder, features, batch):
    """log Σ_s π(s) Π_t p(y_t | s_t) over all 27 paths."""
    paths = all_paths(R, T).unsqueeze(0)
    words = (each.expand(-1, R**T, -1) for each in (batch.inputs, batch.targets))
    read = read_glimpses(decoder, features, *words, paths=paths)
    return (read.log_probabilities.sum(-1) + read.log_likelihoods.sum(-1)).logsumexp(-1).squeeze()


@pytest.mark.parametrize(
    "settings", [{}, {"gate": "none"}, {"attention": {"normalizer": "sparsemax", "temperature": 5.0}}]
)
def test_cross_entropy_is_the_exact_likelihood_over_all_ways_to_look_and_so_is_its_gradient(settings):
    decoder, (features, batch) = loud(dropout=0.0, **settings), example()
    reading = decoder(features, batch.inputs, batch.is_word)
    loss = CrossEntropy(penalty_weight=0.0)(reading, batch, features).total
    exact = -all_ways(decoder, features, batch)
    torch.testing.assert_close(loss.double(), exact, atol=1e-6, rtol=1e-6)  # the loss is taken in float32
    parameters = [each for each in decoder.parameters() if each.requires_grad]
    found = torch.autograd.grad(
        F.cross_entropy(reading.logits, batch.targets.flatten(), reduction="sum"), parameters, allow_unused=True
    )
    for one, other in zip(found, torch.autograd.grad(exact, parameters, allow_unused=True), strict=True):
        torch.testing.assert_close(one, other)
    assert found[[name for name, _ in decoder.named_parameters()].index("attention.score.vector")].abs().sum() > 0


def test_what_it_says_is_a_distribution_and_not_the_soft_models():
    decoder, (features, batch) = loud().eval(), example()
    said = decoder(features, batch.inputs, batch.is_word).logits
    torch.testing.assert_close(said.logsumexp(-1), torch.zeros(T).double())
    soft = make("show_attend_tell", feed_context=False)
    soft.load_state_dict(decoder.state_dict())
    assert not torch.allclose(soft(features, batch.inputs, batch.is_word).logits.log_softmax(-1), said, atol=1e-3)


def test_a_word_at_a_time_is_all_at_once(monkeypatch):
    decoder, (features, batch) = loud(dropout=0.0), example()
    whole = decoder(features, batch.inputs, batch.is_word).logits
    whole.sin().sum().backward()
    gradients = [each.grad.clone() for each in decoder.parameters() if each.grad is not None]
    decoder.zero_grad()
    monkeypatch.setattr(marginal, "AT_ONCE", 1)
    parts = decoder(features, batch.inputs, batch.is_word).logits
    parts.sin().sum().backward()
    torch.testing.assert_close(parts, whole)
    for one, other in zip(
        (each.grad for each in decoder.parameters() if each.grad is not None), gradients, strict=True
    ):
        torch.testing.assert_close(one, other)


def test_rules_mix_answers():
    """argmax: the answer of the region with the largest weight; the mean of many samples comes near to expected."""
    decoder, (features, batch) = loud().eval(), example()
    reading = decoder(features, batch.inputs, batch.is_word)
    with looking_by(decoder, "argmax", 1):
        sharp = decoder(features, batch.inputs, batch.is_word)
    along = read_glimpses(
        decoder, features, batch.inputs, batch.targets, paths=reading.weights.argmax(-1).view(1, 1, T)
    )
    chosen = sharp.logits.gather(1, batch.targets.view(T, 1)).view(1, 1, T)
    torch.testing.assert_close(chosen, along.log_likelihoods)
    torch.testing.assert_close(sharp.weights, reading.weights)
    with looking_by(decoder, "mean_of_k", 4000):
        near = decoder(features, batch.inputs, batch.is_word)
    # A share of 4,000 draws is off by more than 5 · ½ / √4000 = 0.04 with a chance below 1e-6; probabilities are ≤ 1.
    assert (near.logits.exp() - reading.logits.exp()).abs().max() < 0.04 * R
    step = DecoderStep(decoder, features)
    with torch.no_grad():
        first = step.advance(step.start(), torch.tensor([[START]])).log_probabilities
    torch.testing.assert_close(first[0, 0], reading.logits[0].float().log_softmax(-1))


def test_settings_that_leave_no_exact_sum_are_refused():
    with pytest.raises(ConfigError, match="gate: expected one of scalar, none, got 'vector'"):
        make("marginal", gate="vector")
    with pytest.raises(ConfigError, match="expected attention with selection soft and dropout 0"):
        make("marginal", attention={"selection": "hard"})
    with pytest.raises(ConfigError, match="expected attention with selection soft and dropout 0"):
        make("marginal", attention={"dropout": 0.1})
    with pytest.raises(ConfigError, match="decoder marginal: expected output deep, got linear"):
        make("marginal", output="linear")
