"""Sampling: the distribution it draws from, exactly; its support; and what its numbers hang on."""

import math
from collections import Counter

import pytest
import torch

from captioning.decoding.choosing import Open
from captioning.decoding.constraints import Constraints
from captioning.decoding.greedy import greedy
from captioning.decoding.sampling import FIRST_LOOK, Draws, image_uniforms, nucleus, sample
from captioning.errors import CaptioningError, ConfigError
from tests.decoding.cases import CONSTRAINTS, END, FORBIDDEN, START, A, B, summary, wanted
from tests.oracles.plain_search import drawn_captions, sharpened
from tests.oracles.transition_table import TransitionTable, random_table

SETTINGS = [
    {},
    {"temperature": 0.4},
    {"temperature": 2.5},
    {"top_k": 3},
    {"top_p": 0.6},
    {"top_p": 1.0},
    {"temperature": 1.7, "top_k": 5, "top_p": 0.8},
]
settings_of = pytest.mark.parametrize("settings", SETTINGS, ids=str)
PLAIN = Constraints(END, 4, forbidden=FORBIDDEN)


def draw(table, constraints=PLAIN, *, seed=1, **options):
    start = torch.full((len(table),), START)
    generator = torch.Generator().manual_seed(seed)
    return sample(TransitionTable(table), start=start, constraints=constraints, generator=generator, **options)


@settings_of
def test_evenly_spread_numbers_give_every_word_its_exact_share(settings):
    """N numbers at the middles of N equal parts of [0, 1): each word gets its probability × N, to within one."""
    numbers, words = 10_007, 31
    row = random_table(1, words, seed=1)[0, 0, 0]
    row[torch.tensor(FORBIDDEN)] = -torch.inf
    uniforms = ((torch.arange(numbers, dtype=torch.float64) + 0.5) / numbers).view(1, numbers, 1)
    opened = Open(torch.zeros(1, dtype=torch.int64), torch.zeros(1, numbers), torch.zeros(1, numbers, 0).long())
    choice = Draws(uniforms, **settings).choose(row.expand(1, numbers, words), opened)
    expected = sharpened(row, **settings)
    counts = Counter(choice.words.flatten().tolist())
    assert counts.keys() <= expected.keys()
    for word, probability in expected.items():
        assert abs(counts[word] - probability * numbers) <= 1 + 1e-4 * numbers * probability
    torch.testing.assert_close(choice.log_probabilities[0], row[choice.words[0]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("uniform", [0.0, 1.0])
def test_the_first_and_the_last_number_fall_on_words_that_can_be_said(dtype, uniform):
    row = torch.tensor([-torch.inf, -torch.inf, 0.3, 0.2, -torch.inf]).log_softmax(0).expand(1, 1, 5)
    opened = Open(torch.zeros(1, dtype=torch.int64), torch.zeros(1, 1), torch.zeros(1, 1, 0).long())
    choice = Draws(torch.full((1, 1, 1), uniform, dtype=dtype)).choose(row, opened)
    assert choice.words.item() == (3 if uniform else 2)


def test_nan_is_named_even_where_the_draw_would_land_on_a_word_that_may_not_be_said():
    with pytest.raises(CaptioningError, match="got NaN for word 1"):
        draw(random_table(2, words=7, seed=1) * float("nan"), Constraints(END, 4, forbidden=(*FORBIDDEN, 6)))


@settings_of
def test_whole_captions_have_their_exact_support_and_pass_a_chi_square_test(settings):
    """Against the list of all captions with their probabilities, at a level of 1e-9.

    With probability at least 1 − e^−x a chi-square variable of k degrees is at most k + 2 √(kx) + 2x (Laurent and
    Massart, 2000). Captions that are expected less than 20 times are counted together, so that the statistic is one.
    """
    samples, table = 4_000, random_table(1, words=7, seed=2, sharpness=0.8)
    expected = drawn_captions(table, 0, PLAIN, **settings)
    assert math.fsum(expected.values()) == pytest.approx(1)
    counts = Counter(summary(draw(table, samples=samples, **settings)[0]))
    assert counts.keys() <= expected.keys()
    assert counts.keys() >= {caption for caption, chance in expected.items() if chance * samples > 40}
    often = {caption: chance for caption, chance in expected.items() if chance * samples >= 20}
    rest = 1 - math.fsum(often.values())
    pairs = [(counts[caption], chance * samples) for caption, chance in often.items()]
    pairs += [(samples - sum(counts[caption] for caption in often), rest * samples)] if rest * samples > 20 else []
    statistic = sum((seen - hoped) ** 2 / hoped for seen, hoped in pairs)
    degrees, x = len(pairs) - 1, math.log(1e9)
    assert degrees >= 3
    assert statistic <= degrees + 2 * math.sqrt(degrees * x) + 2 * x


@pytest.mark.parametrize("name", [name for name in CONSTRAINTS if "must_include" not in CONSTRAINTS[name]])
def test_with_constraints_the_support_is_exact(name):
    """The constraints cut words out, and the rest share their probability in proportion."""
    table, asked = random_table(1, words=7, seed=3, sharpness=0.3), wanted(name, 4)
    expected = drawn_captions(table, 0, asked)
    counts = Counter(summary(draw(table, asked, samples=4_000)[0]))
    assert counts.keys() <= expected.keys()
    assert counts.keys() >= {caption for caption, chance in expected.items() if chance * 4_000 > 40}
    for caption, chance in expected.items():
        # Bernstein: a sum of n independent indicators is off by more than this with probability below 2e-9.
        bound = math.sqrt(2 * 4_000 * chance * math.log(1e9)) + math.log(1e9)
        assert abs(counts[caption] - 4_000 * chance) <= bound


@pytest.mark.parametrize("settings", [{"temperature": 1e-4}, {"top_k": 1}, {"top_p": 1e-6}], ids=str)
def test_at_its_narrowest_it_is_greedy(settings):
    table = random_table(17, words=11, seed=4)
    expected = greedy(TransitionTable(table), start=torch.full((17,), START), constraints=PLAIN)
    found = draw(table, samples=3, **settings)
    assert [summary(each) for each in found] == [summary(each) * 3 for each in expected]


def test_an_images_numbers_hang_neither_on_companions_nor_on_batches():
    whole = image_uniforms(7, 3, 11, torch.Generator().manual_seed(5))
    generator = torch.Generator().manual_seed(5)
    parts = torch.cat([image_uniforms(size, 3, 11, generator) for size in (1, 4, 2)])
    assert torch.equal(parts, whole)
    assert len(whole.unique()) == whole.numel()
    assert ((whole >= 0) & (whole < 1)).all()


def test_the_same_seed_draws_the_same_and_another_does_not():
    table = random_table(5, words=11, seed=6, sharpness=0.5)
    one, again, other = (draw(table, samples=5, seed=seed) for seed in (1, 1, 2))
    assert [summary(each) for each in one] == [summary(each) for each in again]
    assert [summary(each) for each in one] != [summary(each) for each in other]


def test_a_sample_that_can_say_nothing_more_is_cut_off_while_others_go_on():
    """After A nothing has any probability, after B everything goes on."""
    table = torch.full((1, 7, 7, 7), -torch.inf)
    table[..., A] = table[..., B] = math.log(0.5)
    table[:, :, A] = -torch.inf
    [hypotheses] = draw(table, Constraints(END, 4, forbidden=FORBIDDEN), samples=64)
    ways = {(A,), (B, A), (B, B, A), (B, B, B, A), (B,) * 4}
    assert {each.words for each in hypotheses} == ways
    assert not any(each.finished for each in hypotheses)
    assert len(hypotheses) == 64


@pytest.mark.parametrize("words", [FIRST_LOOK - 1, FIRST_LOOK + 1, 9 * FIRST_LOOK])
@pytest.mark.parametrize("share", [0.1, 0.9, 0.999])
def test_the_nucleus_is_the_sorted_one_however_far_one_has_to_look(words, share):
    generator = torch.Generator().manual_seed(7)
    masses = torch.rand(2, 3, words, generator=generator, dtype=torch.float64)
    kept, places = nucleus(masses, share)
    for b in range(2):
        for m in range(3):
            expected = sharpened(masses[b, m].log(), top_p=share)
            found = places[b, m][kept[b, m] > 0].tolist()
            assert found == list(expected)


def test_wrong_calls_say_what_was_expected():
    table = random_table(1, words=7, seed=8)
    for settings, told in (
        ({"samples": 0}, "samples: expected at least 1, got 0"),
        ({"temperature": 0.0}, "temperature: expected a number > 0, got 0.0; greedy"),
        ({"top_k": 0}, "top_k: expected at least 1, got 0"),
        ({"top_p": 1.5}, r"top_p: expected a probability in \(0, 1\], got 1.5"),
        ({"constraints": Constraints(END, 4, must_include=(A,))}, "can't be steered"),
    ):
        with pytest.raises(ConfigError, match=told):
            draw(table, **settings)
