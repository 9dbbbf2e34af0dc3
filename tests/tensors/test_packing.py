"""Real words only, in order of time."""

import torch

from captioning.tensors.packing import PackedWords

LENGTHS = torch.tensor([[4, 2, 3], [2, 5, 0], [1, 1, 1]])
IS_WORD = torch.arange(5) < LENGTHS.unsqueeze(-1)


def test_packing_lists_each_word_once_by_time():
    words = PackedWords.of(IS_WORD)
    assert len(words.time) == LENGTHS.sum()
    assert words.time.tolist() == sorted(words.time.tolist())
    pairs = set(zip(words.caption.tolist(), words.time.tolist(), strict=True))
    assert pairs == {(b * 3 + m, t) for b in range(3) for m in range(3) for t in range(LENGTHS[b, m])}


def test_running_images_cover_every_word():
    words = PackedWords.of(IS_WORD)
    assert words.running == (3, 2, 2, 2, 2)  # the second image has the longest caption


def test_rows_index_the_concatenation_of_the_steps():
    words = PackedWords.of(IS_WORD)
    values = torch.arange(3 * 3 * 5).view(3, 3, 5)
    steps = torch.cat([values[:count, :, t].flatten() for t, count in enumerate(words.running)])
    torch.testing.assert_close(steps[words.rows], words.pack(values))


def test_unpack_inverts_pack_and_sums_agree():
    words = PackedWords.of(IS_WORD)
    values = torch.randn(3, 3, 5, 2)
    there_and_back = words.unpack(words.pack(values))
    torch.testing.assert_close(there_and_back, values * IS_WORD.unsqueeze(-1))
    torch.testing.assert_close(words.sum_over_time(words.pack(values)), there_and_back.sum(2))


def test_no_words_at_all():
    words = PackedWords.of(torch.zeros(2, 3, 4, dtype=torch.bool))
    assert words.running == (1,)
    assert words.pack(torch.randn(2, 3, 4)).shape == (0,)
    assert words.sum_over_time(torch.randn(0, 5)).shape == (2, 3, 5)
