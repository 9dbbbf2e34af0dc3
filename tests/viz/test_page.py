"""The page: everything inside, everything escaped, each word with its map in the right place."""

import base64
import subprocess
import sys
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from captioning.errors import ShapeError
from captioning.features.geometry import Box, Placement
from captioning.viz.overlay import MapStyle, map_layer
from captioning.viz.page import PageEntry, write_page

Tag = tuple[str, dict[str, str | None]]


class Reader(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[Tag] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def of_class(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for _, attributes in self.tags if name in (attributes.get("class") or "").split()]


def one_hot(rows: int, columns: int, row: int, column: int) -> np.ndarray:
    weights = np.zeros((rows, columns))
    weights[row, column] = 1
    return weights


def entry(**changes: object) -> PageEntry:
    values: dict[str, object] = {
        "name": "dog.jpg",
        "image": Image.new("RGB", (1000, 500), (200, 180, 160)),
        "words": ["a", "dog"],
        "maps": np.stack([np.full((5, 3), 0.02), one_hot(5, 3, 1, 2)]),
        "placement": Placement(1000, 500, Box(250, 0, 750, 500)),
        "log_probabilities": [-0.25, -1.5],
    }
    return PageEntry(**(values | changes))


def read(tmp_path: Path, entries: list[PageEntry], **settings: object) -> Reader:
    path = tmp_path / "pages" / "index.html"
    write_page(path, entries, **({"title": "Captions"} | settings))
    return Reader(path.read_text(encoding="utf-8"))


def decode(uri: str | None) -> Image.Image:
    assert uri is not None
    return Image.open(BytesIO(base64.b64decode(uri.split(",", 1)[1])))


def test_nothing_lies_outside_the_page(tmp_path: Path) -> None:
    page = read(tmp_path, [entry(), entry()])
    assert not {tag for tag, _ in page.tags} & {"link", "iframe", "object", "embed", "base"}
    for tag, attributes in page.tags:
        assert "href" not in attributes, tag
        assert (attributes.get("src") or "data:").startswith("data:"), tag
    text = (tmp_path / "pages" / "index.html").read_text(encoding="utf-8")
    assert "http://" not in text
    assert "https://" not in text
    assert "url(" not in text
    assert "default-src 'none'" in text


def test_each_word_is_a_button_with_its_map_and_its_log_probability(tmp_path: Path) -> None:
    page = read(tmp_path, [entry()])
    words = page.of_class("word")
    assert len(words) == 2
    assert "probability 0.78, log-probability −0.25" in words[0]["data-reading"]
    assert "probability 0.22, log-probability −1.50" in words[1]["data-reading"]
    assert words[0]["data-reading"].endswith("largest weight 0.02, the same everywhere")
    assert words[1]["data-reading"].endswith("largest weight 1.00, 67% from the left, 30% from the top")
    assert [tag for tag, attributes in page.tags if "data-map" in attributes] == ["button", "button"]


@pytest.mark.parametrize("normalization", ["word", "caption"])
def test_maps_are_the_overlays_layers(tmp_path: Path, normalization: str) -> None:
    style = MapStyle(normalization=normalization)
    given = entry()
    for number, word in enumerate(read(tmp_path, [given], style=style).of_class("word")):
        shown = decode(word["data-map"]).convert("RGBA")
        maximum = style.maxima(given.maps)[number]
        expected = map_layer(given.maps[number], given.placement, shown.size, style, maximum=maximum)
        assert shown.width / shown.height == pytest.approx(2, rel=0.02)
        assert np.abs(np.asarray(shown, int) - np.asarray(expected, int)).mean() < 3


def test_photos_are_small_and_keep_their_proportions(tmp_path: Path) -> None:
    page = read(tmp_path, [entry()])
    photo = next(attributes for tag, attributes in page.tags if tag == "img" and "alt" in attributes)
    assert decode(photo["src"]).size == (880, 440)
    assert photo["alt"] == "dog.jpg: a dog"
    assert "aspect-ratio: 1000 / 500" in page.of_class("frame")[0]["style"]


def test_all_text_is_escaped(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\"'&"
    given = entry(name=evil, words=[evil, "</p>"], note=evil, references=[evil])
    page = read(tmp_path, [given], title=evil, introduction=evil, scores={evil: 0.5})
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    # title twice, introduction, score, word, name, note, reference
    assert "".join(page.text).count(evil) == 8
    assert page.of_class("word")[0]["data-reading"].startswith(evil)
    assert [attributes["alt"] for tag, attributes in page.tags if tag == "img"] == [
        f"{evil}: {evil} </p>",
        "",
    ]


def test_title_introduction_scores_notes_and_references_are_shown(tmp_path: Path) -> None:
    given = entry(note="beam 3", references=["a dog runs", "a brown dog"])
    page = read(tmp_path, [given], introduction="Ten photos.", scores={"BLEU-4": 0.2314, "CIDEr-D": 0.5})
    for text in ("Captions", "Ten photos.", "BLEU-4", "0.231", "0.500", "dog.jpg · beam 3", "a brown dog"):
        assert text in page.text
    plain = read(tmp_path, [entry()])
    assert not {"dl", "details"} & {tag for tag, _ in plain.tags}


def test_an_empty_caption_and_an_impossible_word_are_shown(tmp_path: Path) -> None:
    empty = entry(words=[], maps=np.zeros((0, 5, 3)), log_probabilities=[])
    impossible = entry(log_probabilities=[0.0, -np.inf])
    page = read(tmp_path, [empty, impossible])
    assert "no words" in page.text
    assert "probability 0.00, log-probability −inf" in page.of_class("word")[1]["data-reading"]


def test_a_peak_in_the_padding_is_told(tmp_path: Path) -> None:
    placement = Placement(1000, 500, Box(0, -250, 1000, 750))
    given = entry(maps=np.stack([one_hot(4, 4, 0, 1), one_hot(4, 4, 1, 1)]), placement=placement)
    words = read(tmp_path, [given]).of_class("word")
    assert words[0]["data-reading"].endswith("outside the photo")
    assert words[1]["data-reading"].endswith("38% from the left, 25% from the top")


def test_entries_have_to_fit() -> None:
    with pytest.raises(ShapeError, match=r"log_probabilities of dog\.jpg: expected one for each of the 2 words, got 3"):
        entry(log_probabilities=[0.0, 0.0, 0.0])
    with pytest.raises(ShapeError, match=r"expected \(1, rows, columns\)"):
        entry(words=["a"])
    with pytest.raises(ShapeError, match="1000 x 500"):
        entry(image=Image.new("RGB", (500, 1000)))


def test_pictures_need_no_torch() -> None:
    code = (
        "import sys, captioning.viz.page, captioning.viz.filmstrip; "
        "sys.exit(bool({'torch', 'pytorch_lightning', 'matplotlib'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
