"""Every estimator's expectation and variance by listing all ways to look, and what `compare` samples against them."""

import itertools

import pytest
import torch
from torch.nn import functional as F

from captioning.attention import Gumbel
from captioning.attention.selection import Soft
from captioning.decoders.glimpses import read_glimpses
from captioning.decoders.rule import selecting
from captioning.errors import ConfigError
from captioning.estimation.candidates import (
    EXPECTED,
    SCORE_FUNCTION,
    STEP_MARGINAL,
    STRAIGHT_THROUGH,
    Candidate,
    all_candidates,
)
from captioning.estimation.comparison import compare
from captioning.estimation.problem import SCORE_NETWORK, WHOLE_DECODER, Problem, exact_gradient
from captioning.estimation.toy import toy_problem
from captioning.estimators import all_paths
from captioning.estimators.variance import SURE
from captioning.features.image_features import ImageFeatures

R, T = 3, 2
DRAWN = [each for each in all_candidates((SCORE_FUNCTION, STEP_MARGINAL)) if each.baseline != "leave_one_out"]


@pytest.fixture(scope="module")
def problem():
    """Three regions of the toy's second image, whose caption has two words: 9 ways to look."""
    toy = toy_problem()
    return Problem(toy.decoder, ImageFeatures(toy.features.regions[1:, :R], 1, R), toy.words[1:, :, : T + 1])


@pytest.fixture(scope="module")
def exact(problem):
    return exact_gradient(problem).gradient


def chances(problem, paths):
    """π of each of the paths (P, T)."""
    words = [each.expand(-1, len(paths), -1) for each in (problem.inputs, problem.targets)]
    with torch.no_grad():
        read = read_glimpses(problem.decoder, problem.features, *words, paths=paths.unsqueeze(0))
    return read.log_probabilities[0].sum(-1).exp()


def estimates_of_all_paths(problem, estimator, samples=1):
    """Estimates (N, P) along all paths, or pairs of them, and their probabilities (N,)."""
    estimator.prepare(7)
    paths = all_paths(R, T)
    of_path = chances(problem, paths)
    state = {name: each.clone() for name, each in estimator.baseline.state_dict().items()}
    estimates, weights = [], []
    for chosen in itertools.product(range(len(paths)), repeat=samples):
        estimator.baseline.load_state_dict(state)  # a baseline must not learn from a path before its probability counts
        estimates.append(problem.gradient(estimator.loss(paths[list(chosen)].unsqueeze(0))))
        weights.append(of_path[list(chosen)].prod())
    return torch.stack(estimates), torch.stack(weights)


@pytest.mark.parametrize("candidate", DRAWN, ids=str)
def test_drawn_estimators_are_unbiased_with_every_return_and_baseline(problem, exact, candidate):
    torch.manual_seed(1)
    estimates, weights = estimates_of_all_paths(problem, candidate.make(problem))
    torch.testing.assert_close(weights.sum().item(), 1.0)
    torch.testing.assert_close(weights @ estimates, exact)


@pytest.mark.parametrize("name", [SCORE_FUNCTION, STEP_MARGINAL])
def test_leave_one_out_is_unbiased_over_all_pairs(problem, name):
    """Of the first word alone for the one; of both for the other, whose choice for the last answers for nothing."""
    short = problem.first_words(1) if name == SCORE_FUNCTION else problem
    paths = all_paths(R, 1 if name == SCORE_FUNCTION else T)
    kept = paths if name == SCORE_FUNCTION else paths[paths[:, 1] == 0]
    of_path = chances(short, paths).view(R, -1).sum(1) if name == STEP_MARGINAL else chances(short, paths)
    estimator = Candidate(name, "to_go", "leave_one_out").make(short, samples=2)
    total = 0
    for pair in itertools.product(range(R), repeat=2):
        estimate = short.gradient(estimator.loss(kept[list(pair)].unsqueeze(0)))
        total = total + of_path[list(pair)].prod() * estimate
    torch.testing.assert_close(total, exact_gradient(short).gradient)


def test_the_exact_gradient_is_that_of_the_expected_loss_by_differences(problem, exact):
    """A second way: the listed expectation as a number, moved a little along a direction."""
    torch.manual_seed(3)
    paths, step = all_paths(R, T), 1e-5
    words = [each.expand(-1, len(paths), -1) for each in (problem.inputs, problem.targets)]
    direction = torch.randn_like(exact)
    parameters = list(problem.decoder.parameters())
    pieces = direction.split([each.numel() for each in parameters])

    def loss(distance):
        with torch.no_grad():
            for each, piece in zip(parameters, pieces, strict=True):
                each.add_(distance * piece.view_as(each))
            read = read_glimpses(problem.decoder, problem.features, *words, paths=paths.unsqueeze(0))
            value = -(read.log_probabilities[0].sum(-1).exp() * read.log_likelihoods[0].sum(-1)).sum()
            for each, piece in zip(parameters, pieces, strict=True):
                each.sub_(distance * piece.view_as(each))
        return value

    slope = (loss(step) - loss(-step)) / (2 * step)
    torch.testing.assert_close(slope, exact @ direction, rtol=1e-5, atol=1e-7)


def test_captions_of_other_lengths_count_by_themselves():
    """The mean over both captions of the toy; all 125 ways to look at the longer one are listed, too."""
    toy = toy_problem()
    each = [
        Problem(toy.decoder, toy.features.rows_of(torch.tensor([image])), toy.words[image : image + 1])
        for image in range(2)
    ]
    both, first, second = (exact_gradient(one).gradient for one in (toy, *each))
    torch.testing.assert_close(both, (first + second) / 2)


def test_what_hangs_on_rare_ways_to_look_is_their_part_of_the_sum(problem, exact):
    """All are rarer than one in one draw, none than one in a million; between them, those below a third."""
    torch.testing.assert_close(exact_gradient(problem, draws=1).rare, exact)
    assert (exact_gradient(problem, draws=10**9).rare == 0).all()
    estimator = Candidate(SCORE_FUNCTION, "whole", "moving_average").make(problem)
    paths = all_paths(R, T)
    estimates, weights = [], chances(problem, paths)
    returns = torch.stack([estimator.draw(path.view(1, 1, T)).said.sum() for path in paths]).detach()
    for path in paths:
        estimator.baseline.value.fill_(weights @ returns)
        estimates.append(problem.gradient(estimator.loss(path.view(1, 1, T))))
    seldom = weights < 1 / 3
    assert 0 < seldom.sum() < R**T
    found = exact_gradient(problem, draws=3).rare
    torch.testing.assert_close(found, weights[seldom] @ torch.stack(estimates)[seldom])


@pytest.mark.parametrize("name", [SCORE_FUNCTION, STEP_MARGINAL])
def test_what_compare_samples_is_what_listing_gives(problem, exact, name):
    """Variance and mean of N draws, within five standard deviations that all moments over the paths give."""
    candidate, draws = Candidate(name, "to_go", "none"), 200
    estimates, weights = estimates_of_all_paths(problem, candidate.make(problem))
    squared = (estimates - exact).square().sum(1)
    variance = weights @ squared
    deviation = ((weights @ squared.square() - variance**2) / draws).sqrt()
    comparison = compare(problem, [candidate], draws=draws)
    found = comparison.rows[0].qualities[WHOLE_DECODER]
    assert comparison.paths == R**T
    assert abs(found.variance - variance) < 5 * deviation + variance / draws
    assert not found.biased
    assert found.bias < 5 * (variance / draws).sqrt() / exact.norm()


def test_biased_estimators_are_told_so(problem):
    rows = compare(problem, all_candidates((STRAIGHT_THROUGH, EXPECTED)), draws=60).rows
    for row in rows:
        quality = row.qualities[SCORE_NETWORK]
        assert quality.biased
        assert quality.bias > SURE * quality.bias_error
    assert rows[1].qualities[WHOLE_DECODER].variance < 1e-20


def test_two_draws_are_likely_to_miss_something_but_nothing_of_what_is_not_drawn(problem):
    rows = compare(problem, all_candidates((STRAIGHT_THROUGH, EXPECTED)), draws=2).rows
    assert [row.qualities[SCORE_NETWORK].unseen > 0 for row in rows] == [True, False]


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_straight_through_is_its_own_law_at_fixed_noise(problem, temperature):
    estimator = Candidate(STRAIGHT_THROUGH).make(problem, temperature=temperature)
    torch.manual_seed(7)
    found = problem.gradient(estimator.loss())
    torch.manual_seed(7)
    torch.testing.assert_close(found, by_the_decoder(problem, Gumbel(temperature)))


def test_the_expected_context_is_soft_attention(problem):
    found = problem.gradient(Candidate(EXPECTED).make(problem).loss())
    torch.testing.assert_close(found, by_the_decoder(problem, Soft()))


def by_the_decoder(problem, selection):
    """The gradient of the cross-entropy of the decoder's own reading."""
    decoder = problem.decoder.train()
    with selecting(decoder.attention, selection):
        reading = decoder(problem.features, problem.inputs, problem.is_word)
    loss = F.cross_entropy(reading.logits, reading.words.pack(problem.targets), reduction="sum")
    return problem.gradient(loss / problem.captions)


def test_parts_of_the_gradient_are_the_attentions_and_all(problem):
    names = [name for name, each in problem.decoder.named_parameters() for _ in range(each.numel())]
    own = torch.tensor([name.startswith("attention.") for name in names])
    assert torch.equal(problem.parts[SCORE_NETWORK], own)
    assert problem.parts[WHOLE_DECODER].all()


def test_names_and_numbers_that_cannot_be_are_refused(problem):
    with pytest.raises(ConfigError, match=r"estimator: expected one of .*, got 'reinforce'"):
        all_candidates(["reinforce"])
    with pytest.raises(ConfigError, match="samples: expected at least 2 for leave_one_out, got 1"):
        Candidate(SCORE_FUNCTION, "to_go", "leave_one_out").make(problem, samples=1)
