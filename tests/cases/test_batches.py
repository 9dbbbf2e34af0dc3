"""Cases H21 to H23: the last batch, the empty caption and the second worker change nothing (H20: `tests/features`)."""

from functools import partial

import numpy as np
import pytest
import torch

from captioning.data.dataset import CaptionDataset, make_loader
from captioning.data.formats import read_captions
from captioning.data.records import CaptionedImage, CaptionSet, build_vocabulary
from captioning.data.sampler import EvaluationSampler, TrainingSampler
from captioning.data.sources import StoredFeatures
from captioning.evaluation import predict
from captioning.features.image_features import ImageFeatures
from captioning.training.objectives import CrossEntropy
from tests.cases.making import given, write_rows
from tests.training.small_run import fit, make


class DrawsOnly:
    """A source whose features are what the augmentation would draw: three numbers of each picture's generator."""

    def read(self, images, draws):
        numbers = [[draw.integers(2**40) for _ in range(3)] for draw in draws]
        return ImageFeatures(torch.tensor(numbers, dtype=torch.float64)[:, None], 1, 1)


def drawn(*, workers, seed):
    """(epoch, image) -> its draws."""
    records = tuple(CaptionedImage(f"{n}.png", "x", ("a board",), "train") for n in range(64))
    captions = CaptionSet(records)
    dataset = CaptionDataset(captions, build_vocabulary(captions, minimum_count=1), DrawsOnly(), seed=seed)
    sampler = TrainingSampler(dataset.lengths, batch_size=4, seed=seed)
    loader = make_loader(dataset, sampler, workers=workers)
    found = {}
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for batch in loader:
            draws = batch.features.regions[:, 0].tolist()
            found |= {(epoch, image_id): tuple(own) for image_id, own in zip(batch.image_ids, draws, strict=True)}
    return found


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_H21_no_two_samples_share_their_draws_and_a_seed_repeats_them():
    first = drawn(workers=4, seed=3)
    assert len(first) == len(set(first.values())) == 128
    assert drawn(workers=4, seed=3) == first
    assert drawn(workers=0, seed=3) == first
    assert not set(drawn(workers=0, seed=4).values()) & set(first.values())


def test_H22_a_last_batch_of_one_trains_validates_and_predicts():
    module, loaders = make(images=9, batch_size=4)
    sizes = [len(batch) for batch in loaders.train_dataloader()]
    assert sorted(sizes) == [1, 4, 4]
    fit(module, loaders)
    assert len(module.predictions) == 9
    said = predict(module.captioner, loaders.train.captions, loaders.train.pictures, batch_size=4)
    assert len(said.captions) == 9
    alone = predict(module.captioner, loaders.train.captions, loaders.train.pictures, batch_size=1)
    assert alone.captions == said.captions


def test_H22_a_samples_loss_does_not_depend_on_its_batch():
    module, loaders = make(images=9)
    captioner, objective = module.captioner.eval(), CrossEntropy()

    def nats(batch_size):
        total = 0.0
        for batch in make_loader(loaders.train, EvaluationSampler(9, batch_size=batch_size)):
            with torch.no_grad():
                features = captioner.features(batch)
                total += objective(captioner.decoder(features, batch.inputs, batch.is_word), batch, features).nats
        return total

    one_by_one, fours, together = nats(1), nats(4), nats(9)
    assert one_by_one == pytest.approx(together, abs=1e-4)
    assert fours == pytest.approx(together, abs=1e-4)


EMPTY = ["", "   ", "...", "!!!", "—", "a board"]


def test_H23_captions_without_words_are_dropped_counted_and_never_reach_the_network(tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", *[("a.jpg", caption) for caption in EMPTY])
    captions = read_captions(rows, fractions={"train": 1.0}, check_files=False)
    assert captions.captions == ("a board",)
    assert captions.notes == ("5 captions without a word left out",)
    vocabulary = build_vocabulary(captions, minimum_count=1)
    zeros = partial(np.zeros, (1, 2, 3), dtype=np.float32)
    store = StoredFeatures(
        type("Zeros", (), {"read": lambda self, ids: ImageFeatures(torch.from_numpy(zeros()), 1, 2)})()
    )
    dataset = CaptionDataset(captions, vocabulary, store)
    [batch] = make_loader(dataset, TrainingSampler(dataset.lengths, batch_size=4))
    assert batch.captions == 1
    assert batch.is_word.sum().item() == 3  # a, board, END


@pytest.mark.shared
def test_H23_the_given_file_drops_five():
    path = given("captions", "empty_or_punctuation.jsonl")
    captions = read_captions(path, fractions={"train": 1.0}, images=given("images", ""))
    assert captions.captions == ("a board",)
    assert captions.notes == ("5 captions without a word left out",)
