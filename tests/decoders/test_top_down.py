"""Top-down attention against torch's LSTM cells and plain sums, one image, one caption, one word at a time."""

import itertools

import torch
from torch import nn

from tests.decoders.test_all_decoders import IS_WORD, LENGTHS, B, H, M, example, make


def cell_of(inputs, recurrent, bias):
    """torch's LSTM cell with these matrices."""
    cell = nn.LSTMCell(inputs.shape[1], H).double()
    state = {"weight_ih": inputs, "weight_hh": recurrent, "bias_ih": bias, "bias_hh": torch.zeros_like(bias)}
    cell.load_state_dict(state)
    return cell


def plain(decoder, regions, words):
    """Logits (T, V) and weights (T, R) by the formulas in the module's first lines."""
    own, other = decoder.attention_gates.weight.split(H, 1)  # of h1 and of h2
    looks = cell_of(
        torch.cat([other, decoder.mean_gates.weight, decoder.word_gates.weight], 1), own, decoder.word_gates.bias
    )
    own, other = reversed(decoder.state_gates.weight.split(H, 1))
    speaks = cell_of(torch.cat([decoder.context_gates.weight, other], 1), own, decoder.state_gates.bias)
    mean = regions.mean(0)
    first = second = (torch.zeros(H).double(), torch.zeros(H).double())
    score = decoder.attention.score
    logits, all_weights = [], []
    for word in words:
        vector = decoder.embedding.weight[word]
        first = looks(torch.cat([second[0], mean, vector]), first)
        scores = [score.vector @ torch.tanh(score.query_map(first[0]) + score.key_map(region)) for region in regions]
        weights = torch.stack(scores).softmax(0)
        context = sum(weight * region for weight, region in zip(weights, regions, strict=True))
        second = speaks(torch.cat([context, first[0]]), second)
        logits.append(decoder.output(vector, second[0], context))
        all_weights.append(weights)
    return torch.stack(logits), torch.stack(all_weights)


def test_equals_its_plain_twin_in_values_and_all_gradients():
    decoder, (features, inputs) = make("top_down"), example()
    features.regions.requires_grad_()
    reading = decoder(features, inputs, IS_WORD)
    logits, weights = reading.words.unpack(reading.logits), reading.words.unpack(reading.weights)
    loss, expected_loss = reading.logits.sin().sum() + reading.weights.square().sum(), 0
    for b, m in itertools.product(range(B), range(M)):
        length = LENGTHS[b, m]
        if length == 0:
            continue
        twin_logits, twin_weights = plain(decoder, features.regions[b], inputs[b, m, :length])
        torch.testing.assert_close(logits[b, m, :length], twin_logits)
        torch.testing.assert_close(weights[b, m, :length], twin_weights)
        expected_loss = expected_loss + twin_logits.sin().sum() + twin_weights.square().sum()
    leaves = [features.regions, decoder.embedding.weight, *decoder.attention.parameters(), *decoder.output.parameters()]
    found, expected = torch.autograd.grad(loss, leaves), torch.autograd.grad(expected_loss, leaves)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
