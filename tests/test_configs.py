"""Every config that ships: its first line is its command, it is complete, and it trains."""

import shlex
from pathlib import Path

import pytest

from captioning.cli.settings import parse_training_config
from captioning.data.synthetic import draw_set, write_drawn_set
from tests.cli.conftest import call

ROOT = Path(__file__).parent.parent
STUDIES = ROOT / "configs" / "ablations"
CONFIGS = sorted(path for path in (ROOT / "configs").rglob("*.yaml") if STUDIES not in path.parents)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawn")
    return write_drawn_set(folder, draw_set(train=8, val=3, test=1))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_first_line_is_the_command(path):
    first = path.read_text(encoding="utf-8").split("\n", 1)[0]
    words = shlex.split(first.removeprefix("# "))
    assert words[:4] == ["captioning", "train", "--config", path.relative_to(ROOT).as_posix()]
    config = parse_training_config(["--config", str(path), *words[4:]], prog="captioning train")
    assert config.name == path.stem


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_it_trains_for_a_step_on_drawn_pictures(path, pictures, tmp_path):
    arguments = ["--config", path, "--output", tmp_path, "--trainer.max_steps", "1", "--trainer.progress_bar", "false"]
    if "format: drawn" in path.read_text(encoding="utf-8"):
        arguments += ["--data.drawn_train", "16", "--data.drawn_test", "2"]
    else:
        arguments += ["--model.encoder.weights", "none", "--model.encoder.image_size", "64"]
        arguments += ["--model.decoder.state_width", "64"]  # the presets' widths would take most of the time
        arguments += ["--data.format", "table", "--data.captions", pictures, "--data.splits", "{}"]
        arguments += ["--data.images", pictures.parent, "--data.minimum_count", "1"]
        arguments += ["--data.feature_cache", tmp_path / "features"]
    arguments += ["--trainer.accelerator", "cpu", "--trainer.sample_images", "1", "--search.maximum_length", "5"]
    assert call("train", *arguments) == 0
    assert (tmp_path / path.stem / "scores.json").is_file()


def test_the_hard_presets_hold_the_released_coefficients_on_our_scale():
    """The released code sums over a batch of B: 1/10 of the reward's mean over T = 11 words, 0.002 of entropies."""
    paper, released = (
        parse_training_config(["--config", str(ROOT / "configs" / f"{name}.yaml")], prog="captioning train")
        for name in ("paper_hard", "released_hard")
    )
    for config in (paper, released):
        captions = config.data.batch_size * (config.data.captions_per_image or 5)
        assert config.objective.entropy_weight == pytest.approx(0.002 * captions)
        assert (config.objective.returns, config.objective.entropy) == ("whole", "pathwise")
    assert paper.objective.reward_weight == 1  # the exact gradient of the mean caption loss
    assert released.objective.reward_weight == pytest.approx(captions / (10 * 11), abs=0.005)
    assert (paper.objective.shared_coin, released.objective.shared_coin) == (False, True)
