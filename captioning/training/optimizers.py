"""Optimizers and learning-rate schedules by name."""

import math
from collections.abc import Callable, Iterable
from typing import Any

from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop
from torch.optim.lr_scheduler import LambdaLR, LinearLR, ReduceLROnPlateau

from captioning.errors import ConfigError
from captioning.training.settings import OptimizerSettings

OPTIMIZERS: dict[str, type[Optimizer]] = {"adam": Adam, "adamw": AdamW, "rmsprop": RMSprop, "sgd": SGD}
SCHEDULES = ("constant", "cosine", "plateau")


def make_optimizer(
    settings: OptimizerSettings, *, decoder: Iterable[nn.Parameter], encoder: Iterable[nn.Parameter] = ()
) -> Optimizer:
    """One rate for the decoder, another for what is trained of the encoder; weight decay spares vectors (biases)."""
    if settings.name not in OPTIMIZERS:
        raise ConfigError(f"optimizer: expected one of {', '.join(OPTIMIZERS)}, got {settings.name!r}")
    groups = [
        {"params": parameters, "lr": rate, "weight_decay": decay}
        for owner, rate in ((decoder, settings.learning_rate), (encoder, settings.encoder_learning_rate))
        for parameters, decay in zip(_by_decay(owner), (settings.weight_decay, 0.0), strict=True)
        if parameters
    ]
    return OPTIMIZERS[settings.name](groups, lr=settings.learning_rate, **_betas(settings))  # type: ignore[call-arg]


def _betas(settings: OptimizerSettings) -> dict[str, Any]:
    if not 0 <= settings.beta2 < 1:
        raise ConfigError(f"optimizer.beta2: expected a number from 0 to below 1, got {settings.beta2}")
    return {"betas": (0.9, settings.beta2)} if settings.name in ("adam", "adamw") else {}


def make_schedule(optimizer: Optimizer, settings: OptimizerSettings, *, total_steps: int) -> dict[str, Any]:
    """The learning rates by steps, as Lightning takes them; `make_plateau` has those by validations."""
    if settings.schedule not in SCHEDULES:
        raise ConfigError(f"schedule: expected one of {', '.join(SCHEDULES)}, got {settings.schedule!r}")
    if settings.schedule != "plateau":
        return {"scheduler": LambdaLR(optimizer, rate_factor(settings, total_steps)), "interval": "step"}
    # It multiplies the present rate, as plateau does, so the reductions survive the warm-up.
    start = 1 / (settings.warmup_steps + 1)
    warmup = LinearLR(optimizer, start_factor=start, total_iters=settings.warmup_steps)
    return {"scheduler": warmup, "interval": "step"}


def make_plateau(optimizer: Optimizer, settings: OptimizerSettings) -> ReduceLROnPlateau | None:
    """For `plateau` what reduces the rates; `step(metric)` after each validation."""
    if settings.schedule != "plateau":
        return None
    return ReduceLROnPlateau(optimizer, mode="max", factor=settings.plateau_factor, patience=settings.plateau_patience)


def rate_factor(settings: OptimizerSettings, total_steps: int) -> Callable[[int], float]:
    """Step -> factor of the learning rate: a linear rise, then constant or half a cosine down to `final_factor`."""
    warmup, final = settings.warmup_steps, settings.final_factor

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / (warmup + 1)
        if settings.schedule != "cosine":
            return 1.0
        progress = min(1.0, (step - warmup) / max(1, total_steps - warmup))
        return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * progress))

    return factor


def _by_decay(parameters: Iterable[nn.Parameter]) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    return [each for each in trained if each.dim() > 1], [each for each in trained if each.dim() <= 1]
