"""Enumeration, bounds on the likelihood, and the measure of an estimator's quality."""

import itertools

import pytest
import torch

from captioning.errors import ConfigError, ShapeError
from captioning.estimators import (
    Moments,
    Quality,
    all_paths,
    exact_expectation,
    importance_weighted,
    log_marginal,
    measure,
    step_bound,
)
from tests.estimators.toy import R, T, Toy

B = 5


def draw(seed=3):
    generator = torch.Generator().manual_seed(seed)
    logs = torch.randn(B, R, generator=generator, dtype=torch.float64).log_softmax(-1)
    return logs, -torch.rand(B, R, generator=generator, dtype=torch.float64) * 5


def test_all_paths_are_all_paths():
    assert all_paths(R, T).tolist() == [list(path) for path in itertools.product(range(R), repeat=T)]
    assert all_paths(4, 1).tolist() == [[0], [1], [2], [3]]
    with pytest.raises(ConfigError, match=r"at most 1,048,576 paths, got 196\^4"):
        all_paths(196, 4)


def test_the_exact_expectation_of_one_is_one_and_of_rewards_a_double_sum():
    toy, paths = Toy(), all_paths(R, T)
    logs = toy.log_probabilities(paths)
    torch.testing.assert_close(exact_expectation(logs, torch.full((9, T), 0.5).double()).item(), 1.0)
    first, second = toy.first.softmax(-1), toy.second.softmax(-1)
    expected = sum(
        first[i] * second[i, j] * (-toy.gain.exp()[i] - toy.gains.exp()[i, j]) for i in range(R) for j in range(R)
    )
    torch.testing.assert_close(exact_expectation(logs, toy.rewards(paths)), expected)


def test_the_steps_bound_is_the_expected_log_likelihood_and_lies_below_the_marginal():
    weights, likelihoods = draw()
    loop = [sum(w.exp() * p for w, p in zip(*rows, strict=True)) for rows in zip(weights, likelihoods, strict=True)]
    torch.testing.assert_close(step_bound(weights, likelihoods), torch.stack(loop))
    torch.testing.assert_close(log_marginal(weights, likelihoods).exp(), (weights.exp() * likelihoods.exp()).sum(-1))
    assert (step_bound(weights, likelihoods) < log_marginal(weights, likelihoods)).all()
    same = likelihoods[:, :1].expand(B, R)
    torch.testing.assert_close(step_bound(weights, same), log_marginal(weights, same))


def test_a_region_of_no_weight_counts_nothing_though_its_likelihood_is_zero():
    weights = torch.tensor([0.25, 0.75, 0.0]).double().log()
    likelihoods = torch.tensor([-1.0, -2.0, -torch.inf]).double()
    assert step_bound(weights, likelihoods).item() == pytest.approx(-1.75)
    assert log_marginal(weights, likelihoods).isfinite()


@pytest.mark.parametrize("samples", [1, 2, 3])
def test_importance_weighted_bounds_rise_with_the_samples_and_stay_below(samples):
    """In expectation, summed over all R^K draws."""
    weights, likelihoods = draw()

    def expected(count):
        total = 0
        for draws in itertools.product(range(R), repeat=count):
            chosen = torch.tensor(draws)
            total = total + weights[:, chosen].sum(-1).exp() * importance_weighted(likelihoods[:, chosen])
        return total

    assert (expected(samples) < expected(samples + 1)).all()
    assert (expected(samples) < log_marginal(weights, likelihoods)).all()
    if samples == 1:
        torch.testing.assert_close(expected(1), step_bound(weights, likelihoods))


def test_quality_in_a_case_that_one_can_work_by_hand():
    found = measure(torch.tensor([[1.0, 0.0], [3.0, 0.0]]), exact=torch.tensor([1.0, 0.0]))
    assert found.bias == 1.0
    assert found.variance == 2.0
    assert found.bias_error == 1.0
    assert found.signal_to_noise == 2.0
    assert measure(torch.tensor([[1.0], [3.0]])).bias is None
    with pytest.raises(ShapeError, match="N of at least 2"):
        measure(torch.zeros(1, 3))
    with pytest.raises(ShapeError, match="N of at least 2"):
        measure(torch.zeros(3))


def test_moments_of_estimates_that_come_one_by_one_are_those_of_all_at_once_and_of_a_part():
    generator = torch.Generator().manual_seed(5)
    estimates = 100 + torch.randn(13, 7, generator=generator, dtype=torch.float64)
    exact, part = torch.arange(7.0).double() + 1, torch.tensor([True, False, True, False, False, True, False])
    moments = Moments()
    for estimate in estimates:
        moments.add(estimate)
    mean, variance = estimates.mean(0), estimates.var(0)
    for chosen in (slice(None), part):
        found, scale = moments.quality(exact, exact / 2, chosen), exact[chosen].norm()
        assert found.unseen == 0.5
        torch.testing.assert_close(found.bias, ((mean - exact)[chosen].norm() / scale).item())
        torch.testing.assert_close(found.variance, variance[chosen].sum().item())
        torch.testing.assert_close(found.bias_error, ((variance[chosen].sum() / 13).sqrt() / scale).item())
        torch.testing.assert_close(found.signal_to_noise, (mean[chosen].square().sum() / variance[chosen].sum()).item())


def test_a_bias_is_one_where_it_exceeds_three_of_its_errors():
    assert Quality(0.31, 0.1, 1.0, 1.0).biased
    assert not Quality(0.29, 0.1, 1.0, 1.0).biased
    assert Quality(None, 0.1, 1.0, 1.0).biased is None
    assert Quality(1e-7, 0.0, 0.0, float("inf")).biased is False  # rounding of what has no variance
    assert Quality(0.31, 0.1, 1.0, 1.0, unseen=0.1).biased is None  # it may be of what was not drawn
    assert Quality(0.41, 0.1, 1.0, 1.0, unseen=0.1).biased
