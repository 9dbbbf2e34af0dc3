from collections import Counter

import numpy as np
import pytest

from captioning.data.sampler import BatchRequest, EvaluationSampler, TrainingSampler
from captioning.errors import DataError

LENGTHS = np.random.default_rng(5).integers(3, 30, size=212).tolist()


def epoch(sampler: TrainingSampler, number: int) -> list[tuple[int, ...]]:
    sampler.set_epoch(number)
    return [request.images for request in sampler]


def test_every_image_comes_once_an_epoch_and_every_epoch_otherwise() -> None:
    sampler = TrainingSampler(LENGTHS, batch_size=7, window=3)
    epochs = [epoch(sampler, number) for number in range(3)]
    for batches in epochs:
        assert sorted(image for batch in batches for image in batch) == list(range(212))
        assert len(batches) == len(sampler) == 31
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]


def test_seed_and_epoch_alone_make_the_batches() -> None:
    first, second = (TrainingSampler(LENGTHS, batch_size=7, seed=3) for _ in range(2))
    later = epoch(second, 5)
    assert epoch(first, 5) == later
    assert epoch(first, 2) == epoch(second, 2)
    assert epoch(TrainingSampler(LENGTHS, batch_size=7, seed=4), 5) != later


def test_batches_hold_captions_of_like_length() -> None:
    def padding(batches: list[tuple[int, ...]]) -> int:
        return sum(max(LENGTHS[i] for i in batch) - LENGTHS[image] for batch in batches for image in batch)

    bucketed = padding(epoch(TrainingSampler(LENGTHS, batch_size=7, window=50), 0))
    shuffled = padding(epoch(TrainingSampler(LENGTHS, batch_size=7, window=1), 0))
    # One window sorts everything: the padding telescopes to at most (longest - shortest) * batch_size.
    assert bucketed <= (29 - 3) * 7
    assert shuffled > 5 * bucketed


def test_the_batches_of_an_epoch_do_not_come_in_order_of_length() -> None:
    longest = [max(LENGTHS[i] for i in batch) for batch in epoch(TrainingSampler(LENGTHS, batch_size=7), 0)]
    assert longest != sorted(longest)
    assert longest != sorted(longest, reverse=True)


@pytest.mark.parametrize("images", [210, 211, 212, 3, 5])
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_processes_share_the_steps_that_one_process_would_take(images: int, world_size: int) -> None:
    lengths = LENGTHS[:images]
    shared = [
        TrainingSampler(lengths, batch_size=6 // world_size, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    shares = [epoch(sampler, 1) for sampler in shared]
    assert {len(share) for share in shares} == {len(shared[0])}
    assert all(batch for share in shares for batch in share)
    assert Counter(image for share in shares for batch in share for image in batch) == Counter(range(images))
    if images % 6 == 0 or images % 6 >= world_size:
        whole = epoch(TrainingSampler(lengths, batch_size=6), 1)
        steps = [set().union(*step) for step in zip(*shares, strict=True)]
        assert steps == [set(step) for step in whole]


def test_fewer_images_than_processes_are_refused() -> None:
    with pytest.raises(DataError, match="one or more a process, got 2 for 3"):
        TrainingSampler([5, 5], batch_size=4, world_size=3)


def test_a_resumed_epoch_goes_on_with_the_batches_that_were_not_seen() -> None:
    unbroken = TrainingSampler(LENGTHS, batch_size=7)
    resumed = TrainingSampler(LENGTHS, batch_size=7)
    resumed.skip(13, epoch=2)
    assert epoch(resumed, 2) == epoch(unbroken, 2)[13:]
    assert len(resumed) == len(unbroken)
    assert epoch(resumed, 3) == epoch(unbroken, 3)


@pytest.mark.parametrize(("images", "batch_size"), [(5, 1), (5, 2), (9, 4), (1, 1), (16, 4), (2, 4)])
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_evaluation_shows_each_image_once_over_all_processes(images: int, batch_size: int, world_size: int) -> None:
    shares = [
        list(EvaluationSampler(images, batch_size=batch_size, rank=rank, world_size=world_size))
        for rank in range(world_size)
    ]
    assert sorted(image for share in shares for request in share for image in request.images) == list(range(images))
    assert all(request == BatchRequest(request.images, None) for share in shares for request in share)
    if images >= world_size:
        assert len({len(share) for share in shares}) == 1
