"""Gradients through choices: maths over log-probabilities and rewards. Nothing here samples, and nothing knows a model.

Shapes: (..., S, T) for S samples of a caption with T steps each; `exists` (..., T) is True at real words, END included.
"""

from captioning.estimators.baselines import BASELINES, Evidence, leave_one_out
from captioning.estimators.bounds import StepMarginal, importance_weighted, log_marginal, step_bound, step_marginal
from captioning.estimators.exact import all_paths, exact_expectation
from captioning.estimators.score_function import RETURNS, entropy_terms, score_function
from captioning.estimators.variance import Moments, Quality, measure

__all__ = [
    "BASELINES",
    "RETURNS",
    "Evidence",
    "Moments",
    "Quality",
    "StepMarginal",
    "all_paths",
    "entropy_terms",
    "exact_expectation",
    "importance_weighted",
    "leave_one_out",
    "log_marginal",
    "measure",
    "score_function",
    "step_bound",
    "step_marginal",
]
