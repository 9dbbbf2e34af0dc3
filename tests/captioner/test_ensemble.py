"""Ensembles of captioners: rescored, each member's own maps, a mean where the grids agree, refused by name."""

import numpy as np
import pytest

from captioning.captioner import Ensemble
from captioning.errors import ConfigError
from captioning.text.vocabulary import SPECIAL_WORDS, Vocabulary
from tests.captioner.models import captioner, pictures
from tests.captioner.test_captions import SETTINGS

PICTURES = pictures(3)


@pytest.fixture(scope="module")
def unlike() -> Ensemble:
    """Other decoders, encoders and grids."""
    return Ensemble(
        [
            captioner("show_attend_tell"),
            captioner("transformer", seed=2, encoder="mobilenet_v3_small"),
            captioner("adaptive", seed=3, encoder="squeezenet1_1"),
        ]
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_scoring_a_searched_caption_gives_its_own_numbers_and_every_members_maps(unlike, name):
    found = [captions[-1] for captions in unlike.n_best(PICTURES, seed=2, **SETTINGS[name])]
    scored = unlike.score(PICTURES, [caption.text for caption in found])
    alone = [member.score(PICTURES, [caption.text for caption in found]) for member in unlike.members]
    for image, (searched, read) in enumerate(zip(found, scored, strict=True)):
        number = len(searched.log_probabilities)
        by_hand = np.log(np.mean([np.exp(of_member[image].log_probabilities) for of_member in alone], axis=0))
        assert read.log_probabilities == pytest.approx(by_hand.tolist(), abs=1e-5)
        assert searched.log_probabilities == pytest.approx(by_hand[:number].tolist(), abs=1e-3)
        for member, own in zip(searched.members, (each[image] for each in alone), strict=True):
            np.testing.assert_allclose(member.maps, own.maps, atol=1e-4)
            assert member.details.keys() == own.details.keys()
            for detail, values in member.details.items():
                np.testing.assert_allclose(values, own.details[detail], atol=1e-4)


def test_the_map_is_the_mean_where_all_grids_agree_and_else_the_first_members(unlike):
    alike = Ensemble([captioner("show_attend_tell"), captioner("adaptive", seed=3)])
    for caption in alike.caption(PICTURES):
        one, other = (member.maps for member in caption.members)
        np.testing.assert_allclose(caption.maps, (one + other) / 2, atol=1e-6)
        assert not np.allclose(one, other)
    other_fit = captioner("adaptive", seed=3)
    object.__setattr__(other_fit.encoder.preprocessing, "fit", "squash")
    for caption in Ensemble([captioner("show_attend_tell"), other_fit]).caption(PICTURES):
        np.testing.assert_array_equal(caption.maps, caption.members[0].maps)
        assert caption.placement == caption.members[0].placement != caption.members[1].placement
    for caption in unlike.caption(PICTURES):
        np.testing.assert_array_equal(caption.maps, caption.members[0].maps)
        assert len({member.maps.shape[1:] for member in caption.members}) > 1


def test_a_captioner_twice_says_what_it_says_alone():
    model = captioner()
    for one, other in zip(Ensemble([model, model]).caption(PICTURES), model.caption(PICTURES), strict=True):
        assert one.words == other.words
        assert one.score == pytest.approx(other.score, abs=1e-5)
        np.testing.assert_allclose(one.maps, other.maps, atol=1e-5)


def test_members_that_do_not_fit_are_refused_by_name():
    other = captioner(vocabulary=Vocabulary([*SPECIAL_WORDS, "a", "the", "cat", "dog"]))
    with pytest.raises(ConfigError, match=r'runs/b has another than runs/a: 13 words .*against 8 .*"of" against "cat"'):
        Ensemble([captioner(), other], names=["runs/a", "runs/b"])
    with pytest.raises(ConfigError, match="at least two captioners"):
        Ensemble([captioner()])
    with pytest.raises(ConfigError, match="got 'sample': nothing is selected"):
        Ensemble([captioner(), captioner("transformer")]).caption(PICTURES, test_time_rule="sample")
