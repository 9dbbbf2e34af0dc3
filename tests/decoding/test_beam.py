"""Beam search against tables with known answers, and against every caption there is."""

import math
from dataclasses import fields

import pytest
import torch
from torch import Tensor

from captioning.decoding.beam import beam_search
from captioning.decoding.choosing import best_continuations
from captioning.decoding.constraints import Constraints
from captioning.decoding.ranking import RANKINGS
from captioning.decoding.step import Hypothesis
from captioning.errors import CaptioningError, ConfigError, ShapeError
from tests.oracles.transition_table import (
    TransitionTable,
    every_caption,
    memoryless_table,
    random_table,
    rescore,
)

PAD, START, END, UNKNOWN, A, B = range(6)
FORBIDDEN = (PAD, START, UNKNOWN)


def starts(images: int) -> Tensor:
    return torch.full((images,), START)


def search(table: Tensor, **options) -> list[list[Hypothesis]]:
    options = {"beam_size": 3, "maximum_length": 5, "forbidden": FORBIDDEN} | options
    return beam_search(TransitionTable(table), start=starts(len(table)), **constrained(options))


def constrained(options: dict) -> dict:
    """Those of the options that are constraints, as such."""
    names = {each.name for each in fields(Constraints)} & options.keys()
    constraints = Constraints(END, **{name: options[name] for name in names})
    return {"constraints": constraints} | {name: value for name, value in options.items() if name not in names}


def summary(hypotheses: list[Hypothesis]) -> list[tuple[tuple[int, ...], bool]]:
    return [(hypothesis.words, hypothesis.finished) for hypothesis in hypotheses]


class TestKnownAnswers:
    def test_a_caption_that_never_ends_comes_back_cut_off(self):
        """H33 and trap 11."""
        [hypotheses] = search(memoryless_table(1, pad=0, start=0, end=0, unknown=0, a=0.7, b=0.3))
        best = hypotheses[0]
        assert best.words == (A, A, A, A, A)
        assert not best.finished
        assert best.weights.shape == (5, 11)
        assert best.score == pytest.approx(math.log(0.7), rel=1e-6)
        assert len(hypotheses) == 3

    def test_a_beam_wider_than_the_vocabulary_returns_each_caption_once(self):
        """H34."""
        table = memoryless_table(1, pad=0, start=0, end=0.5, unknown=0, a=0.5)
        [hypotheses] = search(table, beam_size=10, maximum_length=2)
        assert sorted(summary(hypotheses)) == [((), True), ((A,), True), ((A, A), False)]
        assert all(math.isfinite(hypothesis.score) for hypothesis in hypotheses)

    @pytest.mark.parametrize("beam_size", [1, 3])
    def test_forbidden_words_are_never_chosen_and_the_rest_is_not_renormalised(self, beam_size):
        """H35."""
        table = memoryless_table(1, pad=0.01, start=0.02, end=0.05, unknown=0.87, a=0.05)
        for hypothesis in search(table, beam_size=beam_size)[0]:
            assert not {PAD, START, UNKNOWN} & set(hypothesis.words)
            assert hypothesis.log_probabilities == pytest.approx([math.log(0.05)] * len(hypothesis.log_probabilities))

    def test_the_parent_of_a_flat_index_is_a_whole_number(self):
        """H37: 3 beams × 5 words, the best at flat index 7."""
        scores = torch.linspace(-9, -5, 15).reshape(1, 3, 5)
        scores[0, 1, 2] = -0.5
        choice = best_continuations(scores, torch.zeros(1, 3), width=3)
        assert choice.parents.dtype == torch.int64
        assert (choice.parents[0, 0].item(), choice.words[0, 0].item()) == (1, 2)
        assert (choice.parents[0, 1].item(), choice.words[0, 1].item()) == (2, 4)

    def test_an_overtaking_hypothesis_keeps_its_own_words_and_weights(self):
        """H37 and trap 13: after A is likelier than after B at first, B's continuation wins."""
        table = memoryless_table(1, pad=0, start=0, end=0.01, unknown=0, a=0.59, b=0.4)
        table[0, :, A] = torch.tensor([0, 0, 0.3, 0, 0.35, 0.35]).log()
        table[0, :, B] = torch.tensor([0, 0, 0.9, 0, 0.05, 0.05]).log()
        best = search(table, ranking="none")[0][0]
        assert best.words == (B,)
        assert best.log_probabilities == pytest.approx((math.log(0.4), math.log(0.9)))
        assert best.weights[:, :2].tolist() == [[START, -1]]


class TestAgainstEveryCaption:
    @pytest.mark.parametrize("ranking", RANKINGS)
    @pytest.mark.parametrize("stop_when_full", [False, True])
    def test_a_beam_wide_enough_for_all_prefixes_ranks_all_captions(self, ranking, stop_when_full):
        table, longest = random_table(3, words=7, seed=2), 4
        widest = 3 ** (longest - 1) + 3**longest + sum(3**n for n in range(longest))
        everything = search(
            table, beam_size=widest, maximum_length=longest, ranking=ranking, stop_when_full=stop_when_full
        )
        for image, hypotheses in enumerate(everything):
            truth = every_caption(table, image, start=START, end=END, forbidden=FORBIDDEN, longest=longest)
            scores = {words: sum_ / RANKINGS[ranking](len(words) + 1) for words, sum_ in truth.items()}
            ended = [hypothesis for hypothesis in hypotheses if hypothesis.finished]
            assert [each.words for each in ended] == sorted(scores, key=scores.__getitem__, reverse=True)
            assert [each.score for each in ended] == pytest.approx(sorted(scores.values(), reverse=True), abs=1e-5)

    @pytest.mark.parametrize("ranking", RANKINGS)
    @pytest.mark.parametrize("beam_size", [1, 2, 3, 5])
    def test_stopping_early_changes_nothing(self, ranking, beam_size):
        """Against the same search written out with plain lists, which always runs to the longest length."""
        table = random_table(13, words=7, seed=3)
        for image, hypotheses in enumerate(search(table, beam_size=beam_size, maximum_length=7, ranking=ranking)):
            expected = _search_to_the_longest(table, image, beam_size, 7, RANKINGS[ranking])
            assert summary(hypotheses) == [(words, finished) for finished, _, words in expected]
            assert [each.score for each in hypotheses] == pytest.approx([score for _, score, _ in expected], abs=1e-5)


def _search_to_the_longest(table, image, beam_size, longest, penalty):
    beams, ended = [(0.0, ())], []
    for length in range(1, longest + 1):
        continuations = [
            (sum(rescore(table, image, START, (*words, word))), (*words, word))
            for _, words in beams
            for word in range(table.shape[-1])
            if word not in FORBIDDEN
        ]
        best = sorted(continuations, reverse=True)[:beam_size]
        ended += [(True, total / penalty(length), words[:-1]) for total, words in best if words[-1] == END]
        beams = [(total, words) for total, words in best if words[-1] != END]
    cut = [(False, total / penalty(longest), words) for total, words in beams]
    return sorted(ended + cut, reverse=True)[:beam_size]


class TestInvariants:
    @pytest.mark.parametrize("ranking", RANKINGS)
    def test_the_reported_score_is_the_rescored_one(self, ranking):
        table = random_table(5, words=11, seed=4)
        for image, hypotheses in enumerate(search(table, ranking=ranking)):
            for hypothesis in hypotheses:
                choices = hypothesis.words + ((END,) if hypothesis.finished else ())
                again = rescore(table, image, START, choices)
                assert hypothesis.log_probabilities == pytest.approx(again, abs=1e-6)
                assert hypothesis.log_probability == pytest.approx(math.fsum(again), abs=1e-5)
                expected = math.fsum(again) / RANKINGS[ranking](len(choices))
                assert hypothesis.score == pytest.approx(expected, abs=1e-5)

    def test_weights_follow_their_hypothesis(self):
        """Trap 13: row t holds exactly the words that were read before word t."""
        for hypotheses in search(random_table(5, words=11, seed=5), beam_size=7, maximum_length=10):
            for hypothesis in hypotheses:
                assert len(hypothesis.weights) == len(hypothesis.words)
                for time, row in enumerate(hypothesis.weights):
                    read = (START, *hypothesis.words[:time])
                    assert row.tolist() == [*read, *[-1] * (11 - len(read))]

    def test_no_doubles_and_best_first(self):
        for hypotheses in search(random_table(5, words=11, seed=6), beam_size=13, maximum_length=4):
            assert len(set(summary(hypotheses))) == len(hypotheses) == 13
            order = [(each.finished, each.score) for each in hypotheses]
            assert order == sorted(order, reverse=True)

    @pytest.mark.parametrize("beam_size", [1, 3])
    @pytest.mark.parametrize("ranking", RANKINGS)
    @pytest.mark.parametrize("stop_when_full", [False, True])
    def test_companions_in_the_batch_change_nothing(self, beam_size, ranking, stop_when_full):
        """H36: alone, in batches of 3 and 7, and in reversed order."""
        table = random_table(7, words=11, seed=7)
        table[::2, ..., END] += 2  # Some images end long before others.
        options = {"beam_size": beam_size, "ranking": ranking, "stop_when_full": stop_when_full}
        together = search(table, maximum_length=10, **options)
        batches = [torch.tensor([image]) for image in range(7)]
        batches += [torch.tensor([0, 1, 2]), torch.tensor([3, 4, 5]), torch.arange(7).flip(0)]
        for batch in batches:
            apart = search(table[batch], maximum_length=10, **options)
            for image, hypotheses in zip(batch.tolist(), apart, strict=True):
                assert summary(hypotheses) == summary(together[image])
                for one, other in zip(hypotheses, together[image], strict=True):
                    assert one.score == other.score
                    assert torch.equal(one.weights, other.weights)

    def test_a_done_image_leaves_the_batch(self):
        table = memoryless_table(4, pad=0, start=0, end=0, unknown=0, a=0.7, b=0.3)
        table[:3] = memoryless_table(3, pad=0, start=0, end=1, unknown=0, a=0, b=0)
        steps = TransitionTable(table)
        beams = beam_search(steps, start=starts(4), constraints=Constraints(END, 5, forbidden=FORBIDDEN), beam_size=2)
        assert steps.batches == [4, 1, 1, 1, 1]
        assert [summary(beam)[0] for beam in beams] == [((), True)] * 3 + [((A,) * 5, False)]

    def test_bfloat16_log_probabilities_are_summed_in_float32(self):
        table = memoryless_table(1, pad=0, start=0, end=0, unknown=0, a=0.7, b=0.3).bfloat16()
        best = search(table, beam_size=1, maximum_length=10, ranking="none")[0][0]
        assert best.score == pytest.approx(10 * table[0, 0, 0, A].item(), rel=1e-6)


class TestLimits:
    def test_no_caption_ends_before_the_minimum_length(self):
        hypotheses = search(random_table(3, words=7, seed=8), minimum_length=3, beam_size=5)
        lengths = {len(each.words) for beam in hypotheses for each in beam if each.finished}
        assert min(lengths) == 3

    def test_stopping_when_full_takes_no_more_steps_than_needed(self):
        table = memoryless_table(2, pad=0, start=0, end=0.4, unknown=0, a=0.35, b=0.25)
        steps = TransitionTable(table)
        constraints = Constraints(END, 10, forbidden=FORBIDDEN)
        beam_search(steps, start=starts(2), constraints=constraints, beam_size=2, stop_when_full=True)
        assert steps.batches == [2, 2]

    def test_stopping_when_full_takes_nothing_later_while_others_go_on(self):
        table = memoryless_table(5, pad=0, start=0, end=0, unknown=0, a=0.7, b=0.3)
        table[0] = memoryless_table(1, pad=0, start=0, end=0.6, unknown=0, a=0.4, b=0)[0]
        table[0, :, A] = torch.tensor([0, 0, 0.6, 0, 0, 0.4]).log()
        table[0, :, B] = torch.tensor([0, 0, 1.0, 0, 0, 0]).log()
        at_once = search(table, beam_size=2, stop_when_full=True)[0]
        assert summary(at_once) == [((), True), ((A,), True)]
        assert summary(search(table, beam_size=2)[0]) == [((), True), ((A, B), True)]

    def test_an_image_without_any_allowed_continuation_keeps_what_it_has(self):
        table = memoryless_table(2, pad=0, start=0, end=0.5, unknown=0, a=0.5)
        table[0, :, A] = torch.tensor([0, 0, 0, 1.0, 0]).log()
        table[0, START, START] = torch.tensor([0, 0, 0, 0, 1.0]).log()
        stuck, other = search(table)
        assert summary(stuck) == [((A,), False)]
        assert stuck[0].weights.shape == (1, 11)
        assert summary(other)[0] == ((), True)

    def test_an_image_whose_every_first_word_is_forbidden_gets_the_empty_caption(self):
        table = memoryless_table(1, pad=0, start=0, end=0, unknown=1, a=0)
        assert summary(search(table)[0]) == [((), False)]

    def test_wrong_calls_say_what_was_expected(self):
        table = random_table(2, words=7, seed=9)
        with pytest.raises(ConfigError, match="beam_size: expected at least 1, got 0"):
            search(table, beam_size=0)
        with pytest.raises(ConfigError, match="minimum_length 5 and maximum_length 5"):
            search(table, minimum_length=5)
        with pytest.raises(ConfigError, match="words other than END"):
            search(table, forbidden=(END,))
        with pytest.raises(ConfigError, match="one of none, average, wu"):
            search(table, ranking="mean")
        with pytest.raises(ShapeError, match="start"):
            beam_search(TransitionTable(table), start=starts(2)[None], constraints=Constraints(END, 2), beam_size=1)

    def test_nan_is_named(self):
        with pytest.raises(CaptioningError, match="got NaN for word 1"):
            search(random_table(2, words=7, seed=1) * float("nan"))
