"""The searches at the command line: their options, several captions a picture, ensembles, and what is refused."""

import json

import numpy as np
import pytest

import captioning
from captioning.cli.settings import parse_training_config
from captioning.decoding.search import DEFAULTS, Search
from captioning.errors import ConfigError
from captioning.text.vocabulary import SPECIAL_WORDS, Vocabulary
from tests.captioner.models import pictures, saved
from tests.cli.conftest import call


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("models")
    saved(made / "soft")
    saved(made / "transformer", "transformer", seed=2)
    saved(made / "other", vocabulary=Vocabulary([*SPECIAL_WORDS, "a", "cat"]))
    for number, picture in enumerate(pictures(2)):
        picture.save(made / f"{number}.png")
    return made


def printed(capsys):
    return [line.split("\t") for line in capsys.readouterr().out.strip("\n").split("\n")]


def test_sampling_prints_every_sample_and_repeats_them_with_the_seed(folder, tmp_path, capsys):
    paths = [folder / "0.png", folder / "1.png"]
    options = ("--method", "sampling", "--samples", 5, "--top_p", 0.9, "--json", tmp_path / "samples.json")
    assert call("caption", folder / "soft", *paths, *options, "--seed", 4) == 0
    lines = printed(capsys)
    assert [path for path, _ in lines] == [str(path) for path in paths for _ in range(5)]
    expected = captioning.load(folder / "soft").n_best(paths, seed=4, method="sampling", samples=5, top_p=0.9)
    assert [text for _, text in lines] == [each.text for captions in expected for each in captions]
    rows = json.loads((tmp_path / "samples.json").read_text())
    assert [row["image_id"] for row in rows] == [path for path, _ in lines]
    assert [row["score"] for row in rows] == pytest.approx([each.score for found in expected for each in found])
    assert call("caption", folder / "soft", *paths, *options, "--seed", 5) == 0
    assert printed(capsys) != lines


def test_n_best_of_a_diverse_beam_with_overlays(folder, tmp_path, capsys):
    options = ("--method", "diverse", "--beam_size", 4, "--groups", 2, "--n_best", 3, "--overlay", tmp_path)
    assert call("caption", folder / "soft", folder / "0.png", *options, "--must_include", "red ball") == 0
    lines = printed(capsys)
    assert len(lines) == 3
    assert all({"red", "ball"} <= set(text.split()) for _, text in lines)
    assert {path.name for path in tmp_path.glob("*.json")} == {"0.json", "0-2.json", "0-3.json"}


def test_an_ensemble_writes_every_members_maps(folder, tmp_path, capsys):
    options = ("--ensemble", folder / "transformer", "--overlay", tmp_path, "--no_dangling_end", "true")
    assert call("caption", folder / "soft", folder / "0.png", *options) == 0
    [[_, text]] = printed(capsys)
    members = [captioning.load(folder / name) for name in ("soft", "transformer")]
    [caption] = captioning.Ensemble(members).caption([folder / "0.png"], no_dangling_end=True)
    assert text == caption.text
    for number, member in enumerate(caption.members, start=1):
        stored = np.load(tmp_path / f"0_member{number}.npz")
        np.testing.assert_allclose(stored["maps"], member.maps, atol=1e-5)
        assert (tmp_path / f"0_member{number}.png").is_file()
    assert np.load(tmp_path / "0_member2.npz")["heads"].shape[1] == 2
    assert "soft + " in (tmp_path / "index.html").read_text()
    assert call("caption", folder / "soft", folder / "0.png", *options[:2], "--text", "a dog") == 0
    assert printed(capsys) == [[str(folder / "0.png"), "a dog"]]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--must_include", "cat"), "must_include: expected words of the vocabulary, got 'cat'"),
        (("--top_k", 3), "top_k: expected None with method beam, got 3: only sampling reads it; add method sampling"),
        (("--method", "sampling", "--must_include", "dog"), "a drawn word can't be steered"),
        (("--method", "diverse", "--groups", 2), "groups: expected a number that divides beam_size 3, got 2"),
        (("--ensemble", "other"), "they differ first at number 5"),
        (("--n_best", 0), "n: expected at least 1 caption an image, got 0"),
        (("--n_best", 2, "--text", "a dog"), "n_best: expected nothing beside --text"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(folder, options, told, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    assert call("caption", "soft", "0.png", *options) == 2
    [line] = capsys.readouterr().err.strip().split("\n")
    assert told in line


def test_every_setting_of_a_search_is_a_flag_with_help(capsys):
    for command in ("caption", "evaluate"):
        with pytest.raises(SystemExit):
            call(command, "--help")
        told = capsys.readouterr().out
        for name in DEFAULTS:
            assert f"--{name} " in told


def test_a_config_holds_a_search_and_refuses_one_that_cannot_be():
    arguments = ["--search.method", "sampling", "--search.samples", "3", "--search.banned_words", "man woman"]
    config = parse_training_config(arguments, prog="captioning train")
    assert config.search == Search(method="sampling", samples=3, banned_words="man woman")
    with pytest.raises(ConfigError, match=r"top_p: expected None with method beam, got 0\.5"):
        parse_training_config(["--search.top_p", "0.5"], prog="captioning train")
