"""Selections: exact expectations by enumeration, draws with their own generator, straight-through gradients."""

import itertools

import pytest
import torch

from captioning.attention import SELECTIONS, Attention, Gumbel, Mixed, ValuesWithOwn, masks
from captioning.attention.attended import Attended
from captioning.attention.selection import Argmax, Hard, MeanOfSamples, Soft
from captioning.errors import ConfigError, ShapeError
from captioning.tensors.recurrence import SharedTensor

B, N, R, DV = 2, 3, 5, 7
DRAWING = ["gumbel", "hard", "mixed"]


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def seed(number):
    return torch.Generator().manual_seed(number)


def one_hot(index):
    return torch.nn.functional.one_hot(index, R).double()


def test_soft_is_the_expected_value_and_hard_one_value():
    weights, values = draw(B, N, R).softmax(-1), draw(B, R, DV)
    torch.testing.assert_close(Soft()(weights, SharedTensor(values)).context, weights @ values)
    hard = Hard()(weights, SharedTensor(values), generator=seed(1))
    for b in range(B):
        for n in range(N):
            assert hard.context[b, n].equal(values[b, hard.index[b, n]])
            torch.testing.assert_close(hard.log_probability[b, n], weights[b, n, hard.index[b, n]].log())


def test_the_probabilities_of_all_indices_times_their_hard_contexts_are_the_soft_context(monkeypatch):
    weights, values = draw(B, N, R).softmax(-1), draw(B, R, DV)
    shared = SharedTensor(values)
    total = torch.zeros(B, N, DV, dtype=torch.float64)
    for forced in range(R):
        noise = torch.full_like(weights, 1e30)  # the smaller the noise, the surer the choice
        noise[..., forced] = 1e-30
        monkeypatch.setattr(torch.Tensor, "exponential_", lambda tensor, noise=noise, **_: tensor.copy_(noise))
        hard = Hard()(weights, shared)
        assert (hard.index == forced).all()
        total = total + hard.log_probability.exp().unsqueeze(-1) * hard.context
    torch.testing.assert_close(total, Soft()(weights, shared).context)


@pytest.mark.parametrize("name", DRAWING)
def test_draws_follow_the_weights(name):
    """Of n draws the share of a key is within 5 √(w (1 − w) / n) of its weight w, but for once in a million."""
    count = 40_000
    weights = torch.tensor([0.5, 0.3, 0.15, 0.05, 0.0], dtype=torch.float64)
    values = SharedTensor(torch.zeros(1, R, 1, dtype=torch.float64))
    attended = SELECTIONS[name]()(weights.expand(1, count, R), values, generator=seed(3))
    shares = one_hot(attended.index).mean((0, 1))
    assert shares[4] == 0
    assert ((shares - weights).abs() <= 5 * (weights * (1 - weights) / count).sqrt()).all()


@pytest.mark.parametrize("name", DRAWING)
def test_a_generator_decides_every_draw(name):
    weights, values = draw(B, 31, R).softmax(-1), SharedTensor(draw(B, R, DV))
    selection = SELECTIONS[name]()
    first, again, other = (selection(weights, values, generator=seed(number)) for number in (1, 1, 2))
    assert first.index.equal(again.index)
    assert first.context.equal(again.context)
    assert not first.index.equal(other.index)
    torch.manual_seed(5)
    by_default = selection(weights, values)
    torch.manual_seed(5)
    assert selection(weights, values).index.equal(by_default.index)


def test_log_probability_has_the_gradient_of_the_weights_logarithm_and_the_context_none():
    scores, values = draw(B, N, R), draw(B, R, DV)
    hard = Hard()(scores.softmax(-1), SharedTensor(values), generator=seed(1))
    (found,) = torch.autograd.grad(hard.log_probability.sum(), scores, retain_graph=True)
    torch.testing.assert_close(found, one_hot(hard.index) - scores.softmax(-1).detach())
    toward_scores, toward_values = torch.autograd.grad(hard.context.sin().sum(), (scores, values), allow_unused=True)
    assert toward_scores is None
    expected = torch.einsum("bnr,bnd->brd", one_hot(hard.index), hard.context.detach().cos())
    torch.testing.assert_close(toward_values, expected)


def test_log_probability_comes_from_log_softmax_where_weights_underflow():
    attention = Attention(query_width=1, key_width=1, score="dot", selection="hard")
    keys = torch.tensor([[[0.0], [-95.0], [-200.0]]])
    scored = attention.scores(torch.ones(1, 1, 1), attention.remember(keys))
    logs = attention.normalizer.log_weights(*scored)
    torch.testing.assert_close(logs[0, 0], torch.tensor([0.0, -95.0, -200.0]))
    given = Hard()(torch.tensor([[[0.0, 1e-42, 0.0]]]), SharedTensor(keys), log_weights=logs)
    assert given.log_probability.item() == -95.0


class Witness(Hard):
    """Keeps what it was handed."""

    def forward(self, weights, values, **handed):
        self.handed = handed
        return super().forward(weights, values, **handed)


def test_attention_hands_on_exact_logarithms_the_generator_and_the_coins():
    attention = Attention(query_width=1, key_width=1, score="dot", selection=Witness())
    memory = attention.remember(torch.tensor([[[0.0], [-200.0]]]))
    generator, coins = seed(1), torch.tensor([[True]])
    attention(torch.ones(1, 1, 1), memory, generator=generator, coins=coins)
    handed = attention.selection.handed
    assert handed["log_weights"].tolist() == [[[0.0, -200.0]]]
    assert handed["generator"] is generator
    assert handed["coins"] is coins


def test_argmax_takes_the_largest_and_is_for_inference_only():
    weights, values = draw(B, N, R).softmax(-1), draw(B, R, DV)
    argmax = Argmax()
    with pytest.raises(ConfigError, match="selection argmax: expected inference, got training"):
        argmax(weights, SharedTensor(values))
    attended = argmax.eval()(weights, SharedTensor(values))
    assert attended.index.equal(weights.argmax(-1))
    torch.testing.assert_close(attended.context, one_hot(attended.index) @ values)
    assert torch.autograd.grad(attended.context.sum(), weights, allow_unused=True) == (None,)
    assert Argmax()(weights.detach(), SharedTensor(values)).index.equal(attended.index)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_gumbel_is_one_value_forward_and_the_relaxation_backward(temperature):
    scores, values = draw(B, N, R), draw(B, R, DV)
    shared, selection = SharedTensor(values), Gumbel()
    selection.temperature = temperature  # a schedule sets it
    attended = selection(scores.softmax(-1), shared, generator=seed(7))
    noise = torch.empty(B, N, R, dtype=torch.float64).exponential_(generator=seed(7))
    relaxed = ((scores.log_softmax(-1) - noise.log()) / temperature).softmax(-1)
    choice = one_hot(attended.index)
    assert attended.index.equal(relaxed.argmax(-1))
    assert attended.context.equal(choice @ values)
    assert attended.log_probability is None
    toward = torch.randn(B, N, DV, dtype=torch.float64)
    found = torch.autograd.grad(attended.context, (scores, values), toward)
    (expected,) = torch.autograd.grad(relaxed @ values.detach(), scores, toward)
    torch.testing.assert_close(found[0], expected)
    torch.testing.assert_close(found[1], choice.transpose(1, 2) @ toward)


@pytest.mark.parametrize("name", ["sparsemax", "entmax15"])
def test_gumbel_never_chooses_a_weight_of_zero_and_has_finite_gradients_there(name):
    attention = Attention(query_width=DV, key_width=DV, score="dot", normalizer=name, selection="gumbel").double()
    queries, keys = draw(B, 31, DV), draw(B, R, DV)
    attended = attention(queries, attention.remember(keys), generator=seed(1))
    assert (attended.weights == 0).any()
    assert (attended.weights.gather(-1, attended.index.unsqueeze(-1)) > 0).all()
    for gradient in torch.autograd.grad(attended.context.sin().sum(), (queries, keys)):
        assert gradient.isfinite().all()
        assert gradient.any()


def test_mixed_uses_hard_where_the_coin_says_so_and_soft_elsewhere():
    scores, values = draw(B, N, R), draw(B, R, DV)
    weights, shared = scores.softmax(-1), SharedTensor(values)
    coins = torch.tensor([[True, False, True], [False, False, True]])
    mixed = Mixed()(weights, shared, generator=seed(2), coins=coins)
    assert mixed.sampled.equal(coins)
    choice = torch.where(coins.unsqueeze(-1), one_hot(mixed.index), weights)
    torch.testing.assert_close(mixed.context, choice @ values)
    chosen = weights.gather(-1, mixed.index.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(mixed.log_probability, chosen.log() * coins)
    toward = torch.randn(B, N, DV, dtype=torch.float64)
    found = torch.autograd.grad(mixed.context, (scores, values), toward, retain_graph=True)
    expected = torch.autograd.grad(choice @ values, (scores, values), toward, retain_graph=True)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def forcing(keys):
    """Noise that makes these keys the next draws."""
    waiting = iter(keys)
    return lambda noise, **_: noise.fill_(1e30).index_fill_(-1, torch.tensor([next(waiting)]), 1e-30)


@pytest.mark.parametrize("selection", [Hard, Mixed])
def test_all_ways_to_draw_several_have_probability_one_and_the_soft_context_as_mean(selection, monkeypatch):
    """R² ordered pairs of draws, each forced: its probability is the product of the weights, its context their mean."""
    scores, values = draw(1, N, R), draw(1, R, DV)
    weights, shared, coins = scores.softmax(-1), SharedTensor(values), torch.ones(1, N, dtype=torch.bool)
    drawing = selection()
    drawing.glimpses = 2
    mean, total = torch.zeros(1, N, DV, dtype=torch.float64), torch.zeros(1, N, dtype=torch.float64)
    for pair in itertools.product(range(R), repeat=2):
        monkeypatch.setattr(torch.Tensor, "exponential_", forcing(pair))
        found = drawing(weights, shared, coins=coins)
        probability = found.log_probability.exp()
        torch.testing.assert_close(probability, weights[..., pair[0]] * weights[..., pair[1]])
        torch.testing.assert_close(found.context, (values[:, pair[0]] + values[:, pair[1]]).expand(1, N, DV) / 2)
        total, mean = total + probability, mean + probability.unsqueeze(-1) * found.context
    torch.testing.assert_close(total, torch.ones_like(total))
    torch.testing.assert_close(mean, weights @ values)


def test_several_draws_of_mixed_are_used_where_the_coin_says_so_and_have_the_gradients_of_what_is_used():
    scores, values = draw(B, N, R), draw(B, R, DV)
    weights, shared = scores.softmax(-1), SharedTensor(values)
    coins = torch.tensor([[True, False, True], [False, False, True]])
    mixed = Mixed()
    mixed.glimpses = 7
    found = mixed(weights, shared, generator=seed(2), coins=coins)
    twin = MeanOfSamples(7)(weights, SharedTensor(torch.eye(R).double().expand(B, R, R)), generator=seed(2)).context
    choice = torch.where(coins.unsqueeze(-1), twin, weights)
    torch.testing.assert_close(found.context, choice @ values)
    torch.testing.assert_close(found.log_probability, 7 * (twin * weights.log()).sum(-1) * coins)
    toward = torch.randn(B, N, DV, dtype=torch.float64)
    expected = torch.autograd.grad(choice @ values, (scores, values), toward, retain_graph=True)
    for one, other in zip(torch.autograd.grad(found.context, (scores, values), toward), expected, strict=True):
        torch.testing.assert_close(one, other)


def test_no_glimpse_is_refused():
    with pytest.raises(ConfigError, match="hard selection: expected at least 1 glimpse, got 0"):
        Hard(glimpses=0)


@pytest.mark.parametrize("selection", [Hard(glimpses=3), Mixed()])
def test_several_draws_from_a_row_without_keys_are_nothing(selection):
    selection.glimpses = 3
    weights = torch.zeros(1, N, R, dtype=torch.float64, requires_grad=True)
    found = selection(weights, SharedTensor(draw(1, R, DV)), coins=torch.ones(1, N, dtype=torch.bool))
    assert not found.context.any()
    assert not found.log_probability.any()
    (found.context.sum() + found.log_probability.sum()).backward()
    assert weights.grad.isfinite().all()


def test_mixed_tosses_one_coin_for_each_image_and_query():
    """Heads of n coins are within 5 √(p (1 − p) / n) of p."""
    weights = torch.full((2, 20_000, R), 1 / R)
    for probability in (0.0, 0.25, 1.0):
        selection = Mixed(probability)
        coins = selection.toss(weights, seed(4))
        assert coins.shape == (2, 20_000)
        assert abs(coins.double().mean().item() - probability) <= 5 * (probability * (1 - probability) / 40_000) ** 0.5
        mixed = selection(weights, SharedTensor(torch.zeros(2, R, 1)), generator=seed(4))
        assert mixed.sampled.equal(coins)
    with pytest.raises(ConfigError, match=r"mixed selection: expected a probability in \[0, 1\], got 1.5"):
        Mixed(1.5)
    with pytest.raises(ShapeError, match=r"coins: expected boolean \(2, 20000\), got torch.bool \(2,\)"):
        Mixed()(weights, SharedTensor(torch.zeros(2, R, 1)), coins=torch.tensor([True, False]))


def test_entropy_is_that_of_the_weights_with_finite_gradients_at_zero():
    weights = torch.tensor([[[0.25] * 4, [0.5, 0.5, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]], dtype=torch.float64)
    entropy = Attended(weights, weights.requires_grad_()).entropy
    expected = torch.tensor([[4.0, 2.0, 1.0]], dtype=torch.float64).log()
    torch.testing.assert_close(entropy, expected)
    (gradient,) = torch.autograd.grad(entropy.sum(), weights)
    assert gradient.isfinite().all()
    scores = draw(N, R)
    assert torch.autograd.gradcheck(lambda s: Attended(s, s.softmax(-1)).entropy, (scores,))


def test_dropout_is_for_training_and_keeps_the_mean():
    weights, values = torch.full((1, 10_000, R), 1 / R, dtype=torch.float64), SharedTensor(draw(1, R, DV))
    soft = Soft(dropout=0.25)
    attended = soft(weights, values, generator=seed(1))
    kept = (attended.weights > 0).double()
    torch.testing.assert_close(attended.weights, kept / (R * 0.75))
    assert abs(kept.mean().item() - 0.75) <= 5 * (0.25 * 0.75 / kept.numel()) ** 0.5
    torch.testing.assert_close(attended.context, attended.weights @ values.first(1))
    assert soft.eval()(weights, values).weights.equal(weights)
    with pytest.raises(ConfigError, match=r"attention dropout: expected a probability in \[0, 1\), got 1"):
        Soft(dropout=1)


@pytest.mark.parametrize("name", sorted(SELECTIONS))
def test_a_row_without_keys_has_zero_context_and_gradients(name):
    selection = SELECTIONS[name]().train(name != "argmax")
    scores, values = draw(B, N, R), draw(B, R, DV)
    mask = masks.padding_mask(torch.tensor([[3, 0, 1], [5, 2, 4]]), R)
    attention = Attention(query_width=R, key_width=R, score="dot", selection=selection).train(name != "argmax")
    attended = attention(scores, attention.remember(torch.eye(R).double().expand(B, R, R), values, mask, check=False))
    assert (attended.context[0, 1] == 0).all()
    assert (attended.weights[0, 1] == 0).all()
    if attended.log_probability is not None:
        assert attended.log_probability[0, 1] == 0
    assert attended.entropy[0, 1] == 0
    extra = 0 if attended.log_probability is None else attended.log_probability.sum()
    (attended.context.sin().sum() + attended.entropy.sum() + extra).backward()
    assert scores.grad.isfinite().all()
    assert (scores.grad[0, 1] == 0).all()
    assert values.grad.isfinite().all()


@pytest.mark.parametrize("name", sorted(SELECTIONS))
def test_a_value_of_the_query_s_own_is_one_more_value(name):
    """Beside R shared values, as if each query had R + 1 values of its own."""
    selection = SELECTIONS[name]().train(name != "argmax")
    weights, values, own = draw(B, N, R + 1).softmax(-1), draw(B, R, DV), draw(B, N, DV)
    joined = torch.cat([values.unsqueeze(1).expand(-1, N, -1, -1), own.unsqueeze(2)], 2).flatten(0, 1)
    coins = torch.tensor([[True, False, True]] * B)
    beside = selection(weights, ValuesWithOwn(SharedTensor(values), own), generator=seed(6), coins=coins)
    rows = weights.reshape(B * N, 1, R + 1)
    plain = selection(rows, SharedTensor(joined), generator=seed(6), coins=coins.reshape(-1, 1))
    torch.testing.assert_close(beside.context.flatten(0, 1), plain.context.squeeze(1))
    for one, other in zip(
        torch.autograd.grad(beside.context.sin().sum(), (values, own)),
        torch.autograd.grad(plain.context.sin().sum(), (values, own)),
        strict=True,
    ):
        torch.testing.assert_close(one, other)
