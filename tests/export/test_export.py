"""An exported captioner says what the captioner says, word for word, and looks where it looks."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from captioning.build import build_captioner
from captioning.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig
from captioning.decoding.search import Search
from captioning.errors import ConfigError
from captioning.export import loop
from captioning.export.write import export_captioner
from captioning.text.vocabulary import SPECIAL_WORDS, Vocabulary

CELLS = EncoderConfig(name="cells", weights="none")
VOCABULARY = Vocabulary([*SPECIAL_WORDS, *(f"word{number}" for number in range(19))])
SMALL = {"state_width": 12, "word_width": 12}


def captioner(*, encoder=CELLS, search=None, score="additive", locality="global", **decoder):
    """Fresh weights, enlarged so that captions of different pictures differ."""
    torch.manual_seed(5)
    of_its_own = decoder.get("name") == "transformer"
    attention = AttentionConfig() if of_its_own else AttentionConfig(width=7, score=score, locality=locality)
    model = ModelConfig(encoder, attention, DecoderConfig(**SMALL, **decoder))
    made = build_captioner(model, VOCABULARY, search or Search(beam_size=1, maximum_length=6)).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(3)
    return made


@pytest.fixture
def pictures(tmp_path):
    """Three files, one of them lying on its side by its EXIF tag."""
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    for path, color in zip(paths, ([255, 0, 0], [0, 255, 0], [0, 40, 255]), strict=True):
        fading = np.linspace(0.2, 1, 137).reshape(1, -1, 1) * np.array(color) * np.ones((101, 1, 1))
        Image.fromarray(fading.astype(np.uint8)).save(path)
    tag = Image.Exif()
    tag[274] = 6
    Image.open(paths[2]).save(paths[2], exif=tag)
    return paths


def say(folder, pictures):
    told = json.loads((folder / "export.json").read_text())
    encoder, step = (loop.load_program(folder / told["files"][name]) for name in ("encoder", "step"))
    return [loop.caption(loop.read_pixels(path, told["preprocessing"]), encoder, step, told) for path in pictures]


def assert_same_captions(made, folder, pictures):
    expected = made.caption(pictures, beam_size=1)
    said = say(folder, pictures)
    assert [words for words, _ in said] == [list(caption.words) for caption in expected]
    for (words, maps), caption in zip(said, expected, strict=True):
        if words:
            np.testing.assert_allclose(maps, caption.maps, atol=1e-4)
    assert len({caption.words for caption in expected}) > 1


DECODERS = [
    {"name": "show_attend_tell"},
    {"name": "show_attend_tell", "score": "dot", "locality": "local_m", "gate": "vector"},
    {"name": "top_down", "score": "general", "locality": "local_p"},
    {"name": "adaptive"},
    {"name": "mean_pool"},
    {"name": "marginal"},
    {"name": "transformer", "heads": 3, "layers": 2},
    {"name": "transformer", "heads": 2, "layers": 1, "positions": "relative", "grid_positions": "learned"},
]


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: " ".join(map(str, decoder.values())))
def test_the_plain_loop_gives_the_greedy_captions(decoder, pictures, tmp_path):
    made = captioner(**decoder)
    assert_same_captions(made, export_captioner(made, tmp_path / "exported"), pictures)


@pytest.mark.parametrize("fit", ["crop", "squash", "pad"])
def test_a_convolutional_encoder_with_any_fit(fit, pictures, tmp_path):
    encoder = EncoderConfig(name="resnet18", weights="none", image_size=64, fit=fit)
    made = captioner(encoder=encoder, search=Search(maximum_length=6, minimum_length=4))
    assert_same_captions(made, export_captioner(made, tmp_path / "exported"), pictures)


@pytest.mark.parametrize("decoder", [DECODERS[0], DECODERS[6]], ids=lambda decoder: decoder["name"])
def test_onnx_gives_the_greedy_captions(decoder, pictures, tmp_path):
    pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    made = captioner(**decoder)
    assert_same_captions(made, export_captioner(made, tmp_path / "exported", form="onnx"), pictures)


def test_the_loop_runs_beside_its_graphs_without_this_package(pictures, tmp_path):
    made = captioner()
    folder = export_captioner(made, tmp_path / "exported", batch_size=2)
    forbid = "import sys; sys.modules['captioning'] = None; import runpy; sys.argv.pop(0)"
    code = f"{forbid}; runpy.run_path(sys.argv[0], run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder / "loop.py"), *map(str, pictures)],
        cwd=tmp_path,
        env={"PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    expected = [f"{path}\t{caption.text}" for path, caption in zip(pictures, made.caption(pictures), strict=True)]
    assert done.stdout.splitlines() == expected


def test_a_rule_that_draws_at_random_is_refused_and_nothing_is_written(tmp_path):
    made = captioner(search=Search(beam_size=1, test_time_rule="sample"))
    with pytest.raises(ConfigError, match="expected test_time_rule expected or argmax, got sample"):
        export_captioner(made, tmp_path / "exported")
    assert list(tmp_path.iterdir()) == []
