"""Every decoder's page: maps that can't matter don't, and each sentence carries a number that stands in the JSON."""

import dataclasses
import json
import re

import numpy as np
import pytest

from captioning.build import build_captioner
from captioning.config import DecoderConfig, EncoderConfig, ModelConfig
from captioning.data.places import drawn_places
from captioning.errors import ConfigError, DataError
from captioning.inspection import choose_images, inspect, prepare
from captioning.inspection.locating import Known
from captioning.inspection.page import write_page
from captioning.inspection.replacement import OWN, REPLACED, UNIFORM
from captioning.inspection.sharpness import EFFECTIVE, HEAD_CELLS
from captioning.inspection.uses import uses
from tests.inspection.subjects import DECODERS, DRAWN, TEST, VOCABULARY, subject

FACTS = {"model": "small", "test-time rule": "expected", "places": "true cells"}
KNOWN = Known(drawn_places(DRAWN, VOCABULARY.tokenize), dict.fromkeys(DRAWN.word_cells, (96, 96)), "true cells")


@pytest.fixture(scope="module")
def inspected():
    return {name: inspect(subject(name), FACTS, known=KNOWN, words=9) for name in DECODERS}


@pytest.mark.parametrize("name", DECODERS)
def test_every_decoder_gets_a_page(inspected, name, tmp_path):
    found = inspected[name]
    page = write_page(found, tmp_path)
    stored = json.loads((tmp_path / "inspection.json").read_text(encoding="utf-8"))
    assert stored["replacement"]["loss"]["own"]["value"] == pytest.approx(found.replacement.loss[OWN].value)
    assert stored["images"] == len(TEST)
    html = page.read_text(encoding="utf-8")
    assert html.count("<figure>") == 3
    assert not re.search(r"""(src|href)=["'](?!data:)|url\(|@import""", html), "the page needs nothing from elsewhere"
    markdown = (tmp_path / "inspection.md").read_text(encoding="utf-8")
    for chart in re.findall(r"\(charts/(\w+\.svg)\)", markdown):
        assert (tmp_path / "charts" / chart).is_file()
    assert ("gate" in found.sharpness.measures) == (name in ("show_attend_tell", "uniform", "argmax"))
    assert ("sentinel" in found.sharpness.measures) == (name == "adaptive")
    assert (HEAD_CELLS in found.sharpness.measures) == (name == "transformer")


def test_uniform_attention_has_maps_that_can_be_replaced_by_any_of_its_own(inspected):
    found = inspected["uniform"]
    for kind in REPLACED:
        assert found.replacement.rise[kind].value == pytest.approx(0, abs=1e-6)
    assert found.sharpness.measures[EFFECTIVE].mean.value == pytest.approx(36)
    assert found.located.mass["map"].value == pytest.approx(1 / 36)
    cannot = " ".join(uses(found)[1])
    for refused in ("Telling what the captions come from", "at hand", "Telling words", "Pointing", "as one place"):
        assert refused in cannot


def test_every_sentence_carries_a_number(inspected):
    for found in inspected.values():
        can, cannot = uses(found)
        assert len(can) + len(cannot) == 9
        assert all(re.search(r"\d", text) for text in (*can, *cannot))


def test_sentences_turn_with_the_numbers(inspected):
    """A rise that is sure and large is a use; a sure but tiny one, or an unsure one, is none."""
    found = inspected["show_attend_tell"]
    average = type(found.replacement.rise[UNIFORM])
    for rise, is_use in (
        (average(0.2, 0.1, 0.3), True),
        (average(0.004, 0.002, 0.006), False),
        (average(0.2, -0.1, 0.5), False),
    ):
        rises = {**found.replacement.rise, UNIFORM: rise}
        changed = dataclasses.replace(found, replacement=dataclasses.replace(found.replacement, rise=rises))
        can, cannot = uses(changed)
        assert any("works with its maps" in text for text in can) == is_use
        assert any("what the captions come from" in text for text in cannot) != is_use
    for beyond, is_use in (
        (average(0.5, 0.2, 0.9), False),
        (average(-0.5, -0.9, -0.2), True),
        (average(0.1, -0.1, 0.3), True),
    ):
        removal = dataclasses.replace(found.removal, beyond_attention={"integrated_gradients": beyond})
        can, _ = uses(dataclasses.replace(found, removal=removal))
        assert any("Standing in for integrated gradients" in text for text in can) == is_use
    without = dataclasses.replace(found, located=None)
    assert "No true places of things were given" in " ".join(uses(without)[1])


def test_the_same_seed_measures_the_same():
    one, again = (inspect(subject("argmax"), FACTS, words=5, attributions=(), seed=4) for _ in range(2))
    assert one.replacement.rise == again.replacement.rise
    assert one.removal.drop == again.removal.drop
    assert set(one.removal.drop) == {"attention", "random"}


def test_a_control_without_maps_and_a_single_image_are_refused():
    settings = ModelConfig(
        EncoderConfig(name="cells", weights="none"),
        decoder=DecoderConfig(name="mean_pool", state_width=12, word_width=8),
    )
    control = build_captioner(settings, VOCABULARY)
    pictures = DRAWN.pictures(control.encoder.preprocessing)
    with pytest.raises(ConfigError, match=r"expected a decoder with attention, got mean_pool.*its map is even"):
        prepare(control, TEST, pictures)
    alone = dataclasses.replace(TEST, records=TEST.records[:1])
    with pytest.raises(DataError, match="expected at least 2 images"):
        prepare(subject("top_down").captioner, alone, pictures)


def test_images_are_drawn_by_the_seed_and_keep_their_order():
    chosen = [choose_images(TEST, 3, seed=seed).records for seed in range(20)]
    assert len({tuple(each.image_id for each in records) for records in chosen}) > 5
    for records in chosen:
        places = [TEST.records.index(each) for each in records]
        assert places == sorted(places)
    assert choose_images(TEST, 99, seed=1) is TEST
    assert np.unique([len(records) for records in chosen]).tolist() == [3]
