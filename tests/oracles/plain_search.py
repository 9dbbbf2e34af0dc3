"""Searches over a transition table as plain loops over lists of words: slow, obvious twins of `captioning.decoding`.

A prefix is a tuple of word numbers; `may_follow` and `obeys` say the constraints in words. Every search runs to the
longest length, and no tensor holds more than one number.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from captioning.decoding.constraints import Constraints
from tests.oracles.transition_table import rescore

START = 1
Words = tuple[int, ...]
Result = tuple[bool, float, Words]
"""Whether it ended, its score, its words."""


def repeats(words: Words, size: int) -> bool:
    ngrams = [words[i : i + size] for i in range(len(words) - size + 1)]
    return len(set(ngrams)) < len(ngrams)


def may_follow(words: Words, word: int, wanted: Constraints) -> bool:
    """Whether `word` may come after `words`."""
    begun = wanted.beginning[len(words) : len(words) + 1]
    if begun and word != begun[0]:
        return False
    if word == wanted.end:
        long_enough = len(words) >= wanted.minimum_length
        return long_enough and not set(words[-1:]) & set(wanted.dangling) and set(wanted.must_include) <= set(words)
    if word in wanted.forbidden:
        return False
    return wanted.no_repeat_ngram == 0 or not repeats((*words, word), wanted.no_repeat_ngram)


def obeys(words: Words, wanted: Constraints) -> bool:
    """Whether an ended caption is as wanted, said without looking at how it came about."""
    return (
        not set(words) & {*wanted.forbidden, wanted.end}
        and wanted.minimum_length <= len(words) < wanted.maximum_length
        and not (wanted.no_repeat_ngram and repeats(words, wanted.no_repeat_ngram))
        and (not words or words[-1] not in wanted.dangling)
        and set(wanted.must_include) <= set(words)
        and words[: len(wanted.beginning)] == wanted.beginning
    )


def total(table: Tensor, image: int, words: Words) -> float:
    return math.fsum(rescore(table, image, START, words))


def continuations(table: Tensor, image: int, beams: list[Words], wanted: Constraints) -> list[tuple[float, Words]]:
    """All that may follow, best first."""
    found = [
        (total(table, image, (*words, word)), (*words, word))
        for words in beams
        for word in range(table.shape[-1])
        if may_follow(words, word, wanted)
    ]
    return sorted(found, reverse=True)


def beam(table: Tensor, image: int, size: int, wanted: Constraints, penalty: Callable[[int], float]) -> list[Result]:
    """A beam, or with words that must appear one for each number of them."""
    banks: list[list[Words]] = [[()]] + [[] for _ in wanted.must_include]
    ended: list[Result] = []
    reached = wanted.maximum_length
    for length in range(1, wanted.maximum_length + 1):
        chosen: list[list[Words]] = [[] for _ in banks]
        for _, words in continuations(table, image, [each for bank in banks for each in bank], wanted):
            bank = chosen[len(set(words) & set(wanted.must_include))]
            if len(bank) < size:
                bank.append(words)
        everything = [words for bank in chosen for words in bank]
        if not everything:  # nothing may follow any more
            reached = length - 1
            break
        ended += [
            (True, total(table, image, words) / penalty(length), words[:-1])
            for words in everything
            if words[-1] == wanted.end
        ]
        banks = [[words for words in bank if words[-1] != wanted.end] for bank in chosen]
    last = next((bank for bank in reversed(banks) if bank), [])
    cut = [(False, total(table, image, words) / penalty(reached), words) for words in last]
    return sorted(ended + cut, reverse=True)[:size]


def diverse(
    table: Tensor, image: int, groups: int, size: int, diversity: float, wanted: Constraints
) -> list[tuple[bool, Words]]:
    """Diverse beams ranked by their sums, as sorted results of all groups."""
    beams: list[list[Words]] = [[()] for _ in range(groups)]
    ended: list[list[Result]] = [[] for _ in range(groups)]
    for _ in range(wanted.maximum_length):
        said_now: list[int] = []
        for group in range(groups):
            scored = [
                (sum_ - diversity * said_now.count(words[-1]), words)
                for sum_, words in continuations(table, image, beams[group], wanted)
            ]
            best = [words for _, words in sorted(scored, reverse=True)[:size]]
            ended[group] += [(True, total(table, image, w), w[:-1]) for w in best if w[-1] == wanted.end]
            beams[group] = [words for words in best if words[-1] != wanted.end]
            said_now += [words[-1] for words in best]
    results = []
    for group in range(groups):
        cut = [(False, total(table, image, words), words) for words in beams[group]]
        results += sorted(ended[group] + cut, reverse=True)[:size]
    return [(finished, words) for finished, _, words in sorted(results, reverse=True)]


def sharpened(row: Tensor, *, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None) -> dict:
    """Word -> the probability that it is drawn with; words that can't be drawn are left out."""
    masses = {word: math.exp(value / temperature) for word, value in enumerate(row.tolist()) if value > -math.inf}
    by_mass = sorted(masses, key=masses.__getitem__, reverse=True)[:top_k]
    if top_p is not None:
        whole, kept, reached = math.fsum(masses[word] for word in by_mass), [], 0.0
        for word in by_mass:
            if reached >= top_p * whole:
                break
            kept.append(word)
            reached += masses[word]
        by_mass = kept
    whole = math.fsum(masses[word] for word in by_mass)
    return {word: masses[word] / whole for word in by_mass}


def drawn_captions(table: Tensor, image: int, wanted: Constraints, **settings) -> dict[Result, float]:
    """(ended, words) -> probability, of every caption that sampling can give."""
    found: dict = {}
    waiting: list[tuple[float, Words]] = [(1.0, ())]
    while waiting:
        chance, words = waiting.pop()
        read = (START, START, *words)
        row = table[image, read[-2], read[-1]].clone()
        row[[word for word in range(len(row)) if not may_follow(words, word, wanted)]] = -torch.inf
        probabilities = sharpened(row, **settings) if len(words) < wanted.maximum_length else {}
        if not probabilities:
            found[False, words] = chance
        for word, probability in probabilities.items():
            if word == wanted.end:
                found[True, words] = chance * probability
            else:
                waiting.append((chance * probability, (*words, word)))
    return found
