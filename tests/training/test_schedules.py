"""How often mixed attention is hard, and how soft Gumbel's gradient is, by the step."""

import pytest
import torch

from captioning.attention.selection import Mixed
from captioning.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig
from captioning.errors import ConfigError
from captioning.training.hard_attention import HardAttention
from captioning.training.objectives import CrossEntropy
from captioning.training.schedules import SelectionSchedule, SelectionSettings
from tests.training import small_run


def model(selection):
    return ModelConfig(
        EncoderConfig(name="cells", weights="none"),
        AttentionConfig(width=7, selection=selection),
        DecoderConfig(state_width=11, word_width=5, dropout=0.0),
    )


def test_shares_move_in_a_line_and_temperatures_by_a_factor():
    settings = SelectionSettings(hard_share=0.2, hard_share_end=1.0, gumbel_temperature=2.0, gumbel_temperature_end=0.5)
    assert [settings.hard_share_at(each) for each in (0, 0.25, 1)] == pytest.approx([0.2, 0.4, 1.0])
    assert [settings.gumbel_temperature_at(each) for each in (0, 0.5, 1)] == pytest.approx([2.0, 1.0, 0.5])
    still = SelectionSettings(hard_share=0.3, gumbel_temperature=0.7)
    assert (still.hard_share_at(0.6), still.gumbel_temperature_at(0.6)) == pytest.approx((0.3, 0.7))


def test_nothing_moves_before_the_start_and_nothing_after_the_end():
    settings = SelectionSettings(start=3.0, epochs=4.0)
    assert [settings.progress(epoch) for epoch in (0, 3, 4, 5.5, 7, 11)] == pytest.approx([0, 0, 0.25, 0.625, 1, 1])


@pytest.mark.parametrize(
    ("selection", "name", "start", "expected"),
    # 8 pictures in batches of 4 are 2 steps an epoch: 4 steps to go, of which 3 are done before the last.
    # With a start after one epoch only one of them is.
    [
        ("mixed", "glimpses", 0.0, 3),
        ("mixed", "probability", 0.0, 0.2 + 3 / 4 * 0.8),
        ("mixed", "probability", 1.0, 0.2 + 1 / 4 * 0.8),
        ("gumbel", "temperature", 0.0, 2 * (1 / 4) ** (3 / 4)),
    ],
)
def test_training_sets_them_before_each_step(selection, name, start, expected):
    temperatures = {"gumbel_temperature": 2.0, "gumbel_temperature_end": 0.5}
    settings = SelectionSettings(0.2, 1.0, glimpses=3, **temperatures, start=start, epochs=2.0)
    objective = HardAttention(CrossEntropy()) if selection == "mixed" else CrossEntropy()
    module, loaders = small_run.make(model=model(selection), objective=objective)
    small_run.fit(module, loaders, callbacks=[SelectionSchedule(settings)], max_epochs=2, limit_val_batches=0)
    assert getattr(module.captioner.decoder.attention.selection, name) == pytest.approx(expected)


def test_a_shared_coin_falls_alike_for_all_images():
    mixed = Mixed(0.5)
    like = torch.zeros(17, 1, 5)
    torch.manual_seed(0)
    assert len({bool(coin) for coin in mixed.toss(like).flatten()}) == 2
    mixed.shared = True
    tossed = [set(mixed.toss(like).flatten().tolist()) for _ in range(40)]
    assert all(len(coins) == 1 for coins in tossed)
    assert set().union(*tossed) == {True, False}  # 40 fair coins fall alike with probability 2 / 2^40


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"hard_share": 1.5}, "objective.hard_share: expected a probability from 0 to 1, got 1.5"),
        ({"hard_share_end": -0.1}, "objective.hard_share_end: expected a probability from 0 to 1, got -0.1"),
        ({"gumbel_temperature_end": 0.0}, "objective.gumbel_temperature_end: expected a number > 0, got 0.0"),
        ({"glimpses": 0}, "objective.glimpses: expected at least 1, got 0"),
        ({"start": -1.0}, "objective.selection_start: expected a number ≥ 0, got -1.0"),
        ({"epochs": 0.0}, "objective.selection_epochs: expected a number > 0, got 0.0"),
    ],
)
def test_values_out_of_range_are_refused(settings, told):
    with pytest.raises(ConfigError, match=told):
        SelectionSettings(**settings)
