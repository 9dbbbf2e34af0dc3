"""Half precision is taken where the machine is faster in it, and else a word is said."""

import logging

import pytest
import torch

from captioning.training import number_type
from captioning.training.number_type import choose_precision


@pytest.mark.parametrize(("half", "single", "expected"), [(1.0, 2.0, "bf16-mixed"), (2.0, 1.0, "32-true")])
def test_auto_takes_the_faster(monkeypatch, half, single, expected):
    times = {torch.bfloat16: half, torch.float32: single}
    monkeypatch.setattr(number_type, "_seconds", times.__getitem__)
    assert choose_precision("auto", "cpu") == expected


def test_what_is_asked_for_is_taken_but_a_slow_choice_is_named(monkeypatch, caplog):
    monkeypatch.setattr(number_type, "half_is_faster", lambda device: False)
    with caplog.at_level(logging.WARNING):
        assert choose_precision("bf16-mixed", "cpu") == "bf16-mixed"
    assert "--trainer.precision auto takes float32" in caplog.text
    caplog.clear()
    for asked in ("32-true", "16-mixed", "64-true"):
        assert choose_precision(asked, "cpu") == asked
    assert not caplog.text


def test_the_clock_is_really_read():
    assert 0 < number_type._seconds(torch.float32) < 60
