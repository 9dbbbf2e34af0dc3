"""Which of the possible matches to take: METEOR's beam search, over all pairs of captions and references at once.

From the first to the last word of the reference, a path takes one of the matches that begin there or none. At each
word the paths of a pair are put in order (more words matched, then fewer chunks, then shorter distances; ties stay in
the order in which they arose), and the first `BEAM` go on. Three things are as in METEOR 1.5 and not as one would
expect, and change which of several equal alignments wins:

- a word matched other than exactly counts as half a word, rounded down for each match;
- a match that touches no other possible match is taken in any case;
- a path that chooses pays the distances of the matches that were tried before its own, not its own.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from captioning.metrics.meteor.matches import EXACT, Matches

BEAM = 40
Integers = NDArray[np.int64]
Truths = NDArray[np.bool_]

_BITS = 63
"""Words of a caption that one number holds a bit for."""


class Alignments(NamedTuple):
    """The best alignment of each pair."""

    taken: Truths
    """(N,) which of the matches belong to it."""
    chunks: Integers
    """(pairs,) runs of matches that follow one another on both sides."""


class _Paths(NamedTuple):
    """Unfinished alignments (P,), grouped by pair, in order within a pair."""

    pair: Integers
    matched: Integers
    """Words matched on both sides, those matched other than exactly counting half."""
    chunks: Integers
    distance: Integers
    end: Integers
    """Where the open chunk ends in the caption; -1 without one."""
    free: Integers
    """The first word of the reference that no match covers yet."""
    used: Integers
    """(P, ...) bits of the caption's words that are matched."""

    def rows(self, chosen: Integers | Truths) -> "_Paths":
        return _Paths(*(column[chosen] for column in self))


class _Choices(NamedTuple):
    """The possible matches, as the search needs them."""

    first: Integers
    """(pairs, words) the first match that begins at a word of the reference."""
    many: Integers
    """(pairs, words) how many begin there."""
    forced: Truths
    """(pairs, words) whether the only one is taken in any case."""
    gain: Integers
    """(N,) what a match adds to `matched`."""
    bits: Integers
    """(N, ...) the caption's words that it covers."""


def align(matches: Matches, own_lengths: Integers, lengths: Integers) -> Alignments:
    """The best alignment of each pair, given the lengths (pairs,) of its caption and of its reference."""
    choices = _prepare(matches, own_lengths, lengths)
    history: list[tuple[Integers, Integers]] = []
    best = np.zeros(len(lengths), dtype=np.int64)
    chunks = np.zeros(len(lengths), dtype=np.int64)
    paths = _start(len(lengths), choices.bits.shape[1])
    for word in range(int(lengths.max(initial=0)) + 1):
        paths, kept = _keep_best(paths)
        done = lengths[paths.pair] == word
        _finish(paths, kept, done, best, chunks)
        paths, parents, taken = _step(paths, np.flatnonzero(~done), word, choices, matches)
        history.append((kept[parents], taken))
    return Alignments(_trace_back(history, best, lengths, len(matches.pair)), chunks)


def _prepare(matches: Matches, own_lengths: Integers, lengths: Integers) -> _Choices:
    shape = (len(lengths), int(lengths.max(initial=0)) + 1)
    place = matches.pair * shape[1] + matches.start
    count = np.bincount(place, minlength=shape[0] * shape[1])
    first = np.cumsum(count) - count
    cover = _coverage(matches.pair, matches.start, matches.length, shape)
    width = int(own_lengths.max(initial=0)) + 1
    own_cover = _coverage(matches.pair, matches.own_start, matches.own_length, (len(lengths), width))
    alone = (count[place] == 1) & (cover == matches.length) & (own_cover == matches.own_length)
    forced = np.zeros(shape[0] * shape[1], dtype=bool)
    forced[place[alone]] = True
    weight = np.where(matches.stage == EXACT, 1, 2)
    gain = matches.length // weight + matches.own_length // weight
    bits = _bits(matches.own_start, matches.own_length, width)
    return _Choices(first.reshape(shape), count.reshape(shape), forced.reshape(shape), gain, bits)


def _coverage(pair: Integers, start: Integers, length: Integers, shape: tuple[int, int]) -> Integers:
    """(N,) for each match, how often its words are covered by matches of its pair, itself included."""
    times = np.zeros((shape[0], shape[1] + 1), dtype=np.int64)
    np.add.at(times, (pair, start), 1)
    np.add.at(times, (pair, start + length), -1)
    sums = np.cumsum(np.cumsum(times, axis=1), axis=1)  # words covered so far, each as often as it is covered
    before = np.where(start > 0, sums[pair, start - 1], 0)
    return sums[pair, start + length - 1] - before


def _bits(start: Integers, length: Integers, width: int) -> Integers:
    covers = np.zeros((len(start), width // _BITS + 1), dtype=np.int64)
    rows = np.repeat(np.arange(len(start)), length)
    places = np.repeat(start - np.cumsum(length) + length, length) + np.arange(int(length.sum()))
    np.bitwise_or.at(covers, (rows, places // _BITS), np.int64(1) << places % _BITS)
    return covers


def _start(pairs: int, columns: int) -> _Paths:
    zeros = np.zeros(pairs, dtype=np.int64)
    used = np.zeros((pairs, columns), dtype=np.int64)
    return _Paths(np.arange(pairs), zeros, zeros, zeros, end=zeros - 1, free=zeros, used=used)


def _keep_best(paths: _Paths) -> tuple[_Paths, Integers]:
    """The first `BEAM` of each pair in order, and where they were."""
    order = np.lexsort((paths.distance, paths.chunks, -paths.matched, paths.pair))
    pair = paths.pair[order]
    places = np.arange(len(order))
    begins = np.append(True, pair[1:] != pair[:-1])[: len(order)]
    order = order[places - np.maximum.accumulate(np.where(begins, places, 0)) < BEAM]
    return paths.rows(order), order


def _finish(paths: _Paths, rows: Integers, done: Truths, best: Integers, chunks: Integers) -> None:
    """Note the row of the best path, and its chunks, for each pair that has come to its end."""
    places = np.flatnonzero(done)
    closed = paths.rows(places)
    closed = closed._replace(chunks=closed.chunks + (closed.end >= 0))
    first, order = _keep_best(closed)
    pairs, firsts = np.unique(first.pair, return_index=True)
    best[pairs] = rows[places[order[firsts]]]
    chunks[pairs] = first.chunks[firsts]


def _step(
    paths: _Paths, going: Integers, word: int, choices: _Choices, matches: Matches
) -> tuple[_Paths, Integers, Integers]:
    """The paths a word further, the row that each came from, and the match that it took (-1: none)."""
    pair = paths.pair[going]
    inside = paths.free[going] > word
    forced = choices.forced[pair, word] & ~inside
    count = np.where(inside, 0, choices.many[pair, word])
    children = np.where(forced, 1, count + 1)
    parents = np.repeat(going, children)
    number = np.arange(len(parents)) - np.repeat(np.cumsum(children) - children, children)
    takes = number < np.repeat(count, children)
    match = np.where(takes, np.repeat(choices.first[pair, word], children) + number, -1)
    possible = ~takes
    possible[takes] = ~(paths.used[parents[takes]] & choices.bits[match[takes]]).any(axis=1)
    jumps = np.zeros(len(parents), dtype=np.int64)
    tried = possible & takes
    jumps[tried] = np.abs(matches.start[match[tried]] - matches.own_start[match[tried]])
    paid = _paid(jumps, children, np.repeat(forced, children))
    parents, match, takes, paid = parents[possible], match[possible], takes[possible], paid[possible]
    inside = paths.free[parents] > word
    return _moved(paths.rows(parents), match, paid, inside, word, choices, matches), parents, match


def _paid(jumps: Integers, children: Integers, forced: Truths) -> Integers:
    """The distance that each child pays: its own where it is forced, else those of its elder siblings."""
    sums = np.cumsum(jumps)
    begins = np.cumsum(children) - children
    before = np.repeat((sums - jumps)[begins], children) if len(jumps) else sums
    return np.where(forced, jumps, sums - jumps - before)


def _moved(
    paths: _Paths, match: Integers, paid: Integers, inside: Truths, word: int, choices: _Choices, matches: Matches
) -> _Paths:
    takes = match >= 0
    taken = match[takes]
    skips = ~takes & ~inside
    own_start = np.full(len(match), -1)
    own_start[takes] = matches.own_start[taken]
    end, free = paths.end.copy(), paths.free.copy()
    end[skips] = -1
    end[takes] = (matches.own_start + matches.own_length)[taken]
    free[skips] = word + 1
    free[takes] = word + matches.length[taken]
    broken = (paths.end >= 0) & ~inside & (own_start != paths.end)
    matched, used = paths.matched.copy(), paths.used.copy()
    matched[takes] += choices.gain[taken]
    used[takes] |= choices.bits[taken]
    return _Paths(paths.pair, matched, paths.chunks + broken, paths.distance + paid, end, free, used)


def _trace_back(history: list[tuple[Integers, Integers]], best: Integers, lengths: Integers, matches: int) -> Truths:
    """(N,) the matches on the best path of each pair."""
    taken = np.zeros(matches, dtype=bool)
    rows = best.copy()
    for word in reversed(range(len(history))):
        going = lengths > word
        came_from, match = history[word]
        chosen = match[rows[going]]
        taken[chosen[chosen >= 0]] = True
        rows[going] = came_from[rows[going]]
    return taken
