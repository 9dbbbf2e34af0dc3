"""WebDataset shards: tar files in which a picture and its captions share a name, dog.jpg with dog.txt or dog.json."""

import json
import re
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from captioning.data.faults import Fault
from captioning.data.image_files import IMAGE_SUFFIXES
from captioning.data.records import CaptionedImage, CaptionSet, clean
from captioning.data.splits import FRACTIONS, SPLITS, split_by_hash, split_name
from captioning.data.table import COLUMN_NAMES
from captioning.errors import ConfigError, DataError, ImageError

CAPTION_SUFFIXES = (".txt", ".json")
"""Where a sample's captions are looked for: the lines of a text, or the captions in an object."""
_STREAMED = re.compile(r"(pipe|https?|s3|gs|hdfs|ais|file):.*")


@dataclass(frozen=True)
class ShardMember:
    """A picture's place in a shard that lies on this machine."""

    shard: str
    offset: int
    size: int

    def __call__(self) -> bytes:
        """Its bytes. Raises ImageError."""
        try:
            with open(self.shard, "rb") as file:
                file.seek(self.offset)
                return file.read(self.size)
        except OSError as error:
            raise ImageError(f"{self.shard}: can't be read ({error.strerror})") from error


@dataclass(frozen=True)
class Sample:
    """A picture in a shard with its captions."""

    key: str
    """What its files are called, without suffix."""
    picture: str
    """The picture's name in the shard."""
    captions: tuple[str, ...]
    offset: int
    """Where the picture begins in the tar file."""
    size: int
    """Its bytes."""
    content: bytes = b""
    """The picture's file, where it was asked for."""


class _Member(NamedTuple):
    """A file in a shard; the bytes of a picture only where they were asked for."""

    name: str
    offset: int
    size: int
    content: bytes

    @property
    def suffix(self) -> str:
        return "." + self.name.rsplit(".", 1)[-1].lower()

    @property
    def key(self) -> str:
        """What a sample is called: a file's path up to the first dot of its name."""
        path = PurePosixPath(self.name)
        return (path.parent / path.name.split(".", 1)[0]).as_posix()


def is_shards(source: Any) -> bool:
    """Whether a data source is a shard, a pattern of shards ("train-{000..099}.tar") or a folder with shards in it."""
    if isinstance(source, str | Path) and Path(source).is_dir():
        return any(Path(source).glob("*.tar"))
    return isinstance(source, str | Path) and re.search(r"\.tar(\.\w+)?\W*$", str(source)) is not None


def find_shards(source: str | Path) -> list[str]:
    """The shards that a folder or a pattern with {000..099} or {a,b} means, in order. Raises DataError for none."""
    if Path(source).is_dir():
        return sorted(map(str, Path(source).glob("*.tar")))
    shards = list(_package("braceexpand").braceexpand(str(source))) if "{" in str(source) else [str(source)]
    missing = [shard for shard in shards if not is_streamed(shard) and not Path(shard).is_file()]
    if missing:
        raise DataError(f"{missing[0]}: no such shard ({len(missing)} of {len(shards)} are missing); check {source}")
    return shards


def is_streamed(shard: str) -> bool:
    """Whether a shard can only be read from end to end: it comes over a network, or is compressed."""
    return _STREAMED.fullmatch(shard) is not None or not shard.endswith(".tar")


def read_webdataset(
    source: str | Path,
    *,
    fractions: Mapping[str, float] = FRACTIONS,
    check_files: bool = True,
    faults: list[Fault] | None = None,
) -> CaptionSet:
    """Read the captions of all shards and where their pictures lie; no picture is decoded or copied.

    The split is what a shard's name says (val-000.tar), else `fractions` split by the hash of a picture's key. Shards
    that can only be streamed are refused: `shard_stream` trains on them.
    """
    shards = find_shards(source)
    streamed = [shard for shard in shards if is_streamed(shard)]
    if streamed:
        raise DataError(f"{streamed[0]}: can only be read from end to end; set --data.stream true, or fetch the shards")
    found = {shard: list(read_samples(shard)) for shard in shards}
    ids = unique_ids({shard: [sample.key for sample in samples] for shard, samples in found.items()})
    records = []
    for shard, samples in found.items():
        for sample, image_id in zip(samples, ids[shard], strict=True):
            split = split_of_shard(shard) or split_by_hash(sample.key, fractions)
            member = ShardMember(shard, sample.offset, sample.size)
            records.append(CaptionedImage(image_id, Path(shard) / sample.picture, sample.captions, split, member))
    return clean(records, check_files=check_files, faults=faults)


def unique_ids(keys: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Shard -> the id of each of its samples: the key, after the shard's name where several shards hold it."""
    times = Counter(key for own in keys.values() for key in own)
    return {
        shard: [key if times[key] == 1 else f"{Path(shard).stem}/{key}" for key in own] for shard, own in keys.items()
    }


def split_of_shard(shard: str) -> str:
    """The split that a shard's name states; empty where it states none."""
    words = re.split(r"[^a-zA-Z]+", PurePosixPath(shard.rsplit("/", 1)[-1]).name)
    return next((split for split in map(split_name, words) if split in SPLITS), "")


def read_samples(shard: str, *, with_pictures: bool = False) -> Iterator[Sample]:
    """The samples of a shard in one pass, one after the other; neighbours of one name are a sample.

    A sample without a picture is passed over. Raises DataError for what is no tar file, or is cut off.
    """
    with _opened(shard) as archive:
        for key, files in groupby(_members(archive, shard, with_pictures), key=lambda member: member.key):
            sample = _sample(key, {member.suffix: member for member in files})
            if sample is not None:
                yield sample


def _sample(key: str, files: Mapping[str, _Member]) -> Sample | None:
    picture = next((file for suffix, file in files.items() if suffix in IMAGE_SUFFIXES), None)
    if picture is None:
        return None
    text = next((files[suffix] for suffix in CAPTION_SUFFIXES if suffix in files), None)
    captions = () if text is None else decode_captions(text.content, text.suffix, text.name)
    return Sample(key, picture.name, captions, picture.offset, picture.size, picture.content)


def _members(archive: tarfile.TarFile, shard: str, with_pictures: bool) -> Iterator[_Member]:
    """The files of a shard. Each is read when it comes, since a stream can't go back."""
    last = "the beginning"
    try:
        for each in archive:
            archive.members.clear()  # type: ignore[attr-defined]  # else a note of every file would be kept
            if not each.isfile() or PurePosixPath(each.name).name.startswith("."):
                continue
            member = _Member(each.name, each.offset_data, each.size, b"")
            if with_pictures or member.suffix in CAPTION_SUFFIXES:
                stream = archive.extractfile(each)
                member = member._replace(content=b"" if stream is None else stream.read())
            yield member
            last = each.name
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise DataError(f"{shard}: damaged or cut off after {last} ({error}); fetch the shard again") from error


@contextmanager
def _opened(shard: str) -> Iterator[tarfile.TarFile]:
    """The tar file at a path, or of what the `webdataset` package can open. Raises DataError."""
    streamed = is_streamed(shard)
    try:
        stream = _package("webdataset.gopen").gopen(shard) if _STREAMED.fullmatch(shard) else open(shard, "rb")  # noqa: SIM115
    except OSError as error:
        raise DataError(f"{shard}: can't be opened ({error})") from error
    with stream:
        try:
            archive = tarfile.open(fileobj=stream, mode="r|*" if streamed else "r:")  # noqa: SIM115 (closed below)
        except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
            raise DataError(f"{shard}: expected a tar file of samples ({error})") from error
        with archive:
            yield archive


def decode_captions(content: bytes, suffix: str, name: str) -> tuple[str, ...]:
    """The captions in the bytes of a .txt or .json file. Raises DataError."""
    try:
        text = content.decode("utf-8-sig")
        if suffix == ".txt":
            return tuple(line for line in text.splitlines() if line.strip())
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name}: expected captions in UTF-8 or JSON ({error})") from error
    if not isinstance(values, dict):
        raise DataError(f"{name}: expected an object with a caption, got {str(values)[:60]}")
    found = next((values[column] for column in COLUMN_NAMES["caption"] if column in values), None)
    listed: Sequence[Any] = found if isinstance(found, list) else [found]
    if not all(each is None or isinstance(each, str) for each in listed):
        raise DataError(f"{name}: expected captions as text, got {str(found)[:60]}")
    return tuple(each for each in listed if each)


def fingerprint(shards: Sequence[str]) -> str:
    """Tells one list of shards from another, also where a local one was written anew."""
    facts = [Path(shard).stat() if Path(shard).is_file() else None for shard in shards]
    marks = [(shard, own and (own.st_size, own.st_mtime_ns)) for shard, own in zip(shards, facts, strict=True)]
    return sha256(json.dumps(marks).encode()).hexdigest()


def _package(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"format webdataset: the package {name.split('.')[0]} is not installed; pip install "
            "'captioning[webdataset]'"
        ) from error
