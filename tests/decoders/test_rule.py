"""What is shown at test time: stored, overridden, and never what training did by accident."""

import itertools

import pytest
import torch

from captioning.attention.selection import Gumbel, MeanOfSamples, Soft
from captioning.decoders.recurrent import CELL, ENTROPY, LOG_PROBABILITY
from captioning.decoders.rule import SELECTION_OF_RULE, looking_by
from captioning.decoding.search import RULES
from captioning.errors import ConfigError
from captioning.tensors.recurrence import SharedTensor
from tests.decoders.test_all_decoders import IS_WORD, example, make

recurrent = pytest.mark.parametrize("name", ["show_attend_tell", "top_down", "adaptive"])


def test_every_rule_of_a_search_is_known():
    assert set(RULES) == set(SELECTION_OF_RULE)


@recurrent
def test_expected_is_soft_whatever_was_trained(name):
    soft, gumbel = make(name), make(name, attention={"selection": "gumbel"})
    gumbel.load_state_dict(soft.state_dict())
    features, inputs = example()
    with looking_by(gumbel, "expected", 1):
        found = gumbel(features, inputs, IS_WORD)
    torch.testing.assert_close(found.logits, soft(features, inputs, IS_WORD).logits)
    assert isinstance(gumbel.attention.selection, Gumbel)


@recurrent
def test_argmax_shows_the_cell_of_the_largest_weight_and_reports_it(name):
    decoder, (features, inputs) = make(name), example()
    with looking_by(decoder, "argmax", 1):
        one, two = decoder(features, inputs, IS_WORD), decoder(features, inputs, IS_WORD)
    torch.testing.assert_close(one.logits, two.logits)
    assert not torch.allclose(one.logits, decoder(features, inputs, IS_WORD).logits)
    everything = one.weights
    if name == "adaptive":
        everything = torch.cat([one.weights, one.details["sentinel"].unsqueeze(-1)], -1)
    assert torch.equal(one.details[CELL], everything.argmax(-1))
    assert LOG_PROBABILITY not in one.details


@recurrent
def test_samples_differ_with_the_seed_and_repeat_with_it(name):
    decoder, (features, inputs) = make(name), example()
    drawn = []
    with looking_by(decoder, "sample", 1):
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            drawn.append(decoder(features, inputs, IS_WORD).details[CELL])
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


@recurrent
def test_training_with_hard_selection_reports_what_an_estimator_needs(name):
    decoder, (features, inputs) = make(name, attention={"selection": "hard"}, dropout=0.0).train(), example()
    reading = decoder(features, inputs, IS_WORD)
    assert {CELL, LOG_PROBABILITY, ENTROPY} <= set(reading.details)
    gradients = torch.autograd.grad(reading.details[LOG_PROBABILITY].sum(), list(decoder.attention.score.parameters()))
    assert all(gradient.abs().sum() > 0 for gradient in gradients)


def test_the_mean_of_k_samples_has_the_soft_context_as_its_expectation():
    """Over all R^K draws, each put in by its own noise."""
    weights, values = (
        torch.tensor([[[0.2, 0.5, 0.3]]]).double(),
        torch.tensor([[[1.0, 2.0], [3.0, 5.0], [7.0, 11.0]]]).double(),
    )
    total = 0
    for draws in itertools.product(range(3), repeat=2):
        chance = torch.stack([weights[0, 0, cell] for cell in draws]).prod()
        total = total + chance * values[0, list(draws)].mean(0)
    torch.testing.assert_close(total, Soft()(weights, SharedTensor(values)).context[0, 0])
    generator = torch.Generator().manual_seed(4)
    context = MeanOfSamples(2)(weights, SharedTensor(values), generator=generator).context[0, 0]
    possible = [values[0, list(draws)].mean(0) for draws in itertools.product(range(3), repeat=2)]
    assert any(torch.allclose(context, each) for each in possible)


def test_many_samples_come_near_the_mean():
    weights, values = torch.tensor([[[0.2, 0.8]]]).double(), torch.tensor([[[0.0], [1.0]]]).double()
    samples = 10_000
    mean = MeanOfSamples(samples)(weights, SharedTensor(values), generator=torch.Generator().manual_seed(4)).context
    # Hoeffding: a mean of n values in [0, 1] is off by more than sqrt(ln(2 / p) / 2n) with probability p = 1e-9.
    assert abs(mean.item() - 0.8) < (torch.tensor(2e9).log() / (2 * samples)).sqrt()


def test_where_nothing_is_selected_only_expected_works():
    for name in ("mean_pool", "transformer"):
        decoder = make(name)
        with looking_by(decoder, "expected", 1):
            pass
        with pytest.raises(ConfigError, match="got 'sample': nothing is selected"), looking_by(decoder, "sample", 1):
            pass
    with pytest.raises(ConfigError, match="expected one of expected, argmax"), looking_by(decoder, "mode", 1):
        pass
