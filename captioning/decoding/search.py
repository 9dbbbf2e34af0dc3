"""The settings of a search, without torch: configs, checkpoints and results hold them."""

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

Ranking = Literal["none", "average", "wu"]
Rule = Literal["expected", "argmax", "sample", "mean_of_k"]
RANKINGS, RULES = get_args(Ranking), get_args(Rule)


@dataclass(frozen=True)
class Search:
    """How captions are searched at test time; stored with the model and printed with every result."""

    beam_size: int = 5
    """Hypotheses kept an image; 1 is greedy."""
    maximum_length: int = 30
    """Choices at most, the end of the caption being one."""
    minimum_length: int = 0
    """Words at least."""
    ranking: Ranking = "average"
    """Finished captions are compared by their sum, their mean a word, or Wu's length penalty."""
    test_time_rule: Rule = "expected"
    """What is shown of the regions for each word: their weighted mean, the one of largest weight, one that is drawn
    with the weights as probabilities, or the mean of `rule_samples` such draws."""
    rule_samples: int = 10
    """mean_of_k: how many."""

    def changed(self, **settings: Any) -> "Search":
        """The same search with these settings; those that are None stay as they are."""
        return replace(self, **{name: value for name, value in settings.items() if value is not None})
