"""From a study's file to its runs: which there are, what they are called, and when two are the same."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from captioning.ablation.folder import REQUEST, find_folder, request_of, write_json
from captioning.ablation.grid import make_plan, variants_of
from captioning.ablation.identity import identity, plain, settings_from
from captioning.ablation.study import read_study
from captioning.build import build_decoder, build_objective
from captioning.cli.settings import parse_training_config
from captioning.config import TrainingConfig
from captioning.errors import ConfigError

ROOT = Path(__file__).parent.parent.parent
STUDIES = sorted((ROOT / "configs" / "ablations").glob("*.yaml"))

SCORES = ["additive", "dot", "scaled_dot"]
LOOKING = {
    "soft": None,
    "argmax": {"search.test_time_rule": "argmax"},
    "mixed": {"model.attention.selection": "mixed", "objective.name": "hard"},
}
pytestmark = pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning")

STUDY = {
    "base": "base.yaml",
    "split": "test",
    "judged": ["exact"],
    "settings": {"trainer.max_epochs": 3},
    "axes": {"model.attention.score": SCORES, "looking": LOOKING, "objective.penalty_weight": [0.0, 1.0]},
    "extra": {"mean_pool": {"model.decoder.name": "mean_pool"}},
    "exclude": [
        {"model.attention.score": "dot", "looking": "mixed"},
        {"model.attention.score": ["scaled_dot"], "objective.penalty_weight": 1.0},
    ],
    "seeds": [3, 5],
    "reference": "additive-soft-penalty_weight_0.0",
    "sizes": {
        "small": {
            "only": ["mean_pool", "additive-soft-penalty_weight_0.0"],
            "seeds": 2,
            "settings": {"trainer.max_steps": 7},
        },
        "whole": {},
    },
}


def resolve(flags):
    return parse_training_config(flags, prog="captioning ablate")


def write_study(folder, **changes):
    (folder / "base.yaml").write_text("data: {format: drawn}\nmodel: {encoder: {name: cells, weights: none}}\n")
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({**STUDY, **changes}, sort_keys=False))
    return path


def test_the_grid_is_the_product_without_what_is_excluded_and_the_variants_beside_it(tmp_path):
    plan = make_plan(read_study(write_study(tmp_path), "whole"), resolve)
    expected = {
        f"{score}-{looking}-penalty_weight_{weight}"
        for score in SCORES
        for looking in LOOKING
        for weight in (0.0, 1.0)
        if not (score == "dot" and looking == "mixed") and not (score == "scaled_dot" and weight == 1.0)
    }
    assert {variant.name for variant in plan.variants} == expected | {"mean_pool"}
    assert plan.variants[0].name == STUDY["reference"]
    assert [run.seed for run in plan.runs] == [3] * len(plan.variants) + [5] * len(plan.variants)
    mixed = next(run for run in plan.runs if run.variant.name == "additive-mixed-penalty_weight_1.0").config
    assert (mixed.model.attention.selection, mixed.objective.name, mixed.objective.penalty_weight) == (
        "mixed",
        "hard",
        1.0,
    )
    assert mixed.trainer.max_epochs == 3


def test_a_size_picks_variants_and_adds_settings_and_the_first_is_the_default(tmp_path):
    plan = make_plan(read_study(write_study(tmp_path)), resolve)
    assert plan.study.name == "study-small"
    assert [run.variant.name for run in plan.runs] == [STUDY["reference"], "mean_pool"]
    config = plan.runs[0].config
    assert (config.seed, config.trainer.max_epochs, config.trainer.max_steps) == (2, 3, 7)


def test_flags_change_all_runs(tmp_path):
    plan = make_plan(read_study(write_study(tmp_path)), resolve, ["--trainer.max_epochs=11"])
    assert {run.config.trainer.max_epochs for run in plan.runs} == {11}


def test_another_setting_seed_or_split_is_another_run_and_a_place_is_not(tmp_path):
    config = make_plan(read_study(write_study(tmp_path)), resolve).runs[0].config
    same = replace(config, name="other", output="elsewhere", data=replace(config.data, feature_cache="there"))
    assert identity(same, "test") == identity(config, "test")
    others = [
        replace(config, seed=9),
        replace(config, optimizer=replace(config.optimizer, learning_rate=0.1)),
        replace(config, data=replace(config.data, drawn_train=17)),
        replace(config, search=replace(config.search, beam_size=2)),
    ]
    hashes = [identity(each, "test") for each in (config, *others)] + [identity(config, "val")]
    assert len(set(hashes)) == len(hashes)
    assert settings_from(TrainingConfig, plain(config)) == config


def test_a_run_is_found_again_when_its_variant_was_renamed_and_a_changed_one_is_not(tmp_path):
    run = make_plan(read_study(write_study(tmp_path)), resolve).runs[0]
    folder = find_folder(tmp_path / "runs", run)
    folder.mkdir(parents=True)
    write_json(folder / REQUEST, request_of(run))
    renamed = replace(run, variant=replace(run.variant, name="new_name"))
    assert find_folder(tmp_path / "runs", renamed) == folder
    changed = replace(run, config=replace(run.config, seed=99))
    assert find_folder(tmp_path / "runs", changed) != folder
    assert folder.name == f"{run.variant.name}-s2-{run.identity[:8]}"


WRONG = [
    ({"refrence": "x"}, "did you mean reference?"),
    ({"reference": "additive-sofd-penalty_weight_0.0"}, "did you mean additive-soft-penalty_weight_0.0?"),
    ({"exclude": [{"looking": "sideways"}]}, "axis looking has no 'sideways'; it has soft, argmax, mixed"),
    ({"exclude": [{"lookin": "soft"}]}, "no axis 'lookin'"),
    ({"settings": {"trainer.max_epoch": 3}}, "did you mean trainer.max_epochs?"),
    ({"axes": {"model.attention.score": ["additive", "dott"]}, "exclude": []}, "there is no variant"),
    ({"axes": {"model.attention.score": "additive"}}, "expected a list of values or named bundles"),
    ({"seeds": [1, 1]}, "different numbers"),
    ({"seeds": ["one"]}, "expected whole numbers"),
    ({"judged": []}, "expected one or more measures"),
    ({"judged": ["CIDER"]}, "there is no measure 'CIDER'"),
    ({"judged": ["exact"], "split": "val"}, "on the drawn set's split test"),
    ({"split": "dev"}, "expected val or test, got 'dev'"),
    (
        {"extra": {"same": {"trainer.max_epochs": 5}, "again": {"trainer.max_epochs": 5}}},
        "same and again have the same settings",
    ),
    ({"extra": {"a b": {}, "a_b": {"seed": 3}}}, "two variants are called a_b"),
    ({"base": "nowhere.yaml"}, "nowhere.yaml"),
]


@pytest.mark.parametrize(("changes", "told"), WRONG, ids=lambda value: str(value) if isinstance(value, dict) else "")
def test_a_wrong_study_is_told_in_one_line(changes, told, tmp_path):
    with pytest.raises(ConfigError) as caught:
        make_plan(read_study(write_study(tmp_path, **changes), "whole"), resolve)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_size_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ConfigError, match="--size big: expected one of small, whole"):
        read_study(write_study(tmp_path), "big")


def sizes_of(path):
    return list(yaml.safe_load(path.read_text(encoding="utf-8"))["sizes"])


def assert_every_part_can_be_built(runs):
    for run in runs:
        build_decoder(run.config.model, region_width=13, vocabulary_size=7)
        build_objective(run.config.objective, run.config.model, reward=pytest.fail)
        assert (run.config.model.attention.selection in ("hard", "mixed")) == (run.config.objective.name == "hard")


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_shipped_study_plans_in_every_size_and_has_its_controls(path):
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first == f"# captioning ablate {path.relative_to(ROOT).as_posix()}"
    assert sizes_of(path)[0] == "quick"
    for size in sizes_of(path):
        study = read_study(path, size)
        assert set(study.only) <= {variant.name for variant in variants_of(study)}
        if size == "quick":
            runs = make_plan(study, resolve).runs
            assert len(runs) <= 6
            assert_every_part_can_be_built(runs)
        else:
            assert len(study.seeds) >= 3
            assert make_plan(replace(study, only=(study.reference,)), resolve).runs
    full = make_plan(read_study(path, "full"), resolve)
    assert_every_part_can_be_built([run for run in full.runs if run.seed == full.study.seeds[0]])
    names = {variant.name for variant in full.variants}
    assert {"mean_pool", "uniform", "frozen_scores"} <= names


def test_there_are_five_studies():
    assert [path.stem for path in STUDIES] == ["attention", "decoders", "disputed_details", "encoders", "soft_hard"]
