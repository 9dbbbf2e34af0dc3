from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from captioning.data.drawn.painting import CELL, RGB, SIDE, paint
from captioning.data.drawn.scenes import (
    COLORS,
    FEWEST_OTHERS,
    GRID,
    HELD_OUT_PAIRS,
    MOST_OTHERS,
    RELATIONS,
    SHAPES,
    TRAINING_PAIRS,
    Scenes,
    draw_scenes,
    show_held_out,
)
from captioning.data.synthetic import DrawnSet, draw_set, read_word_cells, write_drawn_set
from captioning.data.table import read_table
from captioning.features.preprocessing import Preprocessing
from captioning.text.tokenize import join, tokenize


@pytest.fixture(scope="module")
def scenes() -> Scenes:
    generator = np.random.default_rng(7)
    return show_held_out(draw_scenes(2003, generator), 401, generator)


@pytest.fixture(scope="module")
def drawn() -> DrawnSet:
    return draw_set(train=211, val=11, test=101, seed=3)


def describe(subject: tuple[int, str], landmark: tuple[int, str]) -> str:
    """The caption by the rule as it is told, from (cell, "color shape") of the two marked objects."""
    (row, column), (other_row, other_column) = divmod(subject[0], GRID), divmod(landmark[0], GRID)
    assert (row == other_row) != (column == other_column)
    if row == other_row:
        relation = "left of" if column < other_column else "right of"
    else:
        relation = "above" if row < other_row else "below"
    return f"a {subject[1]} {relation} a {landmark[1]}"


def objects(scenes: Scenes, scene: int) -> dict[int, tuple[str, str]]:
    return {
        int(scenes.cells[scene, thing]): (
            COLORS[scenes.colors[scene, thing]],
            SHAPES[scenes.shapes[scene, thing]],
        )
        for thing in np.flatnonzero(scenes.exists[scene])
    }


def test_the_picture_determines_the_caption(scenes: Scenes) -> None:
    for scene in range(len(scenes)):
        named = objects(scenes, scene)
        assert len(named) == scenes.exists[scene].sum()  # no two objects in one cell
        subject, landmark = ((int(cell), " ".join(named[cell])) for cell in scenes.cells[scene, :2])
        assert scenes.caption(scene) == describe(subject, landmark)


def test_what_is_in_a_picture_does_not_tell_the_relation(scenes: Scenes) -> None:
    for known in (np.ones(len(scenes), dtype=bool), scenes.colors[:, 0] == 2, scenes.exists[:, -1]):
        counts = np.bincount(scenes.relations[known], minlength=len(RELATIONS))
        # Five deviations of a binomial count with probability 1/4.
        assert np.abs(counts - known.sum() / 4).max() < 5 * np.sqrt(known.sum() * 3 / 16)


def test_nor_does_the_place_of_the_subject(scenes: Scenes) -> None:
    """Wherever it is, all four relations are as likely, so that the landmark has to be looked at."""
    subjects = scenes.cells[:, 0]
    assert set(subjects.tolist()) == {
        row * GRID + column for row in range(1, GRID - 1) for column in range(1, GRID - 1)
    }
    for axis in (subjects // GRID, subjects % GRID):
        for place in range(1, GRID - 1):
            counts = np.bincount(scenes.relations[axis == place], minlength=len(RELATIONS))
            assert np.abs(counts - counts.sum() / 4).max() < 5 * np.sqrt(counts.sum() * 3 / 16)


def test_the_landmark_can_be_anywhere_in_the_row_or_column(scenes: Scenes) -> None:
    assert set(scenes.cells[:, 1].tolist()) == set(range(GRID * GRID)) - {0, GRID - 1, GRID * (GRID - 1), GRID**2 - 1}


def test_every_relation_color_shape_and_number_of_other_objects_is_drawn(scenes: Scenes) -> None:
    assert min(len(COLORS), len(SHAPES)) >= 6
    assert Counter(scenes.relations.tolist()).keys() == set(range(len(RELATIONS)))
    assert set(scenes.exists.sum(axis=1)) == set(range(2 + FEWEST_OTHERS, 3 + MOST_OTHERS))
    seen = set(zip(scenes.colors[scenes.exists], scenes.shapes[scenes.exists], strict=True))
    assert seen == {*TRAINING_PAIRS, *HELD_OUT_PAIRS}
    assert len(seen) == len(COLORS) * len(SHAPES)


def test_the_cells_of_words_are_those_of_the_objects_that_they_name(scenes: Scenes) -> None:
    for scene in range(50):
        words = scenes.caption(scene).split()
        cells = scenes.word_cells(scene)
        assert len(words) == len(cells)
        named = objects(scenes, scene)
        for word, cell in zip(words, cells, strict=True):
            assert (cell is None) == (word not in COLORS + SHAPES)
            assert cell is None or word in named[cell]


def test_captions_are_in_the_tokenizers_own_form(scenes: Scenes) -> None:
    assert all(join(tokenize(scenes.caption(scene))) == scenes.caption(scene) for scene in range(100))


def test_held_out_pairs_are_drawn_in_test_pictures_only(drawn: DrawnSet) -> None:
    held_out = {f"{COLORS[color]} {SHAPES[shape]}" for color, shape in HELD_OUT_PAIRS}
    assert {color for color, _ in TRAINING_PAIRS} == set(range(len(COLORS)))
    assert {shape for _, shape in TRAINING_PAIRS} == set(range(len(SHAPES)))
    hits = {
        record.image_id for record in drawn.captions.records if any(pair in record.captions[0] for pair in held_out)
    }
    assert hits == drawn.unseen
    assert len(hits) == 5
    assert {image_id.split("_")[0] for image_id in hits} == {"test"}


def test_training_scenes_hold_no_held_out_pair_even_where_nothing_is_said_of_it() -> None:
    scenes = draw_scenes(1009, np.random.default_rng(8))
    assert set(zip(scenes.colors.flat, scenes.shapes.flat, strict=True)) == set(TRAINING_PAIRS)


def test_each_cell_holds_its_object_and_empty_cells_hold_nothing_bright(scenes: Scenes) -> None:

    pixels = paint(scenes.take(slice(60)), np.random.default_rng(1)).astype(int)
    assert pixels.shape == (60, SIDE, SIDE, 3)
    for scene in range(60):
        named = objects(scenes, scene)
        for cell in range(GRID * GRID):
            row, column = (CELL * place for place in divmod(cell, GRID))
            patch = pixels[scene, row : row + CELL, column : column + CELL]
            if cell not in named:
                assert patch.max() <= 76
                assert patch.std() < 5
                continue
            centre = patch[6:10, 6:10].reshape(-1, 3).mean(axis=0)
            distances = {color: np.abs(centre - value).sum() for color, value in RGB.items()}
            assert min(distances, key=distances.get) == named[cell][0]  # type: ignore[arg-type]
            bright = patch.min(axis=-1)[:2] > 150  # the upper border, where only frames are
            subject, landmark = scenes.cells[scene, :2]
            assert bright[:, 7:9].any() == (cell == subject)
            assert bright[:, :4].any() == (cell in (subject, landmark))


def test_the_seed_draws_the_set_and_no_split_changes_another(drawn: DrawnSet) -> None:
    again = draw_set(train=211, val=11, test=101, seed=3)
    assert np.array_equal(drawn.pixels, again.pixels)
    assert drawn.captions == again.captions
    other_size = draw_set(train=5, val=11, test=101, seed=3)
    assert np.array_equal(drawn.pixels[-112:], other_size.pixels[-112:])  # val and test
    other_seed = draw_set(train=211, val=11, test=101, seed=4)
    assert drawn.captions != other_seed.captions
    assert len(np.unique(drawn.pixels.reshape(len(drawn.pixels), -1), axis=0)) == 323


def test_the_set_has_enough_test_pictures_by_default() -> None:
    assert draw_set.__kwdefaults__["test"] >= 2000


def test_pictures_go_to_the_batch_by_their_id(drawn: DrawnSet) -> None:
    preprocessing = Preprocessing(size=SIDE, mean=(0, 0, 0), deviation=(1, 1, 1), fit="squash")
    records = drawn.captions.records
    pixels = drawn.pictures(preprocessing).read([records[300], records[2]], None)
    assert pixels.shape == (2, 3, SIDE, SIDE)
    np.testing.assert_array_equal((pixels[0] * 255).round().permute(1, 2, 0).numpy(), drawn.pixels[300])


def test_a_written_set_is_read_as_any_table(drawn: DrawnSet, tmp_path: Path) -> None:
    few = draw_set(train=5, val=3, test=2, seed=3)
    table = write_drawn_set(tmp_path / "drawn", few)
    read = read_table(table)
    assert read.references == few.captions.references
    assert [record.split for record in read.records] == [record.split for record in few.captions.records]
    assert read_word_cells(table) == few.word_cells
