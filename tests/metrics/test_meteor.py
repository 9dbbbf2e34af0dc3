"""METEOR: its parts on a tiny table by hand, its search against all alignments, its values as the Java program's."""

import json
import random
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

from captioning.errors import DataError
from captioning.metrics.meteor import Meteor, scores
from captioning.metrics.meteor.alignment import align
from captioning.metrics.meteor.matches import EXACT, PARAPHRASE, STEM, SYNONYM, Matches, Pairs, find_matches
from captioning.metrics.meteor.normalize import normalize, read_abbreviations
from captioning.metrics.meteor.stem import stem
from captioning.metrics.meteor.tables import Tables, open_tables
from captioning.metrics.meteor.words import Words
from tests.metrics.tiny_meteor import TEXTS, tables, write_source
from tests.oracles.plain_alignment import Match, plain_alignment


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return tables(tmp_path_factory.mktemp("meteor"))


def found(tiny: Tables, caption: str, reference: str) -> list[tuple[int, int, int, int, int]]:
    """Start and length in the reference, start and length in the caption, stage."""
    matches = find_matches(Pairs([caption.split()], [[reference.split()]]), tiny, Words(tiny))
    columns = (matches.start, matches.length, matches.own_start, matches.own_length, matches.stage)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_stages_by_hand(tiny: Tables) -> None:
    assert found(tiny, "the dogs", "dog the") == [(0, 1, 1, 1, STEM), (0, 1, 1, 1, SYNONYM), (1, 1, 0, 1, EXACT)]
    assert found(tiny, "a hound", "a dog") == [(0, 1, 0, 1, EXACT), (1, 1, 1, 1, SYNONYM)]
    assert found(tiny, "oxen", "bull") == [(0, 1, 0, 1, SYNONYM)]
    assert found(tiny, "went", "moves") == [(0, 1, 0, 1, SYNONYM)]
    assert found(tiny, "boxes", "box") == [(0, 1, 0, 1, STEM), (0, 1, 0, 1, SYNONYM)]
    assert found(tiny, "cat", "dog") == []


def test_paraphrases_are_found_from_both_sides(tiny: Tables) -> None:
    assert found(tiny, "beside x", "y next to") == [(1, 2, 0, 1, PARAPHRASE)]
    assert found(tiny, "x next to", "beside") == [(0, 1, 1, 2, PARAPHRASE)]
    assert found(tiny, "many", "a lot of") == [(0, 3, 0, 1, PARAPHRASE)] * 2
    assert found(tiny, "close to", "next to") == [(1, 1, 1, 1, EXACT)]


def test_equal_captions_match_exactly_and_no_other_way(tiny: Tables) -> None:
    assert found(tiny, "dogs next to dog", "dogs next to dog") == [(place, 1, place, 1, EXACT) for place in range(4)]


def test_a_value_by_hand(tiny: Tables) -> None:
    # matches: the (function word), hound-dog (synonym); "runs" and "barks" don't; one chunk of 2 words
    counts = Meteor(tiny).counts([["the", "hound", "runs"]], [[["the", "dog", "barks"]]])
    share = (0.25 + 0.75 * 0.8) / (0.75 * 2 + 0.25)
    mean = 1 / (0.15 / share + 0.85 / share)
    assert scores(counts).tolist() == pytest.approx([mean * (1 - 0.6 * (1 / 2) ** 0.2)])


def test_identity_is_maximal_and_nothing_in_common_is_zero(tiny: Tables) -> None:
    meteor = Meteor(tiny)
    captions = [["a", "dog"], ["cat"], [], ["cat"]]
    references = [[["a", "dog"]], [["dog"], ["bird"]], [["a"]], [[], ["cat"]]]
    assert scores(meteor.counts(captions, references)).tolist() == [1, 0, 0, 1]
    assert meteor.counts([], []).shape[0] == 0


def test_the_best_reference_counts_and_their_order_does_not(tiny: Tables) -> None:
    meteor = Meteor(tiny)
    references = ["a cat", "the dog runs on", "a dog runs"]
    values = [
        scores(meteor.counts([["a", "dog", "ran"]], [[text.split() for text in order]]))[0]
        for order in (references, references[::-1], references[2:])
    ]
    assert values[0] == values[1] == values[2] > 0


def best_by_trying_all(matches: list[tuple[int, int]], words: int) -> tuple[int, int]:
    """Most words, then fewest chunks, over all one-to-one choices of exact matches (reference, caption)."""
    options = [[None, *(own for start, own in matches if start == word)] for word in range(words)]
    best = (0, 0)
    for choice in product(*options):
        taken = [own for own in choice if own is not None]
        if len(set(taken)) == len(taken):
            follows = [a is not None and b == a + 1 for a, b in pairwise(choice)]
            best = max(best, (len(taken), -(len(taken) - sum(follows))))
    return best[0], -best[1]


def test_the_search_finds_what_trying_all_finds() -> None:
    generator = random.Random(3)
    for _ in range(60):
        own, other = ([generator.choice("abc") for _ in range(generator.randint(1, 5))] for _ in range(2))
        matches = [(i, j) for i, word in enumerate(other) for j, mine in enumerate(own) if word == mine]
        start, own_start = np.array(matches, dtype=np.int64).reshape(-1, 2).T
        ones, zeros = np.ones_like(start), np.zeros_like(start)
        aligned = align(
            Matches(zeros, start, ones, own_start, ones, zeros), np.array([len(own)]), np.array([len(other)])
        )
        expected = best_by_trying_all(matches, len(other))
        assert (int(aligned.taken.sum()), int(aligned.chunks[0])) == expected, (own, other)


def drawn_matches(generator: random.Random, own: int, words: int) -> list[Match]:
    """Any matches that fit, sorted by their place in the reference."""
    drawn = []
    for _ in range(generator.randint(0, 16)):
        start, own_start = generator.randrange(words), generator.randrange(own)
        exact = generator.random() < 0.5
        longest = 1 if exact else 3
        length = generator.randint(1, min(longest, words - start))
        drawn.append(Match(start, length, own_start, generator.randint(1, min(longest, own - own_start)), exact))
    return sorted(drawn, key=lambda match: match.start)


def test_the_search_of_many_pairs_takes_what_its_slow_twin_takes() -> None:
    generator = random.Random(11)
    lengths = [(generator.randint(1, 13), generator.randint(1, 11)) for _ in range(150)]
    matches = [drawn_matches(generator, own, words) for own, words in lengths]
    rows = [(pair, *match) for pair, of_pair in enumerate(matches) for match in of_pair]
    pair, start, length, own_start, own_length, exact = np.array(rows, dtype=np.int64).T
    own_words, words = np.array(lengths).T
    stage = np.where(exact, EXACT, PARAPHRASE)
    aligned = align(Matches(pair, start, length, own_start, own_length, stage), own_words, words)
    for number, of_pair in enumerate(matches):
        best = plain_alignment(of_pair, lengths[number][1])
        taken = [row[1:] for row, chosen in zip(rows, aligned.taken, strict=True) if chosen and row[0] == number]
        assert (taken, aligned.chunks[number]) == ([tuple(match) for match in best.taken], best.chunks)


def test_companions_change_nothing(tiny: Tables) -> None:
    generator = random.Random(7)
    words = ["a", "the", "dog", "dogs", "hound", "next", "to", "beside", "many", "lot", "of", "ox", "bull"]
    draw = lambda: generator.choices(words, k=generator.randint(0, 70))  # noqa: E731
    captions = [draw() for _ in range(11)]
    references = [[draw() for _ in range(generator.randint(1, 3))] for _ in captions]
    meteor = Meteor(tiny)
    together = meteor.counts(captions, references)
    alone = [meteor.counts([own], [others]) for own, others in zip(captions, references, strict=True)]
    np.testing.assert_array_equal(together, np.concatenate(alone))


STEMS = """
    running:run dogs:dog skies:sky dying:die boxes:box happily:happili nationalization:nation generously:generous
    communication:communic hopping:hop hoping:hope falling:fall controlling:control cats':cat ties:tie gas:gas
    kisses:kiss yellow:yellow skiing:ski playing:play relational:relat realization:realiz conditional:condit news:news
    irrationally:irrat feed:feed agreed:agre luxuriate:luxuri a:a
"""


@pytest.mark.parametrize("pair", STEMS.split())
def test_stems_are_those_of_the_snowball_program(pair: str) -> None:
    word, expected = pair.split(":")
    assert stem(word) == expected


def test_stems_agree_with_nltk() -> None:
    """nltk differs in a handful of words, such as those where a suffix is replaced within R2 ("realization")."""
    from nltk.stem.snowball import EnglishStemmer

    theirs = EnglishStemmer()
    endings = [
        "",
        "s",
        "'s",
        "ed",
        "ing",
        "ingly",
        "ly",
        "er",
        "ness",
        "ful",
        "able",
        "ement",
        "y",
        "ies",
        "eed",
        "ism",
    ]
    starts = ["walk", "hop", "bias", "fill", "happ", "commun", "gener", "play", "enjoy", "vie", "sk", "b", "controll"]
    starts += ["relat", "ski", "tie", "agr", "hostil", "singl"]
    words = [start + ending for start in starts for ending in endings]
    assert [stem(word) for word in words] == [theirs.stem(word) for word in words]


NORMALIZED = {
    "a black-and-white dog": "a black and white dog",
    "the man 's u.s. flag": "the man ' s us flag",
    "o'clock don't": "o 'clock don 't",
    "mr. smith": "mr. smith",
    "a sign st.": "a sign st .",
    "no. 5 no. x no. !": "no. 5 no. x no . !",
    "5,000 a,b 1,x": "5,000 a , b 1 , x",
    "wait... what": "wait ... what",
    "t-shirt $ 5": "t shirt $ 5",
    "é ü": "é ü",
    "": "",
}


@pytest.mark.parametrize("line", NORMALIZED)
def test_words_are_cut_as_the_java_program_cuts_them(line: str) -> None:
    assert normalize(line, read_abbreviations(TEXTS["abbreviations"])) == NORMALIZED[line].split()


def test_the_index_is_built_once_and_the_package_only_read(tmp_path: Path) -> None:
    source = write_source(tmp_path / "package")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "package").iterdir()}
    open_tables(source, tmp_path / "cache")
    [folder] = (tmp_path / "cache").iterdir()
    built = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    open_tables(source, tmp_path / "cache")
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == built
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "package").iterdir()} == before


def test_a_damaged_table_is_named_and_leaves_nothing_behind(tmp_path: Path) -> None:
    source = write_source(tmp_path / "package")
    source.paraphrases.write_bytes(source.paraphrases.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"paraphrase\.gz.*install pycocoevalcap anew"):
        open_tables(source, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(DataError, match="CAPTIONING_CACHE"):
        open_tables(write_source(tmp_path / "package"), tmp_path / "cache")


def test_stored_values_of_the_java_program() -> None:
    """COCO captions (CC BY 4.0) with the values that `python -m scripts.parity --sample` had its Java program give."""
    pytest.importorskip("pycocoevalcap")
    sample = json.loads(Path(__file__).with_name("coco_sample.json").read_text(encoding="utf-8"))
    rows = sample["images"]
    counts = Meteor().counts(
        [row["tokens"].split() for row in rows],
        [[tokens.split() for tokens in row["reference_tokens"]] for row in rows],
    )
    assert scores(counts).tolist() == pytest.approx([row["values"]["METEOR"] for row in rows], abs=1e-12)
    assert float(scores(counts.sum(axis=0))) == pytest.approx(sample["corpus"]["METEOR"], abs=1e-12)
