"""What training looks at while it runs: maps, the gradient of the scores, and rewards that fall."""

import logging
import math
from types import SimpleNamespace

import pytest
import torch

from captioning.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig
from captioning.decoders.reading import Reading
from captioning.errors import TrainingError
from captioning.tensors.packing import PackedWords
from captioning.training.alarms import STEPS_WITHOUT_GRADIENT, RewardAlarm, ScoreAlarm, describe_maps, score_gradient
from captioning.training.hard_attention import HardAttention
from captioning.training.objectives import CrossEntropy
from tests.training import small_run

HARD = ModelConfig(
    EncoderConfig(name="cells", weights="none"),
    AttentionConfig(width=7, selection="hard"),
    DecoderConfig(state_width=11, word_width=5, dropout=0.0),
)


def reading(*captions):
    """Of one image; a caption is a list of maps."""
    longest = max(len(maps) for maps in captions)
    is_word = torch.tensor([[[place < len(maps) for place in range(longest)] for maps in captions]])
    words = PackedWords.of(is_word)
    filled = torch.zeros(1, len(captions), longest, len(captions[0][0]))
    for place, maps in enumerate(captions):
        filled[0, place, : len(maps)] = torch.tensor(maps)
    return Reading(torch.zeros(len(words.time), 1), words.pack(filled), words)


def test_maps_that_are_even_and_maps_of_one_cell():
    even, first, last = [1 / 3] * 3, [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]
    found = describe_maps(reading([even, even]))
    assert found["entropy"].item() == pytest.approx(math.log(3))
    assert found["effective_cells"].item() == pytest.approx(3)
    assert found["map_change"].item() == found["map_distance"].item() == 0
    found = describe_maps(reading([first, last, last], [first]))
    assert found["entropy"] == 0
    assert found["effective_cells"] == 1
    assert found["map_change"].item() == pytest.approx(1 / 2)  # all of it moves once in two words that follow another
    assert found["map_distance"].item() == pytest.approx(1 / 2)  # each from (1/2, 0, 1/2)


def test_a_single_word_has_no_change():
    assert describe_maps(reading([[0.5, 0.5]]))["map_change"] == 0


def test_scores_without_gradient_end_the_run_after_some_steps_in_a_row():
    alarm, none, some = ScoreAlarm(), torch.zeros(()), torch.ones(())
    for norm in [none] * (STEPS_WITHOUT_GRADIENT - 1) + [some] + [none] * (STEPS_WITHOUT_GRADIENT - 1):
        alarm.look(norm)
    with pytest.raises(TrainingError, match="expected its scores to get a gradient, got none in 20 steps"):
        alarm.look(none)


@pytest.mark.parametrize("reward_weight", [0.0, 1.0])
def test_hard_attention_that_samples_without_a_gradient_is_stopped(reward_weight):
    """Trap: captions look fine, since the words learn to do without."""
    objective = HardAttention(CrossEntropy(penalty_weight=0.0), reward_weight=reward_weight)
    module, loaders = small_run.make(4, model=HARD, objective=objective)
    if reward_weight:
        small_run.fit(module, loaders, max_epochs=STEPS_WITHOUT_GRADIENT + 1, limit_val_batches=0)
    else:
        with pytest.raises(TrainingError, match=r"set objective\.reward_weight above 0"):
            small_run.fit(module, loaders, max_epochs=STEPS_WITHOUT_GRADIENT + 1, limit_val_batches=0)
        assert module.global_step == STEPS_WITHOUT_GRADIENT - 1


def test_the_gradient_of_the_scores_is_the_norm_over_all_their_parameters():
    decoder = small_run.make(4, model=HARD)[0].captioner.decoder
    assert score_gradient(decoder) == 0
    for parameter in decoder.attention.score.parameters():
        parameter.grad = torch.full_like(parameter, 2.0)
    count = sum(parameter.numel() for parameter in decoder.attention.score.parameters())
    assert score_gradient(decoder).item() == pytest.approx(2 * math.sqrt(count))
    decoder.attention.score.requires_grad_(False)
    assert score_gradient(decoder) is None


def watched(alarm, rewards):
    """How many steps a run goes that gets these rewards."""
    strategy = SimpleNamespace(reduce_boolean_decision=lambda decision, **how: decision)
    trainer = SimpleNamespace(strategy=strategy, should_stop=False)
    for step, reward in enumerate(rewards):
        alarm.on_train_batch_end(trainer, SimpleNamespace(reported={"reward": reward}))
        if trainer.should_stop:
            return step
    return len(rewards)


def test_falling_rewards_end_the_run_with_a_message(caplog):
    good, bad = [0.5] * 100, [0.25] * 200
    with caplog.at_level(logging.WARNING):
        steps = watched(RewardAlarm(0.2), good + bad)
    # mean = 0.25 + 0.25 · 0.98^n < 0.8 · 0.5 at n = 26
    assert steps == 100 + 25
    assert "the mean reward fell from 0.500 to 0.3" in caplog.text
    assert watched(RewardAlarm(0.6), good + bad) == 300
    assert watched(RewardAlarm(0.2), [1.0] + [0.5] * 200) == 201  # one lucky batch at the start is no best


def test_a_resumed_run_stops_where_the_unbroken_one_does():
    first, second = RewardAlarm(0.2), RewardAlarm(0.2)
    rewards = [0.5] * 100 + [0.25] * 200
    assert watched(first, rewards[:110]) == 110
    second.load_state_dict(first.state_dict())
    assert 110 + watched(second, rewards[110:]) == watched(RewardAlarm(0.2), rewards)
