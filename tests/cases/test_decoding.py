"""Cases H33 to H37: searches on a step function by table, and a caption that its neighbours do not change."""

import math

import pytest
import torch
from PIL import Image

from captioning.decoding.beam import beam_search
from captioning.decoding.choosing import best_continuations
from captioning.decoding.constraints import Constraints
from captioning.decoding.greedy import greedy
from tests.cases.making import fresh_captioner, write_captioner, write_rows
from tests.cli.conftest import call
from tests.oracles.transition_table import TransitionTable, memoryless_table

PAD, START, END, UNKNOWN, A, B = range(6)
FORBIDDEN = (PAD, START, UNKNOWN)


def search(table, **options):
    limits = {name: options.pop(name) for name in ("maximum_length", "minimum_length") if name in options}
    constraints = Constraints(END, **{"maximum_length": 5, "forbidden": FORBIDDEN} | limits)
    start = torch.full((len(table),), START)
    return beam_search(TransitionTable(table), start=start, constraints=constraints, **{"beam_size": 3} | options)


def test_H33_a_caption_that_never_ends_comes_back_unfinished():
    best = search(memoryless_table(1, pad=0, start=0, end=0, unknown=0, a=0.7, b=0.3))[0][0]
    assert best.words == (A,) * 5
    assert not best.finished
    assert math.isfinite(best.score)
    assert len(best.weights) == 5


def test_H33_the_evaluation_command_goes_through_with_captions_that_never_end(tmp_path, capsys):
    captioner = fresh_captioner(maximum_length=5)
    with torch.no_grad():
        captioner.decoder.output.vocabulary.bias[END] = -1e4
    model = write_captioner(tmp_path / "model", captioner)
    names = [f"{number}.png" for number in range(10)]
    for number, name in enumerate(names):
        Image.new("RGB", (32, 24), (20 * number, 90, 40)).save(tmp_path / name)
    rows = write_rows(tmp_path / "rows.jsonl", *[(name, "a red board", "val") for name in names])
    assert call("evaluate", model, "--captions", rows) == 0
    assert "cut off 10" in capsys.readouterr().out


def test_H34_a_beam_wider_than_the_vocabulary_returns_each_caption_once():
    [found] = search(memoryless_table(1, pad=0, start=0, end=0.5, unknown=0, a=0.5), beam_size=10, maximum_length=2)
    assert sorted((each.words, each.finished) for each in found) == [((), True), ((A,), True), ((A, A), False)]
    assert all(math.isfinite(each.score) for each in found)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_H35_the_unknown_word_is_never_said_and_the_rest_is_not_renormalized(beam_size):
    table = memoryless_table(1, pad=0, start=0, end=0.05, unknown=0.9, a=0.05)
    for found in search(table, beam_size=beam_size)[0]:
        assert not set(FORBIDDEN) & set(found.words)
        assert found.log_probabilities == pytest.approx([math.log(0.05)] * len(found.log_probabilities))
    constraints = Constraints(END, maximum_length=5, forbidden=FORBIDDEN)
    [[likeliest]] = greedy(TransitionTable(table), start=torch.tensor([START]), constraints=constraints)
    assert not set(FORBIDDEN) & set(likeliest.words)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_H36_a_caption_does_not_depend_on_its_neighbours(beam_size):
    captioner = fresh_captioner()
    generator = torch.Generator().manual_seed(2)
    pictures = [
        Image.fromarray(torch.randint(0, 256, (24, 32, 3), generator=generator, dtype=torch.uint8).numpy())
        for _ in range(7)
    ]
    whole = captioner.caption(pictures, beam_size=beam_size, batch_size=7)
    others = [captioner.caption(pictures, beam_size=beam_size, batch_size=size) for size in (1, 3)]
    others.append(captioner.caption(pictures[::-1], beam_size=beam_size, batch_size=3)[::-1])
    for captions in others:
        for one, other in zip(whole, captions, strict=True):
            assert one.text == other.text
            assert one.score == pytest.approx(other.score, abs=1e-4)
            assert abs(one.maps - other.maps).max(initial=0) < 1e-5


def test_H37_the_parent_of_a_flat_index_is_a_whole_number():
    scores = torch.full((1, 3, 5), -9.0)
    scores[0, 1, 2] = -0.5
    choice = best_continuations(scores, torch.zeros(1, 3), width=3)
    assert choice.parents.dtype == torch.int64
    assert (choice.parents[0, 0].item(), choice.words[0, 0].item()) == (1, 2)


def test_H37_an_overtaking_hypothesis_returns_its_own_words_and_maps():
    table = memoryless_table(1, pad=0, start=0, end=0.01, unknown=0, a=0.59, b=0.4)
    table[0, :, A] = torch.tensor([0, 0, 0.3, 0, 0.35, 0.35]).log()
    table[0, :, B] = torch.tensor([0, 0, 0.9, 0, 0.05, 0.05]).log()
    best = search(table, ranking="none")[0][0]
    assert best.words == (B,)
    assert best.weights[0, 0].item() == START  # the table's maps are the words read so far
    longer = search(table, ranking="none", minimum_length=1, beam_size=2)[0]
    assert all(tuple(each.weights[-1, 1 : len(each.words)].tolist()) == each.words[:-1] for each in longer)
