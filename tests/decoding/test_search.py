"""The settings of a search: what they refuse, what a change leaves, what a result tells of them."""

import pytest

from captioning.decoding.search import READ_BY, Search
from captioning.errors import ConfigError


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"method": "beem"}, "method: expected one of greedy, beam, diverse, sampling, got 'beem'"),
        (
            {"temperature": 0.7},
            "temperature: expected 1.0 with method beam, got 0.7: only sampling reads it; add",
        ),
        ({"method": "greedy", "top_p": 0.9}, "top_p: expected None with method greedy, got 0.9"),
        ({"method": "sampling", "groups": 5}, "groups: expected None with method sampling"),
        ({"method": "sampling", "must_include": "dog"}, "must_include: .* got 'dog': a drawn word can't be steered"),
        ({"method": "diverse", "groups": 2}, "groups: expected a number that divides beam_size 5, got 2"),
        ({"method": "diverse", "groups": 0}, "groups: expected a number that divides beam_size 5, got 0"),
    ],
)
def test_settings_that_cannot_be_are_refused_with_the_reason(settings, told):
    with pytest.raises(ConfigError, match=told):
        Search(**settings)


def test_another_method_leaves_the_settings_of_the_old_one_behind():
    drawn = Search(method="sampling", samples=7, top_p=0.9, no_repeat_ngram=2)
    assert drawn.changed(method="beam", beam_size=3) == Search(beam_size=3, no_repeat_ngram=2)
    assert drawn.changed(method=None, top_k=None) == drawn
    assert Search(must_include="dog").changed(method="sampling") == Search(method="sampling")
    with pytest.raises(ConfigError, match="can't be steered"):
        Search().changed(method="sampling", must_include="dog")


def test_an_unknown_setting_is_named_with_the_nearest():
    with pytest.raises(ConfigError, match=r"no setting 'beam_siz'; did you mean beam_size\?"):
        Search().changed(beam_siz=3)
    with pytest.raises(ConfigError, match="no setting 'xyz'; settings are method, beam_size"):
        Search().changed(xyz=3)


def test_a_result_tells_what_the_search_reads_and_was_asked_for():
    plain = {"maximum_length": 30, "minimum_length": 0, "ranking": "average", "test_time_rule": "expected"}
    assert Search().details() == {"method": "beam", "beam_size": 5, **plain}
    assert Search(method="greedy").details() == {"method": "greedy", **plain}
    told = Search(method="sampling", top_p=0.9, no_dangling_end=True, beginning="a dog").details()
    assert told == {
        "method": "sampling",
        "samples": 1,
        "temperature": 1.0,
        "top_p": 0.9,
        **plain,
        "no_dangling_end": True,
        "dangling_words": "a an the of and with",
        "beginning": "a dog",
    }
    assert Search(test_time_rule="mean_of_k").details()["rule_samples"] == 10


def test_every_setting_that_is_not_for_all_names_its_methods():
    for name, methods in READ_BY.items():
        assert hasattr(Search(), name)
        assert methods
