"""`captioning caption`, `evaluate` and `features`: results, partial failures, and the same numbers everywhere."""

import json

import numpy as np
import pytest
from PIL import Image

import captioning
from captioning.cli.main import main
from captioning.metrics import score
from tests.cli.conftest import SMALL, call


def test_captions_overlays_maps_words_and_a_page(trained, drawn, tmp_path, capsys):
    pictures = [drawn / "test_00000.png", drawn / "test_00001.png"]
    folder = tmp_path / "maps"
    arguments = ("--overlay", folder, "--frames", "--json", tmp_path / "captions.json")
    assert call("caption", trained, *pictures, *arguments) == 0
    lines = capsys.readouterr().out.strip().split("\n")
    captions = captioning.load(trained).caption(pictures)
    assert lines == [f"{path}\t{caption.text}" for path, caption in zip(pictures, captions, strict=True)]
    stored = json.loads((folder / "test_00000.json").read_text())
    assert stored["words"] == list(captions[0].words)
    assert stored["log_probabilities"] == pytest.approx(captions[0].log_probabilities, abs=1e-5)
    maps = np.load(folder / "test_00000.npz")["maps"]
    np.testing.assert_allclose(maps, captions[0].maps, atol=1e-6)
    assert maps.shape == (len(captions[0].words), 6, 6)
    Image.open(folder / "test_00000.png").verify()
    assert len(list(folder.glob("test_00000_*_*.png"))) == len(captions[0].words)
    assert captions[0].text in (folder / "index.html").read_text()
    rows = json.loads((tmp_path / "captions.json").read_text())
    assert [row["caption"] for row in rows] == [caption.text for caption in captions]


@pytest.mark.parametrize("suffix", ["pdf", "svg"])
def test_filmstrips_in_other_formats(trained, drawn, tmp_path, suffix):
    options = ("--overlay", tmp_path, "--format", suffix, "--color_map", "viridis", "--opacity", "0.5")
    assert call("caption", trained, drawn / "test_00000.png", *options) == 0
    start = (tmp_path / f"test_00000.{suffix}").read_bytes()[:5]
    assert start.startswith(b"%PDF" if suffix == "pdf" else b"<")


def test_a_bad_file_is_named_and_the_rest_goes_on(trained, drawn, tmp_path, capsys):
    page = tmp_path / "page.jpg"
    page.write_text("<!doctype html><html>not found</html>")
    assert call("caption", trained, drawn / "test_00000.png", page, tmp_path / "missing.jpg") == 1
    told = capsys.readouterr()
    assert len(told.out.strip().split("\n")) == 1
    assert "page.jpg" in told.err
    assert "HTML" in told.err
    assert "missing.jpg" in told.err
    assert "Traceback" not in told.err


def test_a_given_text_is_shown_as_the_model_reads_it(trained, drawn, tmp_path):
    picture = drawn / "test_00002.png"
    assert call("caption", trained, picture, "--text", "A red circle, above.", "--overlay", tmp_path) == 0
    stored = json.loads((tmp_path / "test_00002.json").read_text())
    assert stored["words"] == ["a", "red", "circle", "above"]
    [scored] = captioning.load(trained).score([picture], ["a red circle above"])
    assert stored["log_probabilities"] == pytest.approx(scored.log_probabilities, abs=1e-5)


def test_scoring_a_searched_caption_gives_its_own_numbers_and_maps(trained, drawn):
    captioner = captioning.load(trained)
    [searched] = captioner.caption([drawn / "test_00003.png"], beam_size=3)
    [scored] = captioner.score([drawn / "test_00003.png"], [searched.text])
    words = len(searched.words)
    assert scored.log_probabilities[:words] == pytest.approx(searched.log_probabilities[:words], abs=1e-4)
    np.testing.assert_allclose(scored.maps, searched.maps, atol=1e-5)


def test_a_caption_does_not_depend_on_its_batch(trained, drawn):
    captioner = captioning.load(trained)
    pictures = [drawn / f"test_{i:05d}.png" for i in range(5)]
    together = captioner.caption(pictures, batch_size=5)
    for batch_size in (1, 3):
        apart = captioner.caption(pictures[::-1], batch_size=batch_size)[::-1]
        for one, other in zip(together, apart, strict=True):
            assert one.words == other.words
            assert one.score == pytest.approx(other.score, abs=1e-4)
            np.testing.assert_allclose(one.maps, other.maps, atol=1e-5)


def test_evaluate_equals_the_scores_of_the_run_and_of_the_file(trained, drawn, tmp_path, capsys):
    captions = ("--captions", drawn / "captions.jsonl")
    assert call("evaluate", trained, *captions, "--output", tmp_path) == 0
    by_model = capsys.readouterr().out
    assert call("evaluate", "--predictions", tmp_path / "predictions.json", *captions) == 0
    by_file = capsys.readouterr().out
    scores = json.loads((tmp_path / "scores.json").read_text())["scores"]
    assert scores == pytest.approx(json.loads((trained / "scores.json").read_text())["scores"])
    assert "beam size 5" in by_model
    assert "test time rule expected" in by_model
    table = [line.split("|")[2:] for line in (by_model.split("\n")[2], by_file.split("\n")[2])]
    assert table[0] == table[1]
    rows = [json.loads(line) for line in (drawn / "captions.jsonl").read_text().splitlines()]
    references = {row["image"]: [row["caption"]] for row in rows if row["split"] == "val"}
    said = {row["image_id"]: row["caption"] for row in json.loads((tmp_path / "predictions.json").read_text())}
    assert scores["CIDEr-D"] == pytest.approx(score(said, references).corpus["CIDEr-D"])


def test_evaluate_wants_a_model_or_predictions(drawn, capsys):
    assert call("evaluate", "--captions", drawn / "captions.jsonl") == 2
    assert "either a MODEL or --predictions" in capsys.readouterr().err


def test_wrong_commands_and_help(capsys):
    assert main(["capton"]) == 2
    assert "did you mean 'caption'?" in capsys.readouterr().err
    assert main(["--help"]) == 0
    assert "evaluate" in capsys.readouterr().out
    assert main([]) == 2
    assert main(["--version"]) == 0


def test_a_damaged_model_is_refused(trained, tmp_path, drawn, capsys):
    model = tmp_path / "model"
    model.mkdir()
    for name in ("captioner.json", "weights.safetensors"):
        content = bytearray((trained / "model" / name).read_bytes())
        if name.endswith("safetensors"):
            content[-100] ^= 1
        (model / name).write_bytes(content)
    assert call("caption", model, drawn / "test_00000.png") == 2
    assert "checksum" in capsys.readouterr().err


def test_sentinels_and_heads_are_written_beside_the_maps(drawn, tmp_path):
    picture = drawn / "test_00000.png"
    settings = ("--data.captions", drawn / "captions.jsonl", "--output", tmp_path, "--trainer.max_epochs", 1)
    for name, more in (("adaptive", ()), ("transformer", ("--model.decoder.heads", 3))):
        sizes = SMALL if name == "adaptive" else [*SMALL[:4], *SMALL[6:]]  # all heads are scaled_dot, no settings
        assert call("train", *sizes, *settings, "--model.decoder.name", name, "--name", name, *more) == 0
        assert call("caption", tmp_path / name, picture, "--text", "a red circle", "--overlay", tmp_path / name) == 0
    stored = json.loads((tmp_path / "adaptive" / "test_00000.json").read_text())
    maps = np.load(tmp_path / "adaptive" / "test_00000.npz")
    np.testing.assert_allclose(maps["maps"].sum((1, 2)) + stored["sentinel"], np.ones(3), atol=1e-5)
    of_heads = np.load(tmp_path / "transformer" / "test_00000.npz")
    assert of_heads["heads"].shape == (3, 3, 6, 6)
    np.testing.assert_allclose(of_heads["heads"].mean(1), of_heads["maps"], atol=1e-6)
    assert len(list((tmp_path / "transformer").glob("test_00000_head*.png"))) == 3
