"""Every caption reader on files that no one would write, and on good ones with something broken in them."""

import io
import json
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captioning.data.formats import FORMATS, read_captions
from captioning.data.records import CaptionSet
from captioning.data.shard_stream import scan_shards
from captioning.evaluation import read_predictions
from tests.fuzz.limits import MEMORY, documented_errors_only, fuzzed, peak

FILE_FORMATS = [name for name in FORMATS if name not in ("folder", "huggingface", "webdataset")]
PIECES = [
    *("a.jpg", "b c.png", "image", "caption", "split", "train", "val", "#0", "\t", ",", "\n", "\r\n", '"', "'", "\\"),
    *("\ufeff", "\x00", " ", "a red board", "é", "e\u0301", "狗", "👨‍👩‍👧", "{", "}", "[", "]", ":", "null", "1e999"),
    *("word " * 80, "x" * 300, "[" * 3000, '{"image":' * 2000, "7" * 5000),
    *('{"image": "a.jpg", "caption": "x"}', '{"images": [', '"sentences": [{"raw": "x"}]', '"annotations": [', "../"),
]
GOOD = {
    "flickr8k": "a.jpg#0\tA red board .\nb.jpg#0\tFour colours .\n",
    "table": 'image,caption,split\na.jpg,"a red, board",train\nb.jpg,two dogs,val\n',
    "coco": json.dumps(
        {"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": [{"image_id": 1, "caption": "a dog"}]}
    ),
    "karpathy": json.dumps(
        {"images": [{"filename": "a.jpg", "split": "train", "sentences": [{"raw": "a dog"}], "cocoid": 3}]}
    ),
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(PIECES) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("images", "annotations", "id", "image_id", "file_name", "caption", "captions", "filename"),
                    *("split", "sentences", "raw", "cocoid", "filepath", "image"),
                ]
            )
            | st.text(max_size=4),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@st.composite
def broken(draw, text):
    """A good file with pieces put in, cut out or doubled."""
    content = text.encode()
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        end = draw(st.integers(start, min(len(content), start + 12)))
        put = draw(st.sampled_from(PIECES).map(str.encode) | st.binary(max_size=6))
        content = content[:start] + put + content[draw(st.sampled_from([start, end])) :]
    return content


CONTENTS = st.one_of(
    st.binary(max_size=200),
    st.lists(st.sampled_from(PIECES), max_size=30).map(lambda pieces: "".join(pieces).encode()),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.lists(JSON, max_size=4).map(lambda rows: "\n".join(map(json.dumps, rows)).encode()),
    *(broken(text) for text in GOOD.values()),
)


def check(captions):
    """What a reader gave is sound, whatever it read."""
    assert isinstance(captions, CaptionSet)
    ids = [record.image_id for record in captions.records]
    assert len(set(ids)) == len(ids)
    assert all(isinstance(text, str) and text.strip() for text in (*ids, *captions.captions))
    assert not any(letter in caption for caption in captions.captions for letter in "\r\n")


@pytest.mark.parametrize("name", [None, *FILE_FORMATS])
@given(content=CONTENTS)
@fuzzed
def test_caption_files(name, content, tmp_path):
    path = tmp_path / "captions.txt"
    path.write_bytes(content)
    before = peak()
    for faults in (None, []):
        with documented_errors_only():
            check(read_captions(path, format_name=name, check_files=False, faults=faults))
    assert peak() - before < MEMORY


@given(lists=st.dictionaries(st.sampled_from(["train", "val", "x"]), st.binary(max_size=60), min_size=1))
@fuzzed
def test_split_lists(lists, tmp_path):
    (tmp_path / "tokens.txt").write_text(GOOD["flickr8k"])
    paths = {}
    for name, content in lists.items():
        paths[name] = tmp_path / f"{name}.txt"
        paths[name].write_bytes(content)
    with documented_errors_only():
        check(read_captions(tmp_path / "tokens.txt", split_lists=paths, check_files=False))


@given(content=CONTENTS)
@fuzzed
def test_predictions(content, tmp_path):
    path = tmp_path / "predictions.json"
    path.write_bytes(content)
    with documented_errors_only():
        found = read_predictions(path)
        assert all(isinstance(text, str) for pair in found.items() for text in pair)


@given(content=CONTENTS)
@fuzzed
def test_texts_beside_pictures(content, tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"")
    (tmp_path / "a.txt").write_bytes(content)
    with documented_errors_only():
        check(read_captions(tmp_path))


@st.composite
def tar_files(draw):
    """A shard with odd members, and perhaps something broken in it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name in draw(st.lists(st.sampled_from(["a.jpg", "a.txt", "a.json", "b.png", "b/c.jpg", "b/c.txt", ".x"]))):
            content = draw(CONTENTS)
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    content = bytearray(stream.getvalue())
    for _ in range(draw(st.integers(0, 3))):
        content[draw(st.integers(0, min(len(content), 3000) - 1))] = draw(st.integers(0, 255))
    return bytes(content[: draw(st.integers(0, len(content)))]) if draw(st.booleans()) else bytes(content)


@given(content=tar_files() | st.binary(max_size=2000))
@fuzzed
def test_shards(content, tmp_path):
    path = tmp_path / "train-0.tar"
    path.write_bytes(content)
    before = peak()
    with documented_errors_only():
        check(read_captions(path))
    with documented_errors_only():
        check(scan_shards(path, tmp_path / "scan", skip_bad=True).captions)
    assert peak() - before < MEMORY
