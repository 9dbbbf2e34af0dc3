"""Adaptive attention against its formulas, one image, one caption, one word at a time."""

import itertools

import pytest
import torch

from captioning.decoders.state import lstm_cell
from tests.decoders.test_all_decoders import IS_WORD, LENGTHS, B, H, M, example, make


def score_of(decoder, query, key):
    """With a key that is in the attention space already."""
    score = decoder.attention.score
    query = score.query_map.weight @ query
    if type(score).__name__ == "AdditiveScore":
        return score.vector @ torch.tanh(query + key)
    return query @ key / len(key) ** 0.5


def plain(decoder, regions, words):
    """Logits (T, V), weights (T, R) and the sentinel's (T,)."""
    score = decoder.attention.score
    mean = regions.mean(0)
    hidden, cell = decoder.initial_state.hidden(mean), decoder.initial_state.cell(mean)
    values = [torch.relu(decoder.region_map(region)) for region in regions]
    logits, all_weights = [], []
    for word in words:
        vector = decoder.embedding.weight[word]
        gates = decoder.word_gates(vector) + decoder.mean_gates(mean) + decoder.state_gates(hidden)
        hidden, cell = lstm_cell(gates[: 4 * H], cell)
        sentinel = torch.sigmoid(gates[4 * H :]) * torch.tanh(cell)
        scores = [score_of(decoder, hidden, score.key_map(value)) for value in values]
        scores.append(score_of(decoder, hidden, decoder.sentinel_key(sentinel)))
        weights = torch.stack(scores).softmax(0)
        context = sum(weight * value for weight, value in zip(weights, [*values, sentinel], strict=True))
        logits.append(decoder.output(vector, hidden + context, context))
        all_weights.append(weights)
    weights = torch.stack(all_weights)
    return torch.stack(logits), weights[:, :-1], weights[:, -1]


@pytest.mark.parametrize("score", ["additive", "scaled_dot"])
def test_equals_its_plain_twin_in_values_and_all_gradients(score):
    decoder, (features, inputs) = make("adaptive", attention={"score": score}), example()
    features.regions.requires_grad_()
    reading = decoder(features, inputs, IS_WORD)
    logits, weights = reading.words.unpack(reading.logits), reading.words.unpack(reading.weights)
    sentinels = reading.words.unpack(reading.details["sentinel"])
    loss, expected_loss = reading.logits.sin().sum() + reading.details["sentinel"].square().sum(), 0
    for b, m in itertools.product(range(B), range(M)):
        length = LENGTHS[b, m]
        if length == 0:
            continue
        twin_logits, twin_weights, twin_sentinels = plain(decoder, features.regions[b], inputs[b, m, :length])
        torch.testing.assert_close(logits[b, m, :length], twin_logits)
        torch.testing.assert_close(weights[b, m, :length], twin_weights)
        torch.testing.assert_close(sentinels[b, m, :length], twin_sentinels)
        expected_loss = expected_loss + twin_logits.sin().sum() + twin_sentinels.square().sum()
    leaves = [features.regions, *decoder.parameters()]
    found, expected = torch.autograd.grad(loss, leaves), torch.autograd.grad(expected_loss, leaves)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_the_state_never_sees_what_was_attended():
    """Two images of one mean differ only in what is attended, so the sentinel, made of the state alone, is one."""
    decoder, (features, inputs) = make("adaptive"), example()
    spread = features.regions - features.regions.mean(1, keepdim=True)
    states = []
    for factor in (1.0, 3.0):
        regions = features.regions.mean(1, keepdim=True) + factor * spread
        memory = decoder.remember(type(features)(regions, features.rows, features.columns))
        state = memory.initial
        for t in range(3):
            state = decoder.step(
                memory, state, decoder.word_gates(decoder.embed(inputs[:, :1, t], regions.dtype))
            ).state
        states.append(state.cell)
    torch.testing.assert_close(*states)
