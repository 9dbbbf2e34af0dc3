import pickle
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from captioning.data.batch import CaptionBatch
from captioning.data.dataset import CaptionDataset, make_loader
from captioning.data.records import CaptionedImage, CaptionSet, build_vocabulary, clean
from captioning.data.sampler import BatchRequest, EvaluationSampler, TrainingSampler
from captioning.data.sources import PictureArrays, PictureFiles, StoredFeatures
from captioning.errors import DataError
from captioning.features.image_features import ImageFeatures
from captioning.features.preprocessing import Preprocessing
from captioning.text.tokenize import tokenize
from captioning.text.vocabulary import END, PAD, START

CAPTIONS = {
    f"{number}.png": [f"picture {'very ' * (caption + number % 3)}number {number}" for caption in range(most)]
    for number, most in enumerate([7, 5, 1, 4, 2, 3, 1, 5, 6])
}
PREPROCESSING = Preprocessing(size=4, mean=(0.5, 0.25, 0.0), deviation=(0.5, 1.0, 2.0), fit="squash")


@pytest.fixture
def captions(tmp_path: Path) -> CaptionSet:
    """Nine pictures; picture n is 4 x 4, n in red and its column in green."""
    records = []
    for number, (image_id, own) in enumerate(CAPTIONS.items()):
        Image.fromarray(pixels_of(number)).save(tmp_path / image_id)
        records.append(CaptionedImage(image_id, tmp_path / image_id, tuple(own), "train"))
    return clean(records)


def pixels_of(number: int) -> np.ndarray:
    pixels = np.zeros((4, 4, 3), dtype=np.uint8)
    pixels[..., 0] = number
    pixels[..., 1] = np.arange(4)
    return pixels


class Store:
    """Features that tell the picture and the view they are of; counts how often it is asked."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self, image_ids: Sequence[str], view: int | Sequence[int] = 0) -> ImageFeatures:
        self.reads += 1
        views = [view] * len(image_ids) if isinstance(view, int) else view
        numbers = [float(image_id.removesuffix(".png")) for image_id in image_ids]
        return ImageFeatures(torch.tensor(list(zip(numbers, map(float, views), strict=True)))[:, None], 1, 1)


def make_dataset(captions: CaptionSet, source: object = None, **options: int) -> CaptionDataset:
    vocabulary = build_vocabulary(captions, minimum_count=1)
    return CaptionDataset(captions, vocabulary, source or StoredFeatures(Store()), **options)  # type: ignore[arg-type]


def sentences(dataset: CaptionDataset, batch: CaptionBatch) -> dict[str, list[str]]:
    vocabulary = build_vocabulary(dataset.captions, minimum_count=1)
    rows = zip(batch.image_ids, batch.words.tolist(), strict=True)
    return {key: [" ".join(vocabulary.decode(row)) for row in own if row[0] == START] for key, own in rows}


def test_every_caption_stands_with_its_own_picture(captions: CaptionSet) -> None:
    dataset = make_dataset(captions)
    batch = dataset[BatchRequest((8, 2, 0), 0)]
    assert sentences(dataset, batch) == {key: CAPTIONS[key] for key in ("8.png", "2.png", "0.png")}
    assert batch.features is not None
    assert batch.features.regions[:, 0, 0].tolist() == [8, 2, 0]
    assert batch.captions == 6 + 1 + 7
    assert ((batch.targets == END).sum(-1) == (batch.words[..., 0] == START)).all()


def test_the_pictures_of_a_batch_are_read_at_once(captions: CaptionSet) -> None:
    store = Store()
    for source in (StoredFeatures(store), StoredFeatures(store, views=2)):
        store.reads = 0
        make_dataset(captions, source)[BatchRequest((3, 1, 4, 5), 0)]
        assert store.reads == 1


def test_lengths_are_those_of_the_longest_caption(captions: CaptionSet) -> None:
    longest = [max(len(tokenize(caption)) for caption in own) + 2 for own in CAPTIONS.values()]
    assert make_dataset(captions).lengths == longest


def test_some_captions_an_image_are_drawn_anew_each_epoch(captions: CaptionSet) -> None:
    dataset = make_dataset(captions, captions_per_image=2)
    epochs = [sentences(dataset, dataset[BatchRequest(tuple(range(9)), epoch)]) for epoch in range(20)]
    for shown in epochs:
        assert all(len(own) == min(2, len(CAPTIONS[key])) == len(set(own)) for key, own in shown.items())
    assert all({own for shown in epochs for own in shown[key]} == set(CAPTIONS[key]) for key in CAPTIONS)
    evaluated = sentences(dataset, dataset[BatchRequest((0, 4))])
    assert evaluated == {key: CAPTIONS[key] for key in ("0.png", "4.png")}


def test_an_image_without_captions_never_fails(tmp_path: Path) -> None:
    records = [CaptionedImage(f"{n}.png", tmp_path, own, "train") for n, own in enumerate([("a board",), ()])]
    dataset = make_dataset(CaptionSet(tuple(records)), captions_per_image=1)
    for epoch in range(10):
        assert dataset[BatchRequest((0, 1), epoch)].captions == 1
    assert (dataset[BatchRequest((1,))].words == PAD).all()


def test_draws_depend_on_seed_epoch_and_image_alone(captions: CaptionSet) -> None:
    def views(requests: list[BatchRequest], seed: int = 0) -> dict[tuple[str, int | None], float]:
        dataset = make_dataset(captions, StoredFeatures(Store(), views=1000), seed=seed)
        batches = [(request.epoch, dataset[request]) for request in requests]
        return {
            (image_id, epoch): view
            for epoch, batch in batches
            if batch.features is not None
            for image_id, view in zip(batch.image_ids, batch.features.regions[:, 0, 1].tolist(), strict=True)
        }

    together = views([BatchRequest(tuple(range(9)), epoch) for epoch in (0, 1)])
    apart = views([BatchRequest((image,), epoch) for epoch in (1, 0) for image in range(8, -1, -1)])
    assert together == apart
    assert len(set(together.values())) >= 16  # 18 draws of 1000 views
    assert views([BatchRequest(tuple(range(9)), 0)], seed=1) != views([BatchRequest(tuple(range(9)), 0)])
    assert set(views([BatchRequest((0, 1, 2))]).values()) == {0}


def test_training_draws_from_all_views(captions: CaptionSet) -> None:
    dataset = make_dataset(captions, StoredFeatures(Store(), views=2))
    drawn = set()
    for epoch in range(6):
        features = dataset[BatchRequest((4, 0, 7, 2), epoch)].features
        assert features is not None
        assert features.regions[:, 0, 0].tolist() == [4, 0, 7, 2]
        drawn |= set(features.regions[:, 0, 1].tolist())
    assert drawn == {0, 1}


def test_workers_make_the_batches_that_one_process_makes(captions: CaptionSet) -> None:
    dataset = make_dataset(captions, PictureFiles(PREPROCESSING, mirror=True), captions_per_image=2)
    sampler = TrainingSampler(dataset.lengths, batch_size=2)
    alone = make_loader(dataset, sampler)
    shared = make_loader(dataset, sampler, workers=2)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for mine, theirs in zip(alone, shared, strict=True):
            assert mine.image_ids == theirs.image_ids
            assert torch.equal(mine.words, theirs.words)
            assert torch.equal(mine.pixels, theirs.pixels)


def test_a_dataset_can_be_pickled(captions: CaptionSet) -> None:
    dataset = make_dataset(captions)
    request = BatchRequest((1, 5), 0)
    assert torch.equal(pickle.loads(pickle.dumps(dataset))[request].words, dataset[request].words)


def test_a_last_batch_of_one_image_keeps_its_axes(captions: CaptionSet) -> None:
    dataset = make_dataset(captions)
    for sampler in (TrainingSampler(dataset.lengths, batch_size=4), EvaluationSampler(9, batch_size=4)):
        batches = list(make_loader(dataset, sampler))
        assert sorted(len(batch) for batch in batches) == [1, 4, 4]
        assert all(batch.words.dim() == 3 for batch in batches)
        assert sum(batch.captions for batch in batches) == sum(map(len, CAPTIONS.values()))


def test_files_and_arrays_give_the_same_pixels(captions: CaptionSet) -> None:
    pixels = np.stack([pixels_of(number) for number in range(9)])
    arrays = PictureArrays(pixels, {image_id: row for row, image_id in enumerate(CAPTIONS)}, PREPROCESSING)
    from_arrays, from_files = (
        make_dataset(captions, source)[BatchRequest((6, 3), 0)].pixels
        for source in (arrays, PictureFiles(PREPROCESSING))
    )
    assert from_arrays is not None
    assert from_arrays.shape == (2, 3, 4, 4)
    torch.testing.assert_close(from_arrays, from_files, rtol=0, atol=1e-6)
    torch.testing.assert_close(from_arrays[0, 0], torch.full((4, 4), (6 / 255 - 0.5) / 0.5))
    with pytest.raises(DataError, match=r"expected \(N, 4, 4, 3\) uint8, got \(9, 4, 4, 3\) float64"):
        PictureArrays(pixels / 2, {}, PREPROCESSING)


def test_training_turns_about_half_of_the_pictures_around_and_evaluation_none(captions: CaptionSet) -> None:
    dataset = make_dataset(captions, PictureFiles(PREPROCESSING, mirror=True))
    as_they_are = dataset[BatchRequest(tuple(range(9)))].pixels
    assert as_they_are is not None
    turned = 0
    for epoch in range(10):
        pixels = dataset[BatchRequest(tuple(range(9)), epoch)].pixels
        assert pixels is not None
        for seen, original in zip(pixels, as_they_are, strict=True):
            mirrored = torch.equal(seen, original.flip(-1))
            assert mirrored or torch.equal(seen, original)
            turned += mirrored
    assert 21 <= turned <= 69  # 90 fair coins: five deviations about 45
