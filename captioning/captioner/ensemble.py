"""Several captioners that speak as one."""

import math
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Self

import numpy as np
import torch

from captioning.captioner.caption import Caption, Said, View, view_of
from captioning.captioner.captioner import Captioner, evaluation_mode, in_words
from captioning.captioner.constraints import constraints_of
from captioning.captioner.pictures import PictureCaptioner, Prepared
from captioning.captioner.step import DecoderStep
from captioning.decoding.ensemble import EnsembleStep, of_member
from captioning.decoding.methods import search_captions
from captioning.decoding.search import Search
from captioning.decoding.step import Hypothesis
from captioning.errors import ConfigError
from captioning.features.geometry import Placement
from captioning.features.image_features import ImageFeatures
from captioning.features.preprocessing import Preprocessing
from captioning.text.vocabulary import START


class Ensemble(PictureCaptioner):
    """Captioners of one vocabulary, whose probabilities are averaged at every word: log p = log (1/N Σ_i p_i).

    Encoders, grids, attention and decoders may differ. Searches and their settings are those of one captioner; the
    default is the first member's. A caption has every member's maps and details, and the mean map where all have one
    grid. Raises ConfigError for fewer than two members, and by name for one with another vocabulary or on another
    device.
    """

    def __init__(self, members: Sequence[Captioner], *, names: Sequence[str] | None = None) -> None:
        self.members = tuple(members)
        self.names = tuple(names or (f"member {number}" for number in range(1, len(self.members) + 1)))
        if len(self.members) < 2 or len(self.names) != len(self.members):
            raise ConfigError(
                "ensemble: expected at least two captioners, and a name for each if any, "
                f"got {len(self.members)} and {len(self.names)} names"
            )
        first = self.members[0]
        for name, member in zip(self.names, self.members, strict=True):
            if difference := first.vocabulary.first_difference(member.vocabulary):
                raise ConfigError(
                    f"ensemble: expected members of one vocabulary, but {name} has another than {self.names[0]}: "
                    f"{difference}. Train both on one vocabulary"
                )
            if member.device != first.device:
                raise ConfigError(
                    f"ensemble: {self.names[0]} is on {first.device}, {name} on {member.device}; use to()"
                )
        self.vocabulary, self.default_search = first.vocabulary, first.default_search

    @property
    def device(self) -> torch.device:
        """Where all members are."""
        return self.members[0].device

    @property
    def preprocessings(self) -> Sequence[Preprocessing]:
        """How each member wants a picture."""
        return [member.encoder.preprocessing for member in self.members]

    def to(self, device: torch.device | str) -> Self:
        """Move every member."""
        for member in self.members:
            member.to(device)
        return self

    def search(self, features: Sequence[ImageFeatures], search: Search) -> list[list[Hypothesis]]:
        """The captions of each image, best first; of the same images the features that each member sees."""
        start = torch.full((len(features[0]),), START, device=self.device)
        steps = [DecoderStep(member.decoder, own) for member, own in zip(self.members, features, strict=True)]
        constraints = constraints_of(search, self.vocabulary)
        with torch.no_grad(), ExitStack() as inside:
            for member in self.members:
                inside.enter_context(evaluation_mode(member))
                inside.enter_context(member.looking(search))
            return search_captions(EnsembleStep(steps), start=start, constraints=constraints, search=search)

    def caption_batch(self, batch: Sequence[Prepared], search: Search) -> list[list[Caption]]:
        """As for all; the batch as each member wants it."""
        features = [member.encode(own.pixels) for member, own in zip(self.members, batch, strict=True)]
        found = self.search(features, search)
        return [
            [
                in_words(hypothesis, self.vocabulary).seen_by(_views(hypothesis, features, placements))
                for hypothesis in hypotheses
            ]
            for hypotheses, *placements in zip(found, *(own.placements for own in batch), strict=True)
        ]

    def score_batch(self, batch: Sequence[Prepared], captions: Sequence[str], search: Search) -> list[Caption]:
        """As for all."""
        by_member = [
            member.score_batch([own], captions, search) for member, own in zip(self.members, batch, strict=True)
        ]
        return [_together(readings) for readings in zip(*by_member, strict=True)]


def _views(hypothesis: Hypothesis, features: Sequence[ImageFeatures], placements: Sequence[Placement]) -> list[View]:
    """What the members report of a hypothesis, apart again."""
    views = []
    for number, (own, placement) in enumerate(zip(features, placements, strict=True)):
        prefix = of_member(number, "")
        reported = {
            name.removeprefix(prefix): values for name, values in hypothesis.details.items() if name.startswith(prefix)
        }
        views.append(view_of(reported, own, placement))
    return views


def _together(readings: Sequence[Caption]) -> Caption:
    """One caption as all members read it: their probabilities averaged word by word."""
    logarithms = np.logaddexp.reduce([each.log_probabilities for each in readings], axis=0) - math.log(len(readings))
    of_words = tuple(logarithms.tolist())
    said = Said(readings[0].text, readings[0].words, of_words, score=sum(of_words), finished=True)
    return said.seen_by([View(each.maps, each.placement, each.details) for each in readings])
