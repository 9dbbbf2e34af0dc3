"""Every estimator's expectation by listing all paths, against the gradient of the exact expectation."""

import itertools

import pytest
import torch

from captioning.errors import ConfigError
from captioning.estimators import (
    RETURNS,
    Evidence,
    all_paths,
    entropy_terms,
    exact_expectation,
    leave_one_out,
    score_function,
    step_marginal,
)
from captioning.estimators.baselines import BASELINES, Learned, LeaveOneOut, MovingAverage, PerStep, SoftPass
from tests.estimators.toy import R, T, Toy

EXISTS = torch.ones(9, T, dtype=torch.bool)
every_return = pytest.mark.parametrize("returns", RETURNS)


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def estimate(toy, paths, returns, baseline):
    """−Σ r + the score-function term, for each path."""
    rewards, exists = toy.rewards(paths), EXISTS[: len(paths)]
    found = RETURNS[returns](rewards, exists)
    return -rewards.sum(-1) + score_function(toy.log_probabilities(paths), found, baseline(found), exists)


def states_before(paths):
    """(P, T, R + 1) what is known before each choice: nothing, then which one was made first."""
    states = torch.zeros(len(paths), T, R + 1, dtype=torch.float64)
    states[:, 0, R] = 1
    states[torch.arange(len(paths)), 1, paths[:, 0]] = 1
    return states


def baseline_of(kind, paths):
    """A baseline that has seen something already."""
    torch.manual_seed(2)
    seen, exists = -torch.rand(5, T, dtype=torch.float64), torch.ones(5, T, dtype=torch.bool)
    if kind == "learned":
        baseline = Learned(R + 1).double()
        return lambda found: baseline(found, EXISTS, Evidence(states=states_before(paths)))
    if kind == "soft_pass":
        soft = -torch.rand(T, dtype=torch.float64).expand(len(paths), T)
        return lambda found: SoftPass()(found, EXISTS, Evidence(soft_returns=soft))
    baseline = BASELINES[kind]().double()
    baseline.update(seen, exists)
    assert kind == "none" or baseline(seen, exists).abs().max() > 0
    return lambda found: baseline(found, EXISTS)


@every_return
@pytest.mark.parametrize("kind", sorted(set(BASELINES) - {"leave_one_out"}))
def test_the_expectation_is_the_exact_gradient_with_every_baseline(returns, kind):
    toy = Toy()
    found = toy.weighted(lambda paths: estimate(toy, paths, returns, baseline_of(kind, paths)))
    assert_same(found, toy.exact())


def marginal_estimate(toy, paths, returns, baseline):
    """−Σ m + the score-function term of choices that answer for later words alone, for each path."""
    terms, rewards, answers = step_marginal(*toy.every(paths), EXISTS[: len(paths)])
    found = RETURNS[returns](rewards, answers)
    return -terms.sum(-1) + score_function(toy.log_probabilities(paths), found, baseline(found), answers)


@every_return
@pytest.mark.parametrize("kind", sorted(set(BASELINES) - {"leave_one_out"}))
def test_with_the_present_word_summed_over_all_regions_the_expectation_is_the_exact_gradient_too(returns, kind):
    toy = Toy()
    found = toy.weighted(lambda paths: marginal_estimate(toy, paths, returns, baseline_of(kind, paths)))
    assert_same(found, toy.exact())


def test_of_the_last_word_nothing_is_left_to_chance_and_its_choice_answers_for_nothing():
    """Whatever is drawn, the estimate for the parameters of the last step is its exact gradient, given the first."""
    toy, paths = Toy(), all_paths(R, T)
    terms, rewards, answers = step_marginal(*toy.every(paths), EXISTS)
    assert answers.tolist() == [[True, False]] * 9
    torch.testing.assert_close(rewards[:, 0], terms[:, 1].detach())
    assert (rewards[:, 1] == 0).all()
    for path in paths.unsqueeze(1):
        loss = marginal_estimate(toy, path, "to_go", lambda found: found.new_zeros(()))
        second = (toy.second.softmax(-1) * -toy.gains.exp()).sum(-1)[path[0, 0]]
        parts = [toy.second, toy.gains]
        assert_same(torch.autograd.grad(-loss.sum(), parts), torch.autograd.grad(second, parts))


def test_after_the_last_word_of_a_caption_nothing_is_summed():
    logs, said = torch.zeros(1, 3, 1), torch.tensor([-1.0, -2.0, torch.nan]).view(1, 3, 1)
    found = step_marginal(logs, said, torch.tensor([[True, True, False]]))
    assert found.terms.tolist() == [[-1, -2, 0]]
    assert found.rewards.tolist() == [[-2, 0, 0]]
    assert found.answers.tolist() == [[True, False, False]]


@every_return
@pytest.mark.parametrize("estimate", [estimate, marginal_estimate])
def test_leave_one_out_over_all_81_pairs_is_exact(returns, estimate):
    toy, paths = Toy(), all_paths(R, T)
    chances = toy.log_probabilities(paths).sum(-1).exp().detach()
    total = 0
    for one, other in itertools.product(range(9), repeat=2):
        pair = paths[[one, other]]
        total = total + chances[one] * chances[other] * estimate(toy, pair, returns, leave_one_out).mean()
    assert_same(torch.autograd.grad(-total, toy.parameters), toy.exact())


def test_a_baseline_that_reads_the_choice_is_biased():
    """What the rule forbids does harm: the check above can fail."""
    toy = Toy()
    found = toy.weighted(lambda paths: estimate(toy, paths, "to_go", lambda returns: returns.clone()))
    assert not torch.allclose(found[0], toy.exact()[0])


def test_without_the_score_function_term_the_choices_get_nothing():
    toy = Toy()
    found = toy.weighted(lambda paths: -toy.rewards(paths).sum(-1))
    assert found[0] is None
    assert found[1] is None
    assert_same(found[2:], toy.exact()[2:])


def test_half_the_weight_is_half_of_the_choices_gradient():
    toy = Toy()
    exact = toy.exact()
    found = toy.weighted(
        lambda paths: (
            score_function(
                toy.log_probabilities(paths), RETURNS["to_go"](toy.rewards(paths), EXISTS), torch.zeros(()), EXISTS
            )
            / 2
        )
    )
    assert_same(found[:2], [gradient / 2 for gradient in exact[:2]])


@every_return
def test_the_exact_entropy_bonus_is_part_of_the_reward(returns):
    toy, weight = Toy(), 0.7

    def loss(paths):
        terms = entropy_terms(toy.entropies(paths), EXISTS, weight=weight, kind="exact")
        rewards = toy.rewards(paths)
        found = RETURNS[returns](rewards + terms.rewards, EXISTS)
        surrogate = score_function(toy.log_probabilities(paths), found, torch.zeros(()), EXISTS)
        return -rewards.sum(-1) + terms.loss + surrogate

    assert_same(toy.weighted(loss), toy.exact(lambda paths: toy.rewards(paths) + weight * toy.entropies(paths)))


def test_the_pathwise_entropy_bonus_is_its_own_expectation_and_that_is_not_the_entropys_gradient():
    toy = Toy()
    terms = entropy_terms(toy.entropies(all_paths(R, T)), EXISTS, weight=0.7, kind="pathwise")
    assert terms.rewards is None
    found = toy.weighted(lambda paths: entropy_terms(toy.entropies(paths), EXISTS, weight=0.7, kind="pathwise").loss)
    of_first, of_second = toy.entropies(all_paths(R, T)).T  # in closed form: H[first] + Σ_i π_i H[second | i], π fixed
    fixed = toy.first.softmax(-1).detach()
    own = 0.7 * (of_first[0] + (fixed * of_second[::R]).sum())
    assert_same(found[:2], torch.autograd.grad(own, toy.parameters[:2]))
    whole = toy.exact(lambda paths: 0.7 * toy.entropies(paths))
    assert not torch.allclose(found[0], whole[0])


@pytest.mark.parametrize("chance", [0.0, 0.3, 1.0])
def test_the_coin_between_hard_and_soft_has_the_mixture_as_its_expectation(chance):
    """Heads: the estimate of a sampled path; tails: a soft loss of its own, without any score-function term."""
    toy = Toy()

    def soft():
        first = toy.first.softmax(-1)
        return (first @ toy.gain).square() + ((first @ toy.second.softmax(-1)) * toy.gains.sum(0)).sum()

    hard = toy.weighted(lambda paths: estimate(toy, paths, "to_go", baseline_of("moving_average", paths)))
    both = [
        chance * one + (1 - chance) * other
        for one, other in zip(hard, torch.autograd.grad(-soft(), toy.parameters), strict=True)
    ]
    expected = torch.autograd.grad(
        chance * exact_expectation(toy.log_probabilities(all_paths(R, T)), toy.rewards(all_paths(R, T)))
        - (1 - chance) * soft(),
        toy.parameters,
    )
    assert_same(both, expected)


def test_steps_that_do_not_exist_count_nothing_even_where_they_hold_nan():
    rewards = torch.tensor([[-1.0, -2.0, torch.nan], [-3.0, torch.nan, torch.nan]])
    exists = torch.tensor([[True, True, False], [True, False, False]])
    assert RETURNS["to_go"](rewards, exists)[exists].tolist() == [-3.0, -2.0, -3.0]
    assert RETURNS["whole"](rewards, exists)[exists].tolist() == [-3.0, -3.0, -3.0]
    logs = torch.full((2, 3), -0.5).masked_fill(~exists, torch.nan).requires_grad_()
    score_function(logs, RETURNS["to_go"](rewards, exists), torch.zeros(()), exists).sum().backward()
    assert logs.grad.tolist() == [[3.0, 2.0, 0.0], [3.0, 0.0, 0.0]]


def test_the_moving_average_is_used_before_it_learns_of_the_present_batch():
    baseline, exists = MovingAverage().double(), torch.ones(2, T, dtype=torch.bool)
    batches = [torch.tensor([[-4.0, -1.0], [-6.0, -2.0]]).double(), torch.tensor([[-8.0, -3.0], [-2.0, -1.0]]).double()]
    used = []
    for returns in batches:
        used.append(baseline(returns, exists))
        baseline.update(returns, exists)
    assert used[0] == 0
    torch.testing.assert_close(used[1], torch.tensor(0.1 * -5.0).double())
    torch.testing.assert_close(baseline(batches[0], exists), torch.tensor(0.9 * -0.5 + 0.1 * -5.0).double())


def test_per_step_means_leave_out_steps_that_do_not_exist():
    baseline = PerStep(longest=3).double()
    returns = torch.tensor([[-4.0, -1.0, torch.nan], [-6.0, torch.nan, torch.nan]]).double()
    baseline.update(returns, ~returns.isnan())
    torch.testing.assert_close(baseline.values, torch.tensor([-0.5, -0.1, 0.0]).double())


def test_a_learned_baseline_learns_from_its_own_loss_alone():
    baseline, toy, paths = Learned(R + 1).double(), Toy(), all_paths(R, T)
    returns, evidence = RETURNS["to_go"](toy.rewards(paths), EXISTS), Evidence(states=states_before(paths))
    surrogate = score_function(toy.log_probabilities(paths), returns, baseline(returns, EXISTS, evidence), EXISTS)
    surrogate.sum().backward()
    assert baseline.readout.weight.grad is None
    baseline.loss(returns, EXISTS, evidence).backward()
    assert baseline.readout.weight.grad.abs().sum() > 0


def test_what_a_baseline_needs_is_asked_for():
    returns = torch.zeros(2, T)
    with pytest.raises(ConfigError, match="expected at least 2 samples of each caption, got 1"):
        LeaveOneOut()(returns[:1], EXISTS[:1])
    with pytest.raises(ConfigError, match="expected pathwise or exact, got 'both'"):
        entropy_terms(returns, EXISTS[:2], weight=1.0, kind="both")
