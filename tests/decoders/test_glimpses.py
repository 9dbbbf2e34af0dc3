"""Reading glimpse by glimpse, against the decoders' own reading and against single paths."""

import pytest
import torch

from captioning.attention.given import Given, Shares
from captioning.attention.selection import Hard, MeanOfSamples, Soft
from captioning.decoders.glimpses import choices, read_every_glimpse, read_glimpses
from captioning.decoders.recurrent import LOG_PROBABILITY
from captioning.decoders.rule import selecting
from captioning.errors import ConfigError, ShapeError
from captioning.features.image_features import ImageFeatures
from tests.decoders.test_all_decoders import make

B, M, T, R, D, V = 2, 3, 4, 6, 5, 11
NAMES = ["show_attend_tell", "top_down", "adaptive", "marginal"]
each_decoder = pytest.mark.parametrize("name", NAMES)


def example(seed=3):
    torch.manual_seed(seed)
    features = ImageFeatures(torch.randn(B, R, D, dtype=torch.float64), 2, 3)
    return features, torch.randint(3, V, (B, M, T)), torch.randint(3, V, (B, M, T))


@each_decoder
def test_along_one_region_it_is_the_decoders_own_reading(name):
    decoder, (features, inputs, targets) = make(name), example()
    paths = torch.full((B, M, T), 4)
    found = read_glimpses(decoder, features, inputs, targets, paths=paths)
    given = Given()
    given.index = paths[..., 0]
    for part in decoder.modules():
        part.training = not isinstance(part, torch.nn.Dropout)
    with selecting(decoder.attention, given):
        reading = decoder(features, inputs, torch.ones_like(inputs, dtype=torch.bool))
    logs = reading.words.unpack(reading.details[LOG_PROBABILITY])
    said = reading.words.unpack(reading.logits.log_softmax(-1)).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(found.log_probabilities, logs)
    torch.testing.assert_close(found.log_likelihoods, said)


@each_decoder
def test_every_way_to_go_on_is_the_path_with_that_choice_in_its_place(name):
    decoder, (features, inputs, targets) = make(name), example()
    count = choices(decoder, features)
    assert count == R + (name == "adaptive")
    paths = torch.randint(count, (B, M, T))
    every = read_every_glimpse(decoder, features, inputs, targets, paths=paths)
    along = read_glimpses(decoder, features, inputs, targets, paths=paths)
    torch.testing.assert_close(every.log_probabilities, along.log_probabilities)
    torch.testing.assert_close(every.states, along.states)
    torch.testing.assert_close(every.log_weights.exp().sum(-1), torch.ones(B, M, T).double())
    for t, choice in ((0, 2), (T - 1, count - 1)):
        changed = paths.clone()
        changed[..., t] = choice
        other = read_glimpses(decoder, features, inputs, targets, paths=changed)
        torch.testing.assert_close(every.log_likelihoods[:, :, t, choice], other.log_likelihoods[:, :, t])
        torch.testing.assert_close(every.log_weights[:, :, t, choice], other.log_probabilities[:, :, t])


@pytest.mark.parametrize("name", ["show_attend_tell", "top_down"])
def test_a_state_holds_the_choices_before_it_alone(name):
    decoder, (features, inputs, targets) = make(name), example()
    paths = torch.zeros(B, M, T, dtype=torch.int64)
    changed = paths.clone()
    changed[..., 1] = 5
    one, other = (read_glimpses(decoder, features, inputs, targets, paths=each) for each in (paths, changed))
    torch.testing.assert_close(one.states[:, :, :2], other.states[:, :, :2])
    assert not torch.allclose(one.states[:, :, 2], other.states[:, :, 2])


@each_decoder
def test_drawn_paths_are_paths_and_nothing_stays_changed(name):
    """Each drawn step has the log-probability and likelihood of one of the listed ways."""
    decoder, (features, inputs, targets) = make(name, dropout=0.5).train(), example()
    decoder.output.eval()
    modes, selection = [part.training for part in decoder.modules()], decoder.attention.selection
    drawn = read_every_glimpse(decoder, features, inputs, targets)
    again = read_glimpses(decoder, features, inputs, targets, paths=drawn.chosen)
    torch.testing.assert_close(drawn.log_probabilities, again.log_probabilities)
    first = read_glimpses(decoder, features, inputs, targets, selection=Hard())
    ways = drawn.log_weights[:, :, :1].squeeze(2)
    assert (ways - first.log_probabilities[:, :, :1]).abs().amin(-1).max() < 1e-12
    soft = read_glimpses(decoder, features, inputs, targets, selection=Soft())
    assert soft.log_probabilities is None
    assert [part.training for part in decoder.modules()] == modes
    assert decoder.attention.selection is selection


def test_a_choice_of_no_weight_has_no_probability():
    weights, given = torch.tensor([[[0.25, 0.0, 0.75]]]), Given()
    given.index = torch.tensor([[1]])
    attended = given(weights, Shares(3, weights.dtype))
    assert attended.log_probability.item() == -torch.inf
    given.index = torch.tensor([[1, 1]])
    with pytest.raises(ShapeError, match=r"expected an index \(1, 1\), got \(1, 2\)"):
        given(weights, Shares(3, weights.dtype))


def test_shares_say_how_a_selection_would_mix():
    weights = torch.tensor([[[0.25, 0.0, 0.75]]])
    values = Shares(3, weights.dtype)
    assert Soft()(weights, values).context.tolist() == weights.tolist()
    assert Hard()(weights, values).context.sort().values.tolist() == [[[0, 0, 1]]]
    mixed = MeanOfSamples(4)(weights, values).context
    assert mixed.sum() == 1
    assert ((4 * mixed) % 1 == 0).all()


@pytest.mark.parametrize("name", ["mean_pool", "transformer"])
def test_decoders_that_cannot_look_at_one_region_are_refused(name):
    features, _, _ = example()
    with pytest.raises(ConfigError, match="expected a decoder that can look at one region"):
        choices(make(name), features)
