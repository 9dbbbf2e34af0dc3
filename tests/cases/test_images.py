"""Cases H01 to H07: what a decoder hands over is what a person sees; a broken file is named, never used half-read."""

import json

import numpy as np
import pytest
import torch
from PIL import ExifTags, Image, ImageFile

import captioning
from captioning.data.images import load_image
from captioning.data.records import CaptionedImage
from captioning.data.sources import PictureFiles
from captioning.data.transforms import ImageTransform
from captioning.features.preprocessing import Preprocessing
from tests.cases.making import QUARTERS, board, encoded, write_rows
from tests.cli.conftest import SMALL, call

PREPROCESSING = Preprocessing(size=96, fit="squash")


def through_the_dataset(path, preprocessing=PREPROCESSING):
    """What training and evaluation feed the encoder."""
    return PictureFiles(preprocessing).read([CaptionedImage("x", path, ("a board",), "train")], None)[0]


def through_the_captioner(monkeypatch, model, path):
    """What `captioning caption` feeds the encoder."""
    captioner = captioning.load(model)
    seen = []
    monkeypatch.setattr(captioner.encoder, "forward", lambda pixels: seen.append(pixels) or _raise())
    with pytest.raises(StopIteration):
        captioner.caption([load_image(path)])
    return seen[0][0], captioner.encoder.preprocessing


def _raise():
    raise StopIteration


@pytest.mark.parametrize(
    ("tag", "turn"), [(6, Image.Transpose.ROTATE_90), (3, Image.Transpose.ROTATE_180), (8, Image.Transpose.ROTATE_270)]
)
def test_H01_phone_photos_are_upright_on_every_path(tag, turn, model, tmp_path):
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = tag
    tagged, plain = tmp_path / "tagged.png", tmp_path / "plain.png"
    board().transpose(turn).save(tagged, exif=exif)
    board().save(plain)
    assert load_image(tagged).size == (64, 48)
    for place, color in QUARTERS.items():
        assert load_image(tagged).getpixel(place) == color
    assert torch.equal(through_the_dataset(tagged), through_the_dataset(plain))
    upright, original = captioning.load(model).caption([tagged, plain])
    assert upright.text == original.text
    assert upright.placement == original.placement
    np.testing.assert_allclose(upright.maps, original.maps, atol=1e-6)  # two rows of one batch
    assert call("caption", model, tagged, "--overlay", tmp_path / "maps") == 0
    assert json.loads((tmp_path / "maps" / "tagged.json").read_text())["picture_size"] == [64, 48]


def test_H02_16_bit_grey_keeps_its_levels():
    ramp = np.tile((np.arange(256) * 257).astype(np.uint16), (32, 1))
    for kind in ("PNG", "TIFF"):
        seen = np.asarray(load_image(encoded(Image.fromarray(ramp), kind)))
        for level in (32, 128, 224):
            assert np.abs(seen[16, level].astype(int) - level).max() <= 2
        assert len(np.unique(seen[..., 0])) >= 200


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK"])
def test_H03_grey_pictures_go_the_same_way_in_training_and_prediction(mode, model, tmp_path, monkeypatch, capsys):
    path = tmp_path / ("picture.tif" if mode == "CMYK" else "picture.png")
    board().convert(mode.replace("LA", "L")).convert(mode).save(path)
    assert call("caption", model, path) == 0
    assert capsys.readouterr().out.startswith(f"{path}\t")
    pixels, preprocessing = through_the_captioner(monkeypatch, model, path)
    assert torch.equal(pixels, through_the_dataset(path, preprocessing))
    assert pixels.shape[0] == 3


@pytest.fixture
def eleven(tmp_path):
    """Ten whole pictures and one cut off, with captions; noise, so that what is missing of it shows."""
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    whole = encoded(noise, "JPEG")
    names = [f"whole_{number}.jpg" for number in range(10)] + ["cut.jpg"]
    for name in names:
        (tmp_path / name).write_bytes(whole[: len(whole) // 2] if name == "cut.jpg" else whole)
    rows = [(name, "a red board", "val" if number < 2 else "train") for number, name in enumerate(names)]
    return write_rows(tmp_path / "captions.jsonl", *rows)


def test_H04_a_cut_off_picture_is_named_or_skipped_and_counted(eleven, tmp_path, capsys, caplog):
    switch = ImageFile.LOAD_TRUNCATED_IMAGES
    options = (*SMALL, "--data.captions", eleven, "--output", tmp_path / "runs", "--trainer.max_epochs", 1)
    assert call("train", *options, "--data.workers", 2, "--trainer.monitor", "BLEU-4") == 2
    told = capsys.readouterr().err
    error = told.strip().splitlines()[-1]
    assert error.startswith("captioning train: ")
    assert "cut.jpg: damaged or cut off" in error
    assert "Traceback" not in told
    with caplog.at_level("WARNING"):
        done = call("train", *options, "--data.workers", 2, "--name", "skip", "--data.on_bad_image", "skip")
    assert done == 0
    assert "train 8 images, 8 captions; val 2 images, 2 captions; 1 images skipped" in caplog.text
    [line] = (tmp_path / "runs" / "skip" / "skipped_images.tsv").read_text().splitlines()
    assert line.startswith("cut.jpg\t")
    assert json.loads((tmp_path / "runs" / "skip" / "scores.json").read_text())["images_skipped"] == 1
    assert ImageFile.LOAD_TRUNCATED_IMAGES == switch is False


def test_H05_a_web_page_under_an_image_name_is_told_and_the_rest_goes_on(model, board_file, tmp_path, capsys):
    page = tmp_path / "page.jpg"
    page.write_text("<!DOCTYPE html><html><head><title>404</title></head><body>Not Found</body></html>")
    assert call("caption", model, page, board_file, "--json", tmp_path / "captions.json") == 1
    told = capsys.readouterr()
    assert [row["image_id"] for row in json.loads((tmp_path / "captions.json").read_text())] == [str(board_file)]
    assert told.out.startswith(f"{board_file}\t")
    [error] = told.err.strip().splitlines()
    assert "page.jpg" in error
    assert "HTML" in error


@pytest.mark.parametrize(("size", "color"), [((1, 1), (220, 30, 30)), ((1000, 1), (30, 180, 30)), ((1, 3), (9, 9, 99))])
@pytest.mark.parametrize("fit", ["crop", "squash", "pad"])
def test_H06_one_pixel_is_no_channel(size, color, fit, model, board_file, tmp_path, capsys):
    path = tmp_path / "tiny.png"
    Image.new("RGB", size, color).save(path)
    preprocessing = Preprocessing(size=13, fit=fit)
    pixels, placement = ImageTransform(preprocessing)(load_image(path))
    assert pixels.shape == (3, 13, 13)
    seen = pixels[:, 6, 6] if fit == "pad" else pixels.mean((1, 2))
    expected = (torch.tensor(color) / 255 - torch.tensor(preprocessing.mean)) / torch.tensor(preprocessing.deviation)
    torch.testing.assert_close(seen, expected, atol=1e-3, rtol=0)
    assert (placement.width, placement.height) == size
    assert call("caption", model, path, board_file) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_H07_the_content_decides_and_what_is_left_out_is_named(model, board_file, tmp_path, capsys):
    webp = tmp_path / "webp.jpg"
    webp.write_bytes(encoded(board(), "WEBP", lossless=True))
    (tmp_path / "no_suffix").write_bytes(encoded(board(), "JPEG"))
    (tmp_path / "notes.txt").write_text("a list of things")
    assert torch.equal(through_the_dataset(webp), through_the_dataset(board_file))
    assert call("caption", model, tmp_path) == 0
    told = capsys.readouterr()
    assert [line.split("\t")[0] for line in told.out.splitlines()] == [
        str(tmp_path / name) for name in ("board.png", "no_suffix", "webp.jpg")
    ]
    assert "1 file that is no picture left out: notes.txt" in told.err
