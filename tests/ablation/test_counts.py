"""Counts of images add up to what the metrics say of the whole set."""

import numpy as np
import pytest

from captioning.ablation.counts import count_answers, measures_of, read_counts, write_counts
from captioning.data.records import CaptionedImage, CaptionSet
from captioning.evaluation import score_predictions

WORDS = np.array(["a", "the", "red", "blue", "dog", "cat", "on", "left", "of", "runs", "sits", "grass"])


def captions(generator, images=23):
    def sentence(low, high):
        return " ".join(generator.choice(WORDS, size=generator.integers(low, high)))

    records = tuple(
        CaptionedImage(f"{n}.png", f"{n}.png", tuple(sentence(3, 12) for _ in range(1 + n % 3)), "val")
        for n in range(images)
    )
    said = {each.image_id: each.captions[0] if n % 2 else sentence(1, 12) for n, each in enumerate(records)}
    return said, CaptionSet(records)


def test_every_measure_follows_from_the_sum_of_its_counts(tmp_path):
    said, references = captions(np.random.default_rng(5))
    scores = score_predictions(said, references)
    write_counts(tmp_path / "counts.npz", count_answers(said, references.references, scores))
    counts = read_counts(tmp_path / "counts.npz")
    values = {each.name: float(each.value(counts[each.table].sum(0))) for each in measures_of(list(counts))}
    untested = scores.corpus.keys() - values.keys()
    assert untested <= {"METEOR"}  # neither a mean over images nor BLEU
    expected = {name: value for name, value in scores.corpus.items() if name not in untested}
    assert values == pytest.approx(expected, rel=1e-12)
    assert {"BLEU-4", "BLEU-1-no-penalty", "ROUGE-L", "CIDEr-D"} <= values.keys()


def test_a_subset_has_the_bleu_that_it_has_alone():
    said, references = captions(np.random.default_rng(7))
    scores = score_predictions(said, references)
    counts = count_answers(said, references.references, scores)
    part = CaptionSet(references.records[:11])
    alone = score_predictions({each.image_id: said[each.image_id] for each in part.records}, part)
    for measure in measures_of(["BLEU", "ROUGE-L"]):
        value = float(measure.value(counts[measure.table][:11].sum(0)))
        assert value == pytest.approx(alone.corpus[measure.name], rel=1e-12)


def test_a_ratio_without_anything_below_is_zero():
    [measure] = measures_of(["pointing"])
    assert measure.value(np.array([[0.0, 0.0], [3.0, 4.0]])).tolist() == [0.0, 0.75]
