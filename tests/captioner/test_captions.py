"""What a captioner hands out: every search by its settings, n best, seeds, and captions that rescoring gives again."""

import numpy as np
import pytest
import torch

from captioning.captioner import Caption, Captioner
from captioning.decoding.search import Search
from captioning.errors import ConfigError, DataError
from tests.captioner.models import DECODERS, captioner, pictures

SETTINGS = {
    "greedy": {"method": "greedy", "minimum_length": 2},
    "beam": {"beam_size": 4, "no_repeat_ngram": 2, "minimum_length": 2},
    "diverse": {"method": "diverse", "beam_size": 4, "groups": 2, "banned_words": "grass", "minimum_length": 2},
    "sampling": {"method": "sampling", "samples": 4, "top_k": 7, "beginning": "a dog"},
    "must include": {"beam_size": 2, "must_include": "red ball"},
}
PICTURES = pictures(5)
every_setting = pytest.mark.parametrize("name", SETTINGS)


@pytest.fixture(scope="module", params=DECODERS)
def model(request) -> Captioner:
    return captioner(request.param)


def same(one: Caption, other: Caption) -> bool:
    return one.words == other.words and np.allclose(one.maps, other.maps, atol=1e-4)


@every_setting
def test_scoring_a_searched_caption_gives_its_own_numbers_maps_and_details(model, name):
    found = [captions[-1] for captions in model.n_best(PICTURES, seed=2, **SETTINGS[name])]
    scored = model.score(PICTURES, [caption.text for caption in found])
    for searched, read in zip(found, scored, strict=True):
        number = len(searched.log_probabilities)
        assert searched.log_probabilities == pytest.approx(read.log_probabilities[:number], abs=1e-3)
        np.testing.assert_allclose(searched.maps, read.maps, atol=1e-4)
        assert searched.details.keys() == read.details.keys()
        for detail, values in searched.details.items():
            np.testing.assert_allclose(values, read.details[detail], atol=1e-4)
        mean = sum(searched.log_probabilities) / number
        assert searched.score == pytest.approx(mean, abs=1e-4)


@every_setting
def test_n_best_is_best_first_and_its_first_is_the_caption(model, name):
    every = model.n_best(PICTURES[:2], seed=2, **SETTINGS[name])
    best = model.caption(PICTURES[:2], seed=2, **SETTINGS[name])
    two = model.n_best(PICTURES[:2], 2, seed=2, **SETTINGS[name])
    for captions, first, pair in zip(every, best, two, strict=True):
        order = [(each.finished, each.score) for each in captions]
        assert order == sorted(order, reverse=True)
        assert same(captions[0], first)
        assert [each.words for each in pair] == [each.words for each in captions[:2]]
        assert len(captions) == {"greedy": 1, "must include": 2}.get(name, 4)


@pytest.mark.parametrize("name", ["beam", "sampling"])
def test_batches_change_nothing(model, name):
    together = model.n_best(PICTURES, seed=3, **SETTINGS[name])
    for size in (1, 2):
        apart = model.n_best(PICTURES, seed=3, batch_size=size, **SETTINGS[name])
        for one, other in zip(together, apart, strict=True):
            assert [each.words for each in one] == [each.words for each in other]
            assert [each.score for each in one] == pytest.approx([each.score for each in other], abs=1e-3)


def test_wishes_are_kept_in_words():
    model = captioner()
    for caption in model.caption(PICTURES, must_include="Red ball", banned_words="dog zebra"):
        assert {"red", "ball"} <= set(caption.words)
        assert "dog" not in caption.words
    for caption in model.caption(PICTURES, beginning="The dog", no_dangling_end=True, minimum_length=4):
        assert caption.words[:2] == ("the", "dog")
        assert not caption.finished or caption.words[-1] not in ("a", "the", "of")
        assert not caption.finished or len(caption.words) >= 4
    with pytest.raises(ConfigError, match=r"must_include: .* got 'bal', which it does not have; near it are ball"):
        model.caption(PICTURES, must_include="bal")
    with pytest.raises(ConfigError, match="beginning: expected words that may be said, got 'dog'"):
        model.caption(PICTURES, beginning="dog", banned_words="dog")
    with pytest.raises(ConfigError, match="did you mean top_k"):
        model.caption(PICTURES, topk=3)
    with pytest.raises(ConfigError, match="n: expected at least 1 caption an image, got 0"):
        model.n_best(PICTURES, 0)


def test_the_unknown_word_is_said_where_that_is_asked_for():
    model = captioner()
    with torch.no_grad():
        model.decoder.output.vocabulary.bias[3] += 1000
    assert "<unk>" not in model.caption(PICTURES[:1])[0].words
    assert set(model.caption(PICTURES[:1], unknown_word=True)[0].words) == {"<unk>"}


def test_a_seed_repeats_what_is_drawn_and_leaves_torchs_generator_alone():
    model = captioner()
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    settings = {"method": "sampling", "samples": 3, "test_time_rule": "sample"}
    one, again = (model.n_best(PICTURES, seed=4, **settings) for _ in range(2))
    assert torch.equal(torch.rand(1), expected)
    other = model.n_best(PICTURES, seed=6, **settings)
    words = [[[each.words for each in captions] for captions in found] for found in (one, again, other)]
    assert words[0] == words[1] != words[2]
    cells = [[each.details["cell"].tolist() for captions in found for each in captions] for found in (one, again)]
    assert cells[0] == cells[1]


@pytest.mark.parametrize("name", ["show_attend_tell", "top_down", "adaptive"])
def test_every_search_keeps_the_cells_that_were_shown(name):
    """By `argmax` the cell is the largest weight's, so each word's cell tells whether it is its own."""
    model = captioner(name)
    for settings in SETTINGS.values():
        for captions in model.n_best(PICTURES[:2], seed=1, test_time_rule="argmax", **settings):
            for caption in captions:
                maps = caption.maps.reshape(len(caption.words), -1)
                if name == "adaptive":
                    maps = np.concatenate([maps, caption.details["sentinel"][:, None]], 1)
                assert caption.details["cell"].tolist() == maps.argmax(1).tolist()


def test_samples_of_one_image_see_cells_of_their_own_from_the_first_word_on():
    [captions] = captioner().n_best(PICTURES[:1], seed=1, method="sampling", samples=40, test_time_rule="sample")
    assert len({each.details["cell"][0] for each in captions if each.words}) > 1


def test_images_are_encoded_once_however_many_samples_are_drawn():
    model, seen = captioner(), []
    model.encoder.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    remember = model.decoder.attention.remember
    model.decoder.attention.remember = lambda keys, **more: (seen.append(len(keys)), remember(keys, **more))[1]
    model.n_best(PICTURES[:3], method="sampling", samples=20)
    assert seen == [3, 3]


def test_a_search_as_a_whole_and_changed():
    model = captioner()
    search = Search(beam_size=2, maximum_length=4)
    [caption] = model.caption(PICTURES[:1], search=search, minimum_length=3)
    assert len(caption.words) in (3, 4)
    with pytest.raises(DataError, match="expected one for each of 2 images, got 1"):
        model.score(PICTURES[:2], ["a dog"])
