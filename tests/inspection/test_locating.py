"""True places on the model's grid: areas by counting points, geometry by hand, maps that are known to hit."""

import dataclasses

import numpy as np
import pytest

from captioning.data.places import drawn_places
from captioning.data.transforms import place
from captioning.errors import DataError
from captioning.features.geometry import Box, Placement
from captioning.features.preprocessing import Preprocessing
from captioning.inspection.locating import MAP, MEAN, UNIFORM, Known, cover, locate, measure
from captioning.inspection.subject import read_words
from tests.inspection.subjects import DRAWN, TEST, VOCABULARY, subject

ROWS, COLUMNS = 3, 5
SIZES = dict.fromkeys(DRAWN.word_cells, (96, 96))


def counted(boxes, placement, *, points=40):
    """(rows · columns) the share of each cell's points that lie in a box."""
    found = []
    for row in range(ROWS):
        for column in range(COLUMNS):
            left, top, right, bottom = placement.cell(row, column, rows=ROWS, columns=COLUMNS)
            steps = (np.arange(points) + 0.5) / points
            x, y = np.meshgrid(left + steps * (right - left), top + steps * (bottom - top))
            inside = [(x > b.left) & (x < b.right) & (y > b.top) & (y < b.bottom) for b in boxes]
            found.append(np.any(inside, axis=0).mean())
    return np.array(found)


@pytest.mark.parametrize(
    "boxes",
    [
        [Box(10, 20, 60, 70)],
        [Box(10, 20, 60, 70), Box(40, 50, 90, 110)],
        [Box(-30, -30, 500, 500)],
        [Box(0, 0, 20, 30), Box(5, 5, 15, 15)],
        [Box(300, 300, 400, 400)],
    ],
)
def test_coverage_is_the_union_of_the_boxes(boxes):
    placement = Placement(120, 130, Box(-10.0, 7.0, 110.0, 127.0))
    found = cover(boxes, placement, rows=ROWS, columns=COLUMNS)
    np.testing.assert_allclose(found.inside, counted(boxes, placement), atol=0.06)
    centres = [
        placement.cell(row, column, rows=ROWS, columns=COLUMNS) for row in range(ROWS) for column in range(COLUMNS)
    ]
    for inside, cell in zip(found.centres, centres, strict=True):
        x, y = (cell.left + cell.right) / 2, (cell.top + cell.bottom) / 2
        assert inside == any(b.left <= x <= b.right and b.top <= y <= b.bottom for b in boxes)


def test_a_box_of_whole_cells_covers_exactly_these():
    placement = Placement(50, 30, Box(0.0, 0.0, 50.0, 30.0))
    found = cover([Box(10, 10, 30, 20)], placement, rows=ROWS, columns=COLUMNS)
    expected = np.zeros((ROWS, COLUMNS))
    expected[1, 1:3] = 1
    np.testing.assert_allclose(found.inside, expected.ravel(), atol=1e-12)
    assert found.centres.tolist() == (expected.ravel() > 0).tolist()


@pytest.mark.parametrize(
    ("fit", "expected"),
    [
        ("squash", [[0, 0, 0, 1]]),  # 200 wide: four columns of 50, the box is the last
        ("crop", [[0, 0, 0, 0]]),  # the centre square ends at 150, where the box begins
        ("pad", [[0, 0, 0, 1]]),  # the whole width again, with bars above and below
    ],
)
def test_a_box_follows_the_fit_of_the_picture(fit, expected):
    placement = place(200, 100, Preprocessing(size=64, fit=fit))
    found = cover([Box(150, 0, 200, 100)], placement, rows=1, columns=4)
    assert found.centres.reshape(1, 4).tolist() == np.array(expected, dtype=bool).tolist()
    part = 0.5 if fit == "pad" else 1
    np.testing.assert_allclose(found.inside, part * np.ravel(expected), atol=1e-9)


def test_hits_and_mass_are_those_of_the_definition():
    maps = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]])
    inside = np.array([[1.0, 0.5, 0], [0, 0, 1.0]])
    mean = np.array([0.1, 0.2, 0.7])
    found = measure(maps, inside, inside >= 0.5, mean, np.array([3, 8]))
    assert found.hit[MAP].value == pytest.approx((1 + 0) / 2)
    assert found.hit[UNIFORM].value == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert found.hit[MEAN].value == pytest.approx((0 + 1) / 2)
    assert found.mass[MAP].value == pytest.approx((0.75 + 0.3) / 2)
    assert found.mass[UNIFORM].value == pytest.approx((0.5 + 1 / 3) / 2)
    assert found.mass[MEAN].value == pytest.approx((0.2 + 0.7) / 2)
    assert (found.words, found.images) == (2, 2)
    assert found.mass_beyond_mean.value == pytest.approx(found.mass[MAP].value - found.mass[MEAN].value)


def test_drawn_words_are_found_at_their_cells():
    """Against the maps and true cells themselves, without any box."""
    one = subject("show_attend_tell")
    known = Known(drawn_places(DRAWN, VOCABULARY.tokenize), SIZES, "true cells")
    read = read_words(one)
    found = locate(one, known, read.maps.mean(0))
    hits, masses = [], []
    for image, position, weights in zip(read.image, read.position, read.maps, strict=True):
        cells = DRAWN.word_cells[TEST.records[image].image_id]
        if position < len(cells) and cells[position] is not None:
            hits.append(weights.argmax() == cells[position])
            masses.append(weights[cells[position]])
    assert found.words == len(hits) == 4 * len(TEST)
    assert found.hit[MAP].value == pytest.approx(np.mean(hits))
    assert found.mass[MAP].value == pytest.approx(np.mean(masses))
    assert found.hit[UNIFORM].value == found.mass[UNIFORM].value == pytest.approx(1 / 36)


def test_boxes_of_a_larger_picture_are_scaled_to_the_one_at_hand():
    one = subject("show_attend_tell")
    places = drawn_places(DRAWN, VOCABULARY.tokenize)
    larger = {
        name: [
            dataclasses.replace(
                caption,
                size=(96 * 3, 96 * 7),
                boxes=tuple(
                    tuple(Box(b.left * 3, b.top * 7, b.right * 3, b.bottom * 7) for b in boxes)
                    for boxes in caption.boxes
                ),
            )
            for caption in captions
        ]
        for name, captions in places.items()
    }
    mean = np.full(36, 1 / 36)
    same, scaled = (locate(one, Known(each, SIZES, ""), mean) for each in (places, larger))
    assert scaled.words == same.words
    for name in (MAP, UNIFORM):
        assert scaled.mass[name].value == pytest.approx(same.mass[name].value)
        assert scaled.hit[name].value == pytest.approx(same.hit[name].value)


def test_images_without_places_are_left_out_and_none_at_all_is_an_error():
    one = subject("show_attend_tell")
    places = drawn_places(DRAWN, VOCABULARY.tokenize)
    some = {record.image_id: places[record.image_id] for record in TEST.records[4:6]}
    found = locate(one, Known(some, SIZES, ""), np.full(36, 1 / 36))
    assert (found.images, found.words) == (2, 8)
    with pytest.raises(DataError, match="expected places for some of the images"):
        locate(one, Known({}, SIZES, ""), np.full(36, 1 / 36))
