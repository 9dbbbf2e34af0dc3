"""METEOR 1.5 in Python, equal to its Java program on English captions."""

from captioning.metrics.meteor.meteor import Meteor
from captioning.metrics.meteor.scores import scores

__all__ = ["Meteor", "scores"]
