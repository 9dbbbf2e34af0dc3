"""Each constraint, alone and with others, against every caption that there is; and what can't be met together."""

import pytest
import torch

from captioning.decoding.beam import beam_search
from captioning.decoding.constraints import Constraints
from captioning.decoding.ranking import RANKINGS
from captioning.errors import ConfigError
from tests.decoding.cases import CONSTRAINTS, END, FORBIDDEN, START, A, B, C, summary, wanted
from tests.oracles import plain_search
from tests.oracles.plain_search import obeys
from tests.oracles.transition_table import TransitionTable, every_caption, random_table

every_constraint = pytest.mark.parametrize("name", CONSTRAINTS)


def search(table, constraints, **options):
    return beam_search(
        TransitionTable(table), start=torch.full((len(table),), START), constraints=constraints, **options
    )


@every_constraint
@pytest.mark.parametrize("ranking", RANKINGS)
def test_a_beam_wide_enough_for_all_prefixes_finds_exactly_the_captions_that_obey(name, ranking):
    table, longest = random_table(3, words=7, seed=2), 5
    asked = wanted(name, longest)
    for image, hypotheses in enumerate(search(table, asked, beam_size=4**longest, ranking=ranking)):
        captions = every_caption(table, image, start=START, end=END, forbidden=FORBIDDEN, longest=longest)
        scores = {
            words: sum_ / RANKINGS[ranking](len(words) + 1) for words, sum_ in captions.items() if obeys(words, asked)
        }
        ended = [each for each in hypotheses if each.finished]
        assert len(scores) > 1
        assert [each.words for each in ended] == sorted(scores, key=scores.__getitem__, reverse=True)
        assert [each.score for each in ended] == pytest.approx(sorted(scores.values(), reverse=True), abs=1e-5)


@every_constraint
@pytest.mark.parametrize("beam_size", [1, 2, 3])
def test_a_narrow_beam_is_the_plain_one(name, beam_size):
    """Against plain lists, which always run to the longest length; with words that must appear, bank by bank."""
    table = random_table(7, words=7, seed=3)
    asked = wanted(name, 5)
    for image, hypotheses in enumerate(search(table, asked, beam_size=beam_size, ranking="wu")):
        expected = plain_search.beam(table, image, beam_size, asked, RANKINGS["wu"])
        assert summary(hypotheses) == [(finished, words) for finished, _, words in expected]
        assert [each.score for each in hypotheses] == pytest.approx([score for _, score, _ in expected], abs=1e-5)


def test_the_models_own_numbers_stay_as_they_are():
    log_probabilities = random_table(1, words=7, seed=4)[:, 0, :3]
    before = log_probabilities.clone()
    said = torch.tensor([[[A, B, A], [B, B, B], [A, C, B]]])
    allowed = wanted("masks together", 6).apply(log_probabilities, said)
    assert torch.equal(log_probabilities, before)
    assert ((allowed == before) | (allowed == -torch.inf)).all()


def test_masks_by_hand():
    said = torch.tensor([[[A, B, A], [B, B, B], [C, A, C]]])
    zeros = torch.zeros(1, 3, 7)
    assert _banned(Constraints(END, 9, no_repeat_ngram=2), zeros, said) == [{B}, {B}, {A}]
    assert _banned(Constraints(END, 9, no_repeat_ngram=1), zeros, said) == [{A, B}, {B}, {A, C}]
    assert _banned(Constraints(END, 9, no_repeat_ngram=4), zeros, said) == [set(), set(), set()]
    assert _banned(Constraints(END, 9, dangling=(A,)), zeros, said) == [{END}, set(), set()]
    assert _banned(Constraints(END, 9, minimum_length=4), zeros, said) == [{END}] * 3
    assert _banned(Constraints(END, 9, must_include=(A, B)), zeros, said) == [set(), {END}, {END}]
    assert _banned(Constraints(END, 9, beginning=(A, B, A, C)), zeros, said) == [set(range(7)) - {C}] * 3


def _banned(constraints, log_probabilities, said):
    return [set(row.isneginf().nonzero().flatten().tolist()) for row in constraints.apply(log_probabilities, said)[0]]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"forbidden": (END,)}, "words other than END"),
        ({"minimum_length": 6}, "minimum_length 6 and maximum_length 6"),
        ({"no_repeat_ngram": -1}, "no_repeat_ngram: expected a number >= 0, got -1"),
        ({"beginning": (A, 3), "forbidden": FORBIDDEN}, "beginning: expected words that may be said, got 'word 3'"),
        ({"must_include": (END,)}, "must_include: expected words that may be said, got 'word 2'"),
        ({"must_include": (A, B, C), "beginning": (B, B, B, B)}, "maximum_length: expected at least 7, .* got 6"),
        ({"beginning": (A, B, A, B), "no_repeat_ngram": 2}, "no 2 words in a row twice .* got 'word 4 word 5"),
    ],
)
def test_what_cannot_be_met_together_is_refused(settings, told):
    with pytest.raises(ConfigError, match=told):
        Constraints(END, 6, **settings, name_of=lambda word: f"word {word}")


def test_a_word_asked_for_twice_is_one_word():
    assert Constraints(END, 6, must_include=(B, A, B)).must_include == (B, A)


def test_the_likeliest_caption_with_a_word_is_found_however_unlikely_the_word():
    """A narrow plain beam never tries C; the banks do, at every place, and keep the best of them."""
    table = random_table(5, words=11, seed=5)
    table[..., C] -= 9
    table[..., END] += 2
    asked = Constraints(END, 6, forbidden=FORBIDDEN, must_include=(C,))
    for image, hypotheses in enumerate(search(table, asked, beam_size=3, ranking="none")):
        assert hypotheses[0].finished
        assert all(C in each.words for each in hypotheses)
        expected = plain_search.beam(table, image, 3, asked, RANKINGS["none"])
        assert hypotheses[0].words == expected[0][2]
