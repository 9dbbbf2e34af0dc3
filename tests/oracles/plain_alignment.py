"""METEOR's search for one pair, a path at a time, as its Java program goes about it: the slow twin of `align`."""

from typing import NamedTuple

BEAM = 40


class Match(NamedTuple):
    """A possible match."""

    start: int
    length: int
    own_start: int
    own_length: int
    exact: bool

    @property
    def own_words(self) -> set[int]:
        return set(range(self.own_start, self.own_start + self.own_length))

    @property
    def gain(self) -> int:
        return int(self.length * (1 if self.exact else 0.5)) + int(self.own_length * (1 if self.exact else 0.5))

    @property
    def jump(self) -> int:
        return abs(self.start - self.own_start)


class Path(NamedTuple):
    """What was taken up to some word."""

    taken: tuple[Match, ...] = ()
    matched: int = 0
    chunks: int = 0
    distance: int = 0
    end: int = -1
    free: int = 0

    @property
    def rank(self) -> tuple[int, int, int]:
        return (-self.matched, self.chunks, self.distance)

    def take(self, match: Match, paid: int) -> "Path":
        broken = self.end not in (-1, match.own_start)
        end, free = match.own_start + match.own_length, match.start + match.length
        taken, matched = (*self.taken, match), self.matched + match.gain
        return Path(taken, matched, self.chunks + broken, self.distance + paid, end, free)

    def skip(self, paid: int) -> "Path":
        return self._replace(
            chunks=self.chunks + (self.end != -1), distance=self.distance + paid, end=-1, free=self.free + 1
        )

    def closed(self) -> "Path":
        return self._replace(chunks=self.chunks + (self.end != -1))


def plain_alignment(matches: list[Match], words: int) -> Path:
    """The best path through a reference of so many words; matches are in the order in which they are tried."""
    alone = {match for match in matches if sum(_touch(match, other) for other in matches) == 1}
    paths = [Path()]
    for word in range(words):
        here = [match for match in matches if match.start == word]
        paths = [child for path in _first(paths) for child in _children(path, word, here, alone)]
    return _first([path.closed() for path in _first(paths)])[0]


def _first(paths: list[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: path.rank)[:BEAM]


def _touch(first: Match, second: Match) -> bool:
    other = range(second.start, second.start + second.length)
    return bool(set(range(first.start, first.start + first.length)) & set(other) or first.own_words & second.own_words)


def _children(path: Path, word: int, here: list[Match], alone: set[Match]) -> list[Path]:
    if path.free > word:
        return [path]
    if len(here) == 1 and here[0] in alone:
        return [path.take(here[0], here[0].jump)]
    used = set().union(*(match.own_words for match in path.taken))
    children, paid = [], 0
    for match in here:
        if not used & match.own_words:
            children.append(path.take(match, paid))
            paid += match.jump
    return [*children, path.skip(paid)]
