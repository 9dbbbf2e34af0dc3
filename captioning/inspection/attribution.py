"""Which cells a word's log-probability depends on, by its gradient: captum's methods on the grid of regions.

With x the regions, b the baseline and f = log p(word | words before, regions), a cell's attribution is the sum over its
components of

    input_x_gradient      (x − b) ∂f(x)/∂x, which is exact where f is linear
    integrated_gradients  (x − b) ∫₀¹ ∂f(b + s (x − b))/∂x ds (Sundararajan, Taly and Yan, 2017): all cells
                          together give f(x) − f(b), up to the steps of the sum that stands for the integral

Through a hard choice no gradient reaches the other cells' scores: there a gradient knows only the chosen cell.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from captioning.errors import ConfigError

INPUT_X_GRADIENT, INTEGRATED_GRADIENTS = "input_x_gradient", "integrated_gradients"
ATTRIBUTIONS = (INPUT_X_GRADIENT, INTEGRATED_GRADIENTS)
STEPS = 16
"""Points at which integrated gradients looks at the gradient (Gauss and Legendre's)."""


def attribute(method: str, score: Callable[..., Tensor], regions: Tensor, baseline: Tensor, *about: Tensor) -> Tensor:
    """(B, R) what each cell adds to score(regions (B, R, D), *about) -> (B,); baseline (R, D).

    Raises ConfigError for another method, and where captum is not installed.
    """
    check_attributions([method])
    from captum.attr import InputXGradient, IntegratedGradients

    inputs, base = regions.detach(), baseline.expand_as(regions)
    with torch.enable_grad():
        if method == INTEGRATED_GRADIENTS:
            found = IntegratedGradients(score, multiply_by_inputs=True).attribute(
                inputs, baselines=base, additional_forward_args=about, n_steps=STEPS, internal_batch_size=len(inputs)
            )
        else:
            moved = InputXGradient(lambda difference, *rest: score(base + difference, *rest))
            found = moved.attribute((inputs - base).requires_grad_(), additional_forward_args=about)
    total: Tensor = found.detach().sum(-1)
    return total


def check_attributions(methods: list[str]) -> None:
    """Before anything is computed. Raises ConfigError."""
    for method in methods:
        if method not in ATTRIBUTIONS:
            raise ConfigError(f"attributions: expected some of {', '.join(ATTRIBUTIONS)}, got {method!r}")
    if methods and find_spec("captum") is None:
        raise ConfigError(
            "attributions: gradients are captum's; pip install 'captioning[inspection]', or give --attributions '[]'"
        )


@contextmanager
def parameters_at_rest(model: nn.Module) -> Iterator[None]:
    """Inside, no parameter asks for a gradient, which would cost as much as that of the regions."""
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in learning:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)
