"""Show, Attend and Tell as slowly and plainly as one can write it: one caption, one word, one region at a time."""

import torch


def read(decoder, regions, words):
    """Logits (T, V) and weights (T, R) for one image (R, D) and one caption: ids that are read, START first."""
    attention = decoder.attention.score
    mean = sum(regions) / len(regions)
    hidden, cell = decoder.initial_state.hidden(mean), decoder.initial_state.cell(mean)
    all_logits, all_weights = [], []
    for word in words:
        scores = [score(attention, hidden, region) for region in regions]
        weights = torch.stack(scores).exp() / torch.stack(scores).exp().sum()
        context = sum(weight * region for weight, region in zip(weights, regions, strict=True))
        if decoder.context_gate is not None:
            context = torch.sigmoid(decoder.context_gate(hidden)) * context
        vector = decoder.embedding.weight[word]
        hidden, cell = lstm(decoder, vector, context, hidden, cell)
        all_logits.append(say(decoder.output, vector, hidden, context))
        all_weights.append(weights)
    return torch.stack(all_logits), torch.stack(all_weights)


def score(attention, query, key):
    kind = type(attention).__name__
    if kind == "AdditiveScore":
        inner = attention.query_map.weight @ query + attention.key_map.weight @ key + attention.key_map.bias
        activation = torch.tanh if attention.activation == "tanh" else torch.relu
        return attention.vector @ activation(inner)
    if kind == "GeneralScore":
        return query @ (attention.key_map.weight @ key)
    query, key = attention.query_map.weight @ query, attention.key_map.weight @ key
    return query @ key / (len(key) ** 0.5 if kind == "ScaledDotScore" else 1)


def lstm(decoder, vector, context, hidden, cell):
    gates = decoder.word_gates(vector) + decoder.state_gates(hidden) + decoder.context_gates(context)
    width = len(hidden)
    i, f, g, o = (gates[k * width : (k + 1) * width] for k in range(4))
    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


def say(output, vector, hidden, context):
    if type(output).__name__ == "LinearOutput":
        return output.vocabulary(hidden)
    inner = vector + output.from_state(hidden) + output.from_context(context)
    return output.vocabulary(output.activation(inner))
