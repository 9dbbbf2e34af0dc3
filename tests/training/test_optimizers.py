"""The optimizer: its rates and decays reach torch's, and beta2 does what Kingma and Ba (2015) say."""

import math

import pytest
import torch

from captioning.errors import ConfigError
from captioning.training.optimizers import make_optimizer
from captioning.training.settings import OptimizerSettings


@pytest.mark.parametrize("name", ["adam", "adamw"])
@pytest.mark.parametrize("beta2", [0.999, 0.98])
def test_the_second_step_is_divided_by_a_root_of_both_squares_as_beta2_weighs_them(name, beta2):
    rate, first, second = 0.01, 100.0, 0.5
    weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = make_optimizer(OptimizerSettings(name=name, learning_rate=rate, beta2=beta2), decoder=[weight])
    moved = []
    for gradient in (first, second):
        before = weight.item()
        weight.grad = torch.full_like(weight, gradient)
        optimizer.step()
        moved.append(before - weight.item())
    mean = (0.9 * 0.1 * first + 0.1 * second) / (1 - 0.9**2)
    square = (beta2 * (1 - beta2) * first**2 + (1 - beta2) * second**2) / (1 - beta2**2)
    assert moved == pytest.approx([rate, rate * mean / math.sqrt(square)], rel=1e-6)


@pytest.mark.parametrize("beta2", [-0.1, 1.0])
def test_beta2_is_a_share(beta2):
    with pytest.raises(ConfigError, match=r"optimizer.beta2: expected a number from 0 to below 1"):
        make_optimizer(OptimizerSettings(beta2=beta2), decoder=[torch.nn.Parameter(torch.zeros(1))])


def test_it_is_adams_alone():
    optimizer = make_optimizer(OptimizerSettings(name="sgd", beta2=0.98), decoder=[torch.nn.Parameter(torch.zeros(1))])
    assert isinstance(optimizer, torch.optim.SGD)
