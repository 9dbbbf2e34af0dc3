"""All that a report tells, before it is put in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from captioning.ablation.comparison import Comparison
from captioning.ablation.differing import Pick
from captioning.ablation.image_tests import Resampling
from captioning.ablation.results import RunResult
from captioning.ablation.study import Study


@dataclass(frozen=True)
class Findings:
    """All that a report tells."""

    study: Study
    results: Sequence[RunResult]
    """A run each, done or not."""
    comparisons: Sequence[Comparison]
    resampling: Resampling
    picks: Sequence[Sequence[Pick]]
    """A pair of variants each."""
    pictures: bool
    """Whether pictures and references may be shown."""

    @cached_property
    def done(self) -> dict[str, list[RunResult]]:
        """Variant -> its finished runs."""
        found: dict[str, list[RunResult]] = {each.variant: [] for each in self.results}
        for each in self.results:
            if each.state == "done":
                found[each.variant].append(each)
        return found

    @cached_property
    def measures(self) -> list[str]:
        """The judged ones first."""
        names = list(dict.fromkeys(name for each in self.results for name in each.scores))
        judged = [name for name in self.study.judged if name in names]
        return [*judged, *(name for name in names if name not in judged)]
