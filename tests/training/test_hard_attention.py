"""The hard objective on a whole decoder: all 9 ways to look, and the gradient of every parameter."""

import itertools
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from captioning.attention import Attended, Attention
from captioning.attention.drawing import attended_in_shares
from captioning.attention.selection import Selection
from captioning.data.batch import collate
from captioning.decoders.output import DeepOutput
from captioning.decoders.recurrent import ENTROPY, LOG_PROBABILITY
from captioning.decoders.show_attend_tell import ShowAttendTell
from captioning.errors import ConfigError
from captioning.estimators import all_paths
from captioning.estimators.baselines import Learned, LeaveOneOut, MovingAverage, NoBaseline, PerStep, SoftPass
from captioning.features.image_features import ImageFeatures
from captioning.text.vocabulary import END, START
from captioning.training.hard_attention import HardAttention
from captioning.training.objectives import CrossEntropy

R, T, D, V, E, H, A = 3, 2, 5, 7, 11, 13, 17
CAPTION = [START, 5, END]


class Forced(Selection):
    """Hard selection along a path that is handed in instead of drawn."""

    def __init__(self):
        super().__init__()
        self.path = []

    def forward(self, weights, values, **unused):
        index = torch.full(weights.shape[:2], self.path.pop(0))
        return Attended(values.pick(index), weights, index, weights.log().gather(-1, index.unsqueeze(-1)).squeeze(-1))


def make(selection):
    torch.manual_seed(3)
    return ShowAttendTell(
        attention=Attention(query_width=H, key_width=D, width=A, selection=selection),
        embedding=nn.Embedding(V, E),
        output=DeepOutput(vocabulary_size=V, word_width=E, state_width=H, region_width=D, dropout=0.0),
        state_width=H,
        region_width=D,
    ).double()


def example(captions=1, regions=R):
    torch.manual_seed(4)
    features = ImageFeatures(torch.randn(1, regions, D, dtype=torch.float64), 1, regions)
    return features, collate(["one"], features, [[CAPTION] * captions])


def read(decoder, path):
    features, batch = example()
    decoder.attention.selection.path = list(path)
    return decoder(features, batch.inputs, batch.is_word), batch, features


def chance(reading):
    return reading.details[LOG_PROBABILITY].sum().exp()


def gradients(decoder, value):
    found = torch.autograd.grad(value, list(decoder.parameters()), allow_unused=True, retain_graph=True)
    return {
        name: torch.zeros_like(each) if gradient is None else gradient
        for (name, each), gradient in zip(decoder.named_parameters(), found, strict=True)
    }


@pytest.mark.parametrize("returns", ["to_go", "whole"])
@pytest.mark.parametrize("make_baseline", [NoBaseline, MovingAverage, PerStep, partial(Learned, H)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_its_expectation_is_the_gradient_of_the_exact_expected_loss(returns, make_baseline, smoothing):
    decoder = make(Forced()).train()
    words = CrossEntropy(label_smoothing=smoothing, penalty_weight=0.3)
    objective = HardAttention(words, returns=returns, baseline=make_baseline()).double().eval()
    for parameter in objective.baseline.parameters():
        nn.init.normal_(parameter)
    objective.baseline.update(torch.full((1, T), -3.0).double(), torch.ones(1, T, dtype=torch.bool))
    exact = found = 0
    for path in all_paths(R, T).tolist():
        reading = read(decoder, path)
        weight = chance(reading[0])
        # The penalty is a function of the weights, not a reward: it is held apart.
        plain, said = CrossEntropy(label_smoothing=smoothing, penalty_weight=0.0)(*reading), words(*reading)
        exact = exact + weight * plain.total + weight.detach() * (said.total - plain.total)
        found = found + weight.detach() * objective(*reading).total
    expected = gradients(decoder, exact)
    for name, gradient in gradients(decoder, found).items():
        torch.testing.assert_close(gradient, expected[name], msg=lambda text, name=name: f"{name}: {text}")
    assert expected["attention.score.vector"].abs().sum() > 0


def test_the_soft_pass_is_read_without_choices_and_changes_no_expectation():
    decoder = make(Forced()).train()
    objective = HardAttention(CrossEntropy(penalty_weight=0.0), baseline=SoftPass()).double().eval()
    features, batch = example()
    soft = make("soft").train()(features, batch.inputs, batch.is_word)
    exact = found = 0
    for path in all_paths(R, T).tolist():
        decoder.attention.selection.path = list(path)
        loss = objective.training_loss(SimpleNamespace(decoder=decoder), batch, features)
        reading = read(decoder, path)
        plain = CrossEntropy(penalty_weight=0.0)(*reading).total
        returns = objective.returns(-torch.tensor([each_loss(reading[0]), each_loss(soft)]), batch.is_word[0])
        surrogate = -((returns[0] - returns[1]) * reading[0].details[LOG_PROBABILITY]).sum()
        torch.testing.assert_close(loss.total, plain + surrogate, rtol=1e-5, atol=1e-5)
        exact = exact + chance(reading[0]) * plain
        found = found + chance(reading[0]).detach() * loss.total
    expected = gradients(decoder, exact)
    for name, gradient in gradients(decoder, found).items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-5, atol=1e-6)


def each_loss(reading):
    log_probabilities = reading.logits.log_softmax(-1)
    return (-log_probabilities[torch.arange(T), torch.tensor(CAPTION[1:])]).tolist()


def test_a_learned_baseline_comes_to_know_what_its_states_promise():
    decoder = make("hard").train()
    objective = HardAttention(CrossEntropy(penalty_weight=0.0), baseline=Learned(H)).double().train()
    features, batch = example()
    reading = decoder(features, batch.inputs, batch.is_word)
    learner = torch.optim.Adam(objective.parameters(), lr=0.1)
    assert len(objective.state_dict()) == 3  # its running means, w and c: a checkpoint keeps them
    gaps = []
    for _ in range(40):
        objective.zero_grad()
        objective(reading, batch, features).total.backward(retain_graph=True)
        gaps.append(objective.baseline.readout.bias.grad.abs().item())
        learner.step()
    assert gaps[-1] < gaps[0] / 10


def test_the_exact_entropy_bonus_is_the_gradient_of_the_expected_entropy():
    decoder, weight = make(Forced()).train(), 0.5
    objective = HardAttention(
        CrossEntropy(penalty_weight=0.0), entropy_weight=weight, entropy="exact", baseline=NoBaseline()
    )
    exact = found = 0
    for path in all_paths(R, T).tolist():
        reading = read(decoder, path)
        loss = CrossEntropy(penalty_weight=0.0)(*reading).total - weight * reading[0].details[ENTROPY].sum()
        exact = exact + chance(reading[0]) * loss
        found = found + chance(reading[0]).detach() * objective.double().eval()(*reading).total
    expected = gradients(decoder, exact)
    for name, gradient in gradients(decoder, found).items():
        torch.testing.assert_close(gradient, expected[name])


class ForcedShares(Selection):
    """Two regions a word, whose shares are handed in instead of drawn."""

    def __init__(self):
        super().__init__()
        self.path = []

    def forward(self, weights, values, **unused):
        shares = torch.nn.functional.one_hot(torch.tensor(self.path.pop(0)), weights.shape[-1]).double().mean(0)
        return attended_in_shares(shares.expand_as(weights), 2, weights, values, None)


@pytest.mark.parametrize("returns", ["to_go", "whole"])
def test_with_two_glimpses_a_word_its_expectation_is_the_exact_gradient_too(returns):
    """All (R²)^T = 81 ways to draw two regions for each of two words."""
    decoder = make(ForcedShares()).train()
    objective = HardAttention(CrossEntropy(penalty_weight=0.0), returns=returns).double().eval()
    exact = found = total = 0
    for path in itertools.product(itertools.product(range(R), repeat=2), repeat=T):
        reading, batch, features = read(decoder, path)
        weight = chance(reading)
        total = total + weight.detach()
        found = found + weight.detach() * objective(reading, batch, features).total
        exact = exact + weight * CrossEntropy(penalty_weight=0.0)(reading, batch, features).total
    torch.testing.assert_close(total, torch.ones_like(total))
    expected = gradients(decoder, exact)
    for name, gradient in gradients(decoder, found).items():
        torch.testing.assert_close(gradient, expected[name])


def test_leave_one_out_over_all_pairs_of_ways_to_look():
    decoder = make(Forced()).train()
    objective = HardAttention(CrossEntropy(penalty_weight=0.0), baseline=LeaveOneOut(), samples=2).double().eval()
    features, batch = example(captions=2, regions=2)
    exact = found = 0
    selection = decoder.attention.selection
    for one, other in itertools.product(all_paths(2, T).tolist(), repeat=2):
        selection.forward = pair_of(one, other)
        reading = decoder(features, batch.inputs, batch.is_word)
        weight = chance(reading)
        found = found + weight.detach() * objective(reading, batch, features).total
        exact = exact + weight * CrossEntropy(penalty_weight=0.0)(reading, batch, features).total
    expected = gradients(decoder, exact)
    for name, gradient in gradients(decoder, found).items():
        torch.testing.assert_close(gradient, expected[name])


def pair_of(one, other):
    """A selection of two captions of one image, each along its own path."""
    steps = [torch.tensor([pair]) for pair in zip(one, other, strict=True)]

    def forward(weights, values, **unused):
        index = steps.pop(0)
        return Attended(values.pick(index), weights, index, weights.log().gather(-1, index.unsqueeze(-1)).squeeze(-1))

    return forward


def test_the_end_token_is_in_the_reward():
    decoder = make(Forced()).train()
    reading, batch, _ = read(decoder, [0, 1])
    rewards = HardAttention(CrossEntropy())._rewards(reading, batch)
    assert len(rewards) == 2  # one word and END
    expected = reading.logits.log_softmax(-1)[torch.arange(2), torch.tensor(CAPTION[1:])]
    torch.testing.assert_close(rewards, expected)


def test_mixed_coins_are_kept_for_all_words_of_all_captions_of_an_image():
    decoder = make("mixed").train()
    torch.manual_seed(0)
    images = 29
    features = ImageFeatures(torch.randn(images, R, D).double(), 1, R)
    batch = collate([str(i) for i in range(images)], features, [[[START, 5, 6, 5, END]] * 2] * images)
    reading = decoder(features, batch.inputs, batch.is_word)
    sampled = reading.words.unpack(reading.details[LOG_PROBABILITY]) != 0
    by_image = sampled.flatten(1)
    assert (by_image.all(1) | ~by_image.any(1)).all()
    # Of 29 fair coins fewer than 4 or more than 25 of one side: 2 · P(Bin(29, ½) ≤ 3) < 2e-5.
    assert 3 < by_image.any(1).sum() < 26


def test_images_that_were_read_softly_leave_the_baseline_alone():
    decoder = make("mixed").train()
    objective = HardAttention(CrossEntropy()).double().train()
    features, batch = example()
    decoder.attention.selection.probability = 0.0
    objective(decoder(features, batch.inputs, batch.is_word), batch, features)
    assert objective.baseline.value == 0
    decoder.attention.selection.probability = 1.0
    loss = objective(decoder(features, batch.inputs, batch.is_word), batch, features)
    assert objective.baseline.value.item() == pytest.approx(-0.1 * loss.nats, rel=1e-5)


def test_without_sampling_it_is_the_loss_of_the_words_in_validation_and_refused_in_training():
    decoder, (features, batch) = make("soft"), example()
    reading = decoder(features, batch.inputs, batch.is_word)
    objective = HardAttention(CrossEntropy()).eval()
    assert objective(reading, batch, features).total == CrossEntropy()(reading, batch, features).total
    with pytest.raises(ConfigError, match="expected a decoder that samples regions"):
        objective.train()(reading, batch, features)


def test_numbers_of_samples_that_cannot_be_are_refused():
    with pytest.raises(ConfigError, match="expected at least 1, and 2 for leave_one_out, got 1"):
        HardAttention(CrossEntropy(), baseline=LeaveOneOut())
