"""Averages, sharpness and exchanged maps: closed forms, enumeration, scipy as judge."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from captioning.inspection.averages import average
from captioning.inspection.replacement import FROZEN, MEAN, SHUFFLED, UNIFORM, chooser, donors, first_words
from captioning.inspection.sharpness import (
    CHANGE,
    EFFECTIVE,
    ENTROPY,
    FROM_MEAN,
    FROM_UNIFORM,
    HEAD_CELLS,
    LARGEST,
    describe_maps,
    distance,
    entropy,
    rank_correlation,
)
from captioning.inspection.subject import Words

R, L = 5, 2
LENGTHS = {0: (3, 2), 1: (4,), 2: (2, 1)}
"""Image -> words of its captions, END included."""


def words(lengths=LENGTHS):
    """Row by row in order of time, as a recurrent decoder gives them."""
    captions = [(image, length) for image, all_lengths in lengths.items() for length in all_lengths]
    rows = [
        (image, caption, position, position == length - 1)
        for position in range(max(length for _, length in captions))
        for caption, (image, length) in enumerate(captions)
        if position < length
    ]
    image, caption, position, is_end = map(np.array, zip(*rows, strict=True))
    generator = np.random.default_rng(3)
    looks = torch.from_numpy(generator.dirichlet(np.ones(R), size=(len(rows), L)))
    log_probability = np.log(generator.random(len(rows)))
    return Words(image, caption, position, is_end, log_probability, looks, looks.mean(1).numpy(), {})


def test_an_average_is_over_words_and_its_interval_over_images():
    image = np.array([4, 4, 4, 9, 2])
    found = average(np.array([1.0, 1, 1, 5, 2]), image)
    assert found.value == pytest.approx(2)
    assert (found.low, found.high) == (1, 5), "all words of an image are drawn together, so one image may be all"
    same = average(np.full(5, 3.0), image)
    assert tuple(same) == (3, 3, 3)
    assert same.is_positive
    assert average(np.full(5, -3.0), image).is_negative
    assert np.isnan(average(np.array([]), np.array([])).value)


def test_entropy_and_distance_at_the_ends():
    one, even = np.eye(R)[2], np.full(R, 1 / R)
    assert entropy(one) == 0
    assert entropy(even) == pytest.approx(np.log(R))
    assert distance(np.eye(R)[0], one) == 1
    assert distance(one, even) == pytest.approx(1 - 1 / R)
    assert distance(even, even) == 0


def test_maps_are_described_as_a_plain_loop_does():
    given = words()
    found = describe_maps(given)
    shown = [row for row in range(len(given)) if not given.is_end[row]]
    assert found.words == len(shown)
    mean = sum(given.maps[row] for row in shown) / len(shown)
    np.testing.assert_allclose(found.mean_map, mean)
    entropies, changes = [], []
    for row in shown:
        a = given.maps[row]
        entropies.append(-sum(x * np.log(x) for x in a))
        for before in shown:
            if (given.caption[before], given.position[before]) == (given.caption[row], given.position[row] - 1):
                changes.append(sum(abs(x - y) for x, y in zip(a, given.maps[before], strict=True)) / 2)
    expected = {
        ENTROPY: entropies,
        EFFECTIVE: np.exp(entropies),
        LARGEST: [max(given.maps[row]) for row in shown],
        CHANGE: changes,
        FROM_MEAN: [sum(abs(given.maps[row] - mean)) / 2 for row in shown],
        FROM_UNIFORM: [sum(abs(given.maps[row] - 1 / R)) / 2 for row in shown],
        HEAD_CELLS: [np.mean([np.exp(entropy(look)) for look in given.looks[row].numpy()]) for row in shown],
    }
    assert expected.keys() == found.measures.keys()
    for name, values in expected.items():
        assert found.measures[name].mean.value == pytest.approx(np.mean(values)), name
        assert found.measures[name].quantiles[1] == pytest.approx(np.median(values)), name
    second = [e for row, e in zip(shown, entropies, strict=True) if given.position[row] == 1]
    assert found.measures[ENTROPY].by_position[1] == pytest.approx(np.mean(second))
    assert np.isnan(found.measures[CHANGE].by_position[0])


def test_rank_correlation_is_scipys():
    generator = np.random.default_rng(5)
    values, others = generator.integers(4, size=29), generator.normal(size=29)
    assert rank_correlation(values, others) == pytest.approx(spearmanr(values, others).statistic)
    assert rank_correlation(np.ones(7), np.arange(7)) == 0


def test_a_shuffled_map_is_of_another_image_at_the_same_place_where_there_is_one():
    given = words()
    drawn = np.stack([donors(given, np.random.default_rng(seed)) for seed in range(60)])
    for row in range(len(given)):
        image, position = given.image[row], given.position[row]
        place = max(p for o, p in zip(given.image, given.position, strict=True) if o != image and p <= position)
        possible = {
            other for other in range(len(given)) if given.image[other] != image and given.position[other] == place
        }
        assert set(drawn[:, row]) == possible


def test_other_looks_are_what_they_are_called():
    given, rows = words(), slice(3, 8)
    mean = chooser(MEAN, given, np.random.default_rng(1))(rows)
    torch.testing.assert_close(mean[2], given.looks[~given.is_end].mean(0))
    uniform = chooser(UNIFORM, given, np.random.default_rng(1))(rows)
    torch.testing.assert_close(uniform.double(), torch.full((5, L, R), 1 / R).double())
    frozen = chooser(FROZEN, given, np.random.default_rng(1))(rows)
    for look, row in zip(frozen, range(3, 8), strict=True):
        [first] = np.flatnonzero((given.caption == given.caption[row]) & (given.position == 0))
        torch.testing.assert_close(look, given.looks[first])
    chosen = donors(given, np.random.default_rng(1))
    shuffled = chooser(SHUFFLED, given, np.random.default_rng(1))(rows)
    torch.testing.assert_close(shuffled, given.looks[chosen[rows]])
    cells = chooser(UNIFORM, given, np.random.default_rng(1), one_cell=True)(rows)
    assert (cells.sum(-1) == 1).all()
    assert set(cells.unique().tolist()) == {0, 1}


def test_captions_without_words_at_a_place_do_not_confuse_first_words():
    given = words({0: (1,), 3: (3, 2)})
    assert given.position[first_words(given)].tolist() == [0] * len(given)
    assert (given.caption[first_words(given)] == given.caption).all()
