"""The settings of optimization, without torch: the config holds them, the training module reads them."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class OptimizerSettings:
    """The optimizer and its rates."""

    name: Literal["adam", "adamw", "rmsprop", "sgd"] = "adam"
    """Which optimizer."""
    learning_rate: float = 4e-4
    """Of the decoder."""
    encoder_learning_rate: float = 1e-5
    """Of what is tuned of the encoder."""
    beta2: float = 0.999
    """adam, adamw: decay of the mean of squared gradients that steps are divided by. 0.98 forgets the first, large
    gradients within a hundred steps, and a model with attention leaves its even maps sooner."""
    weight_decay: float = 0.0
    """Not applied to biases."""
    schedule: Literal["constant", "cosine", "plateau"] = "constant"
    """How the rates change after the warm-up."""
    warmup_steps: int = 0
    """Steps over which the rates rise."""
    final_factor: float = 0.0
    """cosine: the last rate as a part of the first."""
    plateau_factor: float = 0.5
    """plateau: factor when the watched metric has not risen for `plateau_patience` validations."""
    plateau_patience: int = 2
    """plateau: validations without a rise."""


@dataclass(frozen=True)
class SamplingSettings:
    """Scheduled sampling's largest probability, and the epochs over which it is reached."""

    probability: float = 0.0
    """Of reading one's own word instead of the true one."""
    epochs: float = 5.0
    """The probability rises from 0 over so many epochs."""
