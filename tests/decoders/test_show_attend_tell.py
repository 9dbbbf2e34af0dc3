"""The decoder against its plain twin, against torch's LSTM, against itself step by step, and its invariances."""

import itertools

import pytest
import torch
from torch import nn

from captioning.attention import Attention
from captioning.captioner import DecoderStep
from captioning.decoders.output import DeepOutput, LinearOutput
from captioning.decoders.scheduled_sampling import ScheduledSampling
from captioning.decoders.show_attend_tell import ShowAttendTell
from captioning.decoders.state import lstm_cell
from captioning.errors import ConfigError
from captioning.features.image_features import ImageFeatures
from tests.oracles import plain_show_attend_tell as plain

B, M, R, D, T, V, E, H, A = 3, 2, 6, 5, 7, 11, 13, 17, 19
LENGTHS = torch.tensor([[7, 3], [6, 0], [2, 1]])
IS_WORD = torch.arange(T) < LENGTHS.unsqueeze(-1)


def make(*, score="additive", output="deep", activation="tanh", tied=False, **settings):
    torch.manual_seed(5)
    embedding = nn.Embedding(V, H if output == "linear" and tied else E)
    sizes = {"vocabulary_size": V, "state_width": H, "embedding": embedding if tied else None}
    head = DeepOutput(word_width=E, region_width=D, **sizes) if output == "deep" else LinearOutput(**sizes)
    attention = Attention(query_width=H, key_width=D, width=A, score=score, activation=activation)
    decoder = ShowAttendTell(
        attention=attention, embedding=embedding, output=head, state_width=H, region_width=D, **settings
    )
    return decoder.double().eval()


def example():
    torch.manual_seed(7)
    regions = torch.randn(B, R, D, dtype=torch.float64, requires_grad=True)
    inputs = torch.randint(3, V, (B, M, T))
    return ImageFeatures(regions, 2, 3), inputs


VARIANTS = [
    {"gate": "scalar"},
    {"gate": "vector"},
    {"gate": "none"},
    {"score": "dot"},
    {"score": "scaled_dot"},
    {"score": "general"},
    {"activation": "relu"},
    {"output": "linear"},
    {"initial_state": "linear"},
    {"initial_state": "mlp"},
    {"tied": True},
]


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_equals_its_plain_twin_in_values_and_all_gradients(settings):
    decoder, (features, inputs) = make(**settings), example()
    reading = decoder(features, inputs, IS_WORD)
    weights = reading.words.unpack(reading.weights)
    logits = reading.words.unpack(reading.logits)
    loss, expected_loss = (reading.logits.sin().sum() + reading.weights.square().sum()), 0
    for b, m in itertools.product(range(B), range(M)):
        length = LENGTHS[b, m]
        if length == 0:
            continue
        twin_logits, twin_weights = plain.read(decoder, features.regions[b], inputs[b, m, :length])
        torch.testing.assert_close(logits[b, m, :length], twin_logits)
        torch.testing.assert_close(weights[b, m, :length], twin_weights)
        expected_loss = expected_loss + twin_logits.sin().sum() + twin_weights.square().sum()
    leaves = [features.regions, *decoder.parameters()]
    found = torch.autograd.grad(loss, leaves, allow_unused=True)
    expected = torch.autograd.grad(expected_loss, leaves, allow_unused=True)
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other)


def test_the_cell_is_torchs():
    cell, inputs = nn.LSTMCell(D, H).double(), torch.randn(B, D, dtype=torch.float64)
    state = (torch.randn(B, H, dtype=torch.float64), torch.randn(B, H, dtype=torch.float64))
    gates = inputs @ cell.weight_ih.T + cell.bias_ih + state[0] @ cell.weight_hh.T + cell.bias_hh
    for ours, theirs in zip(lstm_cell(gates, state[1]), cell(inputs, state), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("gate", ["scalar", "vector", "none"])
def test_step_by_step_equals_the_whole_sequence(gate):
    decoder, (features, inputs) = make(gate=gate), example()
    reading = decoder(features, inputs, torch.ones(B, M, T, dtype=torch.bool))
    logits, weights = reading.words.unpack(reading.logits), reading.words.unpack(reading.weights)
    step = DecoderStep(decoder, ImageFeatures(features.regions.detach(), 2, 3))
    state = step.reorder(step.start(), torch.zeros(B, M, dtype=torch.int64))
    for t in range(T):
        state, log_probabilities, looked, _ = step.advance(state, inputs[:, :, t])
        torch.testing.assert_close(log_probabilities, logits[:, :, t].float().log_softmax(-1))
        torch.testing.assert_close(looked, weights[:, :, t])


def test_an_image_alone_equals_its_row_in_a_batch():
    decoder, (features, inputs) = make(), example()
    whole = decoder(features, inputs, IS_WORD)
    whole_logits = whole.words.unpack(whole.logits)
    for b in range(B):
        one = torch.tensor([b])
        alone = decoder(features.rows_of(one), inputs[one], IS_WORD[one])
        steps = LENGTHS[b].max()
        torch.testing.assert_close(alone.words.unpack(alone.logits)[0], whole_logits[b, :, :steps])


def test_permuted_regions_permute_weights_not_words():
    decoder, (features, inputs) = make(), example()
    order = torch.randperm(R)
    straight = decoder(features, inputs, IS_WORD)
    permuted = decoder(ImageFeatures(features.regions[:, order], 2, 3), inputs, IS_WORD)
    torch.testing.assert_close(permuted.logits, straight.logits)
    torch.testing.assert_close(permuted.weights, straight.weights[:, order])


def test_masked_regions_are_as_if_absent_even_where_they_hold_nan():
    decoder, (features, inputs) = make(), example()
    mask = torch.tensor([True, True, True, True, False, False]).expand(B, R)
    regions = features.regions.detach().clone()
    regions[:, 4:] = torch.nan
    regions.requires_grad_()
    masked = decoder(ImageFeatures(regions, 2, 3, mask), inputs, IS_WORD)
    kept = decoder(ImageFeatures(features.regions[:, :4], 2, 2), inputs, IS_WORD)
    torch.testing.assert_close(masked.logits, kept.logits)
    assert (masked.weights[:, 4:] == 0).all()
    masked.logits.sum().backward()
    assert (regions.grad[:, 4:] == 0).all()
    assert all(parameter.grad.isfinite().all() for parameter in decoder.parameters() if parameter.grad is not None)


def test_reordered_and_selected_states_go_on_as_their_own_prefix():
    decoder, (features, inputs) = make(), example()
    step = DecoderStep(decoder, ImageFeatures(features.regions.detach(), 2, 3))
    state = step.reorder(step.start(), torch.zeros(B, M, dtype=torch.int64))
    state = step.advance(state, inputs[:, :, 0]).state
    parents, kept = torch.tensor([[1, 0], [1, 1], [0, 0]]), torch.tensor([2, 0])
    state = step.select(step.reorder(state, parents), kept)
    found = step.advance(state, inputs[kept, :, 1]).log_probabilities
    for place, image in enumerate(kept):
        for k in range(M):
            prefix = torch.stack([inputs[image, parents[image, k], 0], inputs[image, k, 1]])
            logits, _ = plain.read(decoder, features.regions[image], prefix)
            torch.testing.assert_close(found[place, k], logits[1].float().log_softmax(-1))


def test_bfloat16_stays_near_float32_and_gives_float32_gradients():
    decoder, (features, inputs) = make().float(), example()
    features = ImageFeatures(features.regions.detach().float(), 2, 3)
    exact = decoder(features, inputs, IS_WORD)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = decoder(features, inputs, IS_WORD)
    assert rough.logits.dtype == torch.bfloat16
    torch.testing.assert_close(rough.logits.float(), exact.logits, atol=0.05, rtol=0.05)
    rough.logits.float().sum().backward()
    assert all(parameter.grad.dtype == torch.float32 for parameter in decoder.parameters())


def test_scheduled_sampling_reads_its_own_words():
    decoder, (features, inputs) = make(), example()
    every = torch.ones(B, M, T, dtype=torch.bool)
    never = decoder(features, inputs, every, ScheduledSampling(0.0, torch.Generator()))
    torch.testing.assert_close(never.logits, decoder(features, inputs, every).logits)
    always = ScheduledSampling(1.0, torch.Generator().manual_seed(3))
    one, other = decoder(features, inputs, every, always), decoder(features, inputs.flip(1), every, always)
    first = one.words.time == 0
    torch.testing.assert_close(one.logits[first], never.logits[first])
    assert not torch.allclose(one.logits[~first], never.logits[~first])
    assert other.logits.shape == one.logits.shape


def test_a_batch_without_words_gives_no_rows_and_no_gradient():
    decoder, (features, inputs) = make(), example()
    reading = decoder(features, inputs, torch.zeros(B, M, T, dtype=torch.bool))
    assert reading.logits.shape == (0, V)
    assert reading.weights.shape == (0, R)


def test_unknown_switches_are_named():
    with pytest.raises(ConfigError, match="gate: expected one of scalar, vector, none, got 'matrix'"):
        make(gate="matrix")
    with pytest.raises(ConfigError, match=r"initial_state: .* got 'zero'"):
        make(initial_state="zero")
