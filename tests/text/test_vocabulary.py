"""The vocabulary: order, special words, what travels with a model (cases H16 to H19, H48)."""

import os
import subprocess
import sys

import pytest

from captioning.errors import CheckpointError, DataError
from captioning.text.tokenize import tokenize
from captioning.text.vocabulary import END, PAD, SPECIAL_WORDS, START, UNKNOWN, Vocabulary


def built(*captions: str, **options: int) -> Vocabulary:
    return Vocabulary.build([tokenize(caption) for caption in captions], **options)


def test_orders_by_count_then_text() -> None:
    vocabulary = built("b a c", "c b d", "c", minimum_count=1)
    assert vocabulary.words == (*SPECIAL_WORDS, "c", "b", "a", "d")
    assert [vocabulary[word] for word in SPECIAL_WORDS] == [UNKNOWN] * 4
    assert (PAD, START, END, UNKNOWN) == (0, 1, 2, 3)


def test_rare_words_become_unknown() -> None:
    vocabulary = built(*["a dog"] * 5, *["a cat"] * 4)
    assert "dog" in vocabulary
    assert "cat" not in vocabulary
    assert vocabulary.encode(["a", "cat"]) == [START, vocabulary["a"], UNKNOWN, END]


def test_maximum_size_counts_the_special_words() -> None:
    assert built("a b", "a", minimum_count=1, maximum_size=5).words == (*SPECIAL_WORDS, "a")


def test_only_given_captions_make_words() -> None:
    vocabulary = built(*["a red board"] * 5, minimum_count=1)
    assert len(vocabulary) == 3 + len(SPECIAL_WORDS)
    assert "zebra" not in vocabulary


@pytest.mark.parametrize(
    "caption",
    ["A dog's T-shirt.", "It's a black-and-white photo", "rock 'n' roll", "the man’s hat", "X-ray of a hand"],
)
def test_encodes_what_it_decodes(caption: str) -> None:
    vocabulary = built(caption, minimum_count=1)
    ids = vocabulary.encode(tokenize(caption))
    assert UNKNOWN not in ids
    assert vocabulary.encode(tokenize(" ".join(vocabulary.decode(ids)))) == ids


def test_decoding_stops_at_the_end_and_drops_marks() -> None:
    vocabulary = built("a dog", minimum_count=1)
    a, dog = vocabulary["a"], vocabulary["dog"]
    assert vocabulary.decode([START, a, UNKNOWN, PAD, dog, END, a, PAD]) == ["a", "<unk>", "dog"]
    assert vocabulary.decode([]) == []


def test_a_caption_cannot_spell_a_special_word() -> None:
    vocabulary = built(*["a <end> <pad> dog"] * 5)
    assert "<end>" not in vocabulary
    assert vocabulary.encode(tokenize("a <end> dog"))[2] == UNKNOWN


def test_order_is_the_same_in_every_process() -> None:
    program = (
        "from captioning.text.vocabulary import Vocabulary\n"
        "captions = [[f'w{i * j % 37}' for j in range(7)] for i in range(200)]\n"
        "print(Vocabulary.build(set(map(tuple, captions)), minimum_count=1).fingerprint())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        for seed in "012"
    ]
    assert len({run.stdout for run in runs}) == 1


def test_fingerprint_tells_orders_and_borders_apart() -> None:
    lists = [["a", "b"], ["b", "a"], ["ab"], ["a", "b", "c"]]
    assert len({Vocabulary([*SPECIAL_WORDS, *words]).fingerprint() for words in lists}) == len(lists)


def test_list_brings_the_vocabulary_back() -> None:
    vocabulary = built("a café dog", minimum_count=1)
    assert Vocabulary.from_list(vocabulary.to_list()) == vocabulary
    assert Vocabulary.from_list(vocabulary.to_list()).fingerprint() == vocabulary.fingerprint()


def test_refuses_lists_without_special_words_or_with_repeats() -> None:
    with pytest.raises(DataError, match=r"<pad>, <start>, <end>, <unk>.*Vocabulary\.build"):
        Vocabulary(["a", "b"])
    with pytest.raises(DataError, match=r"once.*'a'"):
        Vocabulary([*SPECIAL_WORDS, "a", "b", "a"])


def test_another_vocabulary_is_refused_by_sizes_and_first_word() -> None:
    words = [*SPECIAL_WORDS, *"abcdefgh"]
    mine = Vocabulary(words)
    mine.check_same(Vocabulary(words))
    with pytest.raises(CheckpointError, match=r'12 words.* 11 .*number 11 \("h" against no word\)'):
        mine.check_same(Vocabulary(words[:-1]))
    swapped = [*words[:6], words[7], words[6], *words[8:]]
    with pytest.raises(CheckpointError, match=r'12 words.* 12 .*number 6 \("c" against "d"\)'):
        mine.check_same(Vocabulary(swapped))


def test_text_needs_no_torch() -> None:
    program = "import sys, captioning.text.vocabulary, captioning.metrics; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
