"""Encoder and decoder as one model, or several of them as one: pictures in, captions with their maps out."""

from captioning.captioner.caption import Caption, View
from captioning.captioner.captioner import Captioner, Encoder, evaluation_mode
from captioning.captioner.constraints import FORBIDDEN, constraints_of
from captioning.captioner.ensemble import Ensemble
from captioning.captioner.step import DecoderStep, StepState

__all__ = [
    "FORBIDDEN",
    "Caption",
    "Captioner",
    "DecoderStep",
    "Encoder",
    "Ensemble",
    "StepState",
    "View",
    "constraints_of",
    "evaluation_mode",
]
