"""Cells removed and put back, and attributions: linear scores by hand, ends that must agree, completeness."""

import numpy as np
import pytest
import torch

from captioning.errors import ConfigError, DataError
from captioning.inspection.attribution import (
    INPUT_X_GRADIENT,
    INTEGRATED_GRADIENTS,
    attribute,
    check_attributions,
    parameters_at_rest,
)
from captioning.inspection.removal import ATTENTION, RANDOM, measure_curves, ranked, remove_cells, steps, summarize
from captioning.inspection.said import SaidWords, WordProbability, say
from captioning.inspection.subject import read_words
from tests.inspection.subjects import DECODERS, VOCABULARY, subject

W, N, R, D = 5, 3, 7, 2
every_decoder = pytest.mark.parametrize("name", DECODERS)


def linear_words():
    """Words whose score is Σ_r weight_r · (sum of region r), so that a cell's part is known."""
    generator = torch.Generator().manual_seed(2)
    regions, baseline = torch.randn(N, R, D, generator=generator), torch.randn(R, D, generator=generator)
    nothing = torch.zeros(W, dtype=torch.int64)
    return SaidWords(
        image=np.array([0, 0, 1, 2, 2]),
        regions=regions,
        baseline=baseline,
        read=nothing.unsqueeze(1),
        position=nothing,
        target=nothing,
        maps=np.full((W, R), 1 / R),
        words=("word",) * W,
    )


def linear_score(weights):
    return lambda regions, rows: (regions.sum(-1) * weights[rows]).sum(-1)


def test_curves_of_a_linear_score_are_sums_of_its_parts():
    said = linear_words()
    weights = torch.randn(W, R, generator=torch.Generator().manual_seed(4))
    places = ranked(np.random.default_rng(1).random((W, R)), seed=0)
    curves = measure_curves(linear_score(weights), said, places)
    assert curves.cells == steps(R)
    parts = (weights * (said.regions_of(slice(0, W)) - said.baseline).sum(-1)).numpy()
    rest = (weights * said.baseline.sum(-1)).sum(-1).numpy()
    for step, count in enumerate(curves.cells):
        gone = np.where(places < count, parts, 0).sum(1)
        np.testing.assert_allclose(curves.deletion[:, step], rest + parts.sum(1) - gone, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(curves.insertion[:, step], rest + gone, rtol=1e-4, atol=1e-5)


def test_the_order_of_true_parts_is_the_best_one():
    """Of a linear score no order removes more with as many cells."""
    said, weights = linear_words(), torch.randn(W, R, generator=torch.Generator().manual_seed(4))
    parts = (weights * (said.regions_of(slice(0, W)) - said.baseline).sum(-1)).numpy()
    best = measure_curves(linear_score(weights), said, ranked(parts, seed=0))
    for seed in range(5):
        other = measure_curves(linear_score(weights), said, ranked(np.random.default_rng(seed).random((W, R)), seed=0))
        assert (best.deletion <= other.deletion + 1e-4).all()
        assert (best.insertion >= other.insertion - 1e-4).all()


def test_ranks_fall_with_the_values_and_ties_are_drawn():
    places = ranked(np.array([[0.1, 0.5, 0.4], [0.2, 0.2, 0.6]]), seed=0)
    assert places[0].tolist() == [2, 0, 1]
    assert places[1, 2] == 0
    first = {ranked(np.zeros((1, 3)), seed=seed).argmin() for seed in range(40)}
    assert first == {0, 1, 2}


def test_steps_go_from_none_to_all():
    assert steps(36) == (0, 1, 2, 4, 7, 13, 18, 27, 36)
    assert steps(1) == (0, 1)


def test_a_summary_takes_differences_word_by_word():
    said, weights = linear_words(), torch.ones(W, R)
    values = {ATTENTION: np.arange(W * R).reshape(W, R) % 5, RANDOM: np.random.default_rng(3).random((W, R))}
    curves = {name: measure_curves(linear_score(weights), said, ranked(each, 0)) for name, each in values.items()}
    found = summarize(curves, said.image, said.words)
    at = found.cells.index(found.top)
    drops = {name: each.deletion[:, 0] - each.deletion[:, at] for name, each in curves.items()}
    assert found.drop[ATTENTION].value == pytest.approx(drops[ATTENTION].mean())
    assert found.beyond_random[ATTENTION].value == pytest.approx((drops[ATTENTION] - drops[RANDOM]).mean())
    assert found.beyond_attention == {}
    assert set(found.area) == {ATTENTION, RANDOM}
    flat = summarize({ATTENTION: curves[ATTENTION], RANDOM: curves[ATTENTION]}, said.image, said.words)
    assert flat.beyond_random[ATTENTION].value == 0
    [(word, told)] = found.by_word.items()
    assert (word, told.times) == ("word", W)
    assert told.drop == pytest.approx(found.drop[ATTENTION].value)
    few = summarize(curves, said.image, [*said.words[1:], "rare"])
    assert few.by_word == {}, "each was said less than five times"


@every_decoder
def test_the_ends_of_all_curves_are_the_image_and_its_absence(name):
    one = subject(name)
    said = say(one, 11, seed=1)
    assert len(said) == 11
    probability = WordProbability(one.captioner, *one.grid)
    with one.reading():
        about = said.read, said.position, said.target
        whole = probability(said.regions_of(slice(0, 11)), *about).numpy()
        nothing = probability(said.baseline.expand(11, *said.baseline.shape), *about).numpy()
        curves = measure_curves(
            lambda regions, rows: probability(regions, *(each[rows] for each in about)),
            said,
            ranked(said.maps, seed=1),
        )
    for curve, start, end in ((curves.deletion, whole, nothing), (curves.insertion, nothing, whole)):
        np.testing.assert_allclose(curve[:, 0], start, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(curve[:, -1], end, rtol=1e-3, atol=1e-4)


def test_a_said_words_probability_is_the_searchs():
    one = subject("show_attend_tell")
    found = [each for batch in one.batches for each in one.captioner.search(batch.features, one.search)]
    said = say(one, 10**6, seed=1)
    with one.reading():
        every = WordProbability(one.captioner, *one.grid)(
            said.regions_of(slice(0, len(said))), said.read, said.position, said.target
        )
    for image, place, value, word in zip(said.image, said.position, every, said.words, strict=True):
        best = found[image][0]
        assert best.log_probabilities[place] == pytest.approx(float(value), abs=1e-3)
        assert one.captioner.vocabulary.words[best.words[place]] == word


def test_both_methods_are_exact_for_a_linear_score():
    said, weights = linear_words(), torch.randn(W, R, generator=torch.Generator().manual_seed(4))
    regions = said.regions_of(slice(0, W))
    parts = weights * (regions - said.baseline).sum(-1)
    for method in (INPUT_X_GRADIENT, INTEGRATED_GRADIENTS):
        found = attribute(method, lambda x, w: (x.sum(-1) * w).sum(-1), regions, said.baseline, weights)
        torch.testing.assert_close(found, parts, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["show_attend_tell", "top_down", "adaptive", "transformer"])
def test_integrated_gradients_are_complete(name):
    """All cells together give f(x) − f(b), up to the quadrature."""
    one = subject(name)
    with torch.no_grad():  # of a smoother function, for which 16 points are enough
        one.captioner.decoder.output.vocabulary.weight.div_(15)
    said = say(one, 5, seed=1)
    about = said.read, said.position, said.target
    probability = WordProbability(one.captioner, *one.grid)
    with one.at_test_time(), parameters_at_rest(one.captioner):
        regions = said.regions_of(slice(0, 5))
        found = attribute(INTEGRATED_GRADIENTS, probability, regions, said.baseline, *about)
        with torch.no_grad():
            difference = probability(regions, *about) - probability(said.baseline.expand_as(regions), *about)
    torch.testing.assert_close(found.sum(-1), difference, rtol=0.02, atol=2e-3)
    assert all(parameter.requires_grad for parameter in one.captioner.decoder.parameters())


def test_only_known_methods_and_models_that_speak(monkeypatch):
    with pytest.raises(ConfigError, match=r"attributions: expected some of input_x_gradient, .* got 'saliency'"):
        check_attributions(["saliency"])
    monkeypatch.setattr("captioning.inspection.attribution.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'captioning\[inspection\]', or give --attributions"):
        check_attributions([INPUT_X_GRADIENT])
    check_attributions([])
    one = subject("show_attend_tell")
    silent = one.search.changed(minimum_length=0, banned_words=" ".join(VOCABULARY.words))
    with pytest.raises(DataError, match="says no word of any image"):
        remove_cells(type(one)(one.captioner, silent, one.batches), words=3, attributions=(), seed=1)


def test_own_words_have_own_maps():
    one = subject("top_down")
    said = say(one, 10**6, seed=1)
    assert said.maps.shape == (len(said), 36)
    np.testing.assert_allclose(said.maps.sum(1), 1, rtol=1e-5)
    assert len(read_words(one)) == sum(len(batch.is_word.nonzero()) for batch in one.batches)
