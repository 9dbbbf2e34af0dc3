"""The settings of a search, without torch: configs, checkpoints and results hold them.

A setting that another method reads, or a pair that can't be met together, is refused when the settings are made.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from typing import Any, Literal, get_args

from captioning.errors import ConfigError

Method = Literal["greedy", "beam", "diverse", "sampling"]
Ranking = Literal["none", "average", "wu"]
Rule = Literal["expected", "argmax", "sample", "mean_of_k"]
METHODS, RANKINGS, RULES = get_args(Method), get_args(Ranking), get_args(Rule)

READ_BY: Mapping[str, tuple[Method, ...]] = {
    "beam_size": ("beam", "diverse"),
    "groups": ("diverse",),
    "diversity": ("diverse",),
    "samples": ("sampling",),
    "temperature": ("sampling",),
    "top_k": ("sampling",),
    "top_p": ("sampling",),
}
"""Settings that not every method reads, and the methods that do."""
ALWAYS_TOLD = ("method", "maximum_length", "minimum_length", "ranking", "test_time_rule")


@dataclass(frozen=True)
class Search:
    """How captions are searched at test time; stored with the model and printed with every result."""

    method: Method = "beam"
    """greedy (the likeliest word at every step), beam, diverse (beams that avoid one another's words), or sampling."""
    beam_size: int = 5
    """beam, diverse: hypotheses kept an image; 1 is greedy. With `must_include`, for each number of its words."""
    maximum_length: int = 30
    """Choices at most, the end of the caption being one; what has not ended by then is cut off, and says so."""
    minimum_length: int = 0
    """Words at least."""
    ranking: Ranking = "average"
    """Finished captions are compared by their sum, their mean a word, or Wu's length penalty."""
    groups: int | None = None
    """diverse: how many groups share the beam evenly; null: each hypothesis is a group of its own."""
    diversity: float = 0.5
    """diverse: what a word loses, in nats, for each time that a group before chose it for the same place."""
    samples: int = 1
    """sampling: captions drawn for each image; its features and keys are computed once."""
    temperature: float = 1.0
    """sampling: below 1 likely words become likelier, above 1 all become more alike."""
    top_k: int | None = None
    """sampling: draw among so many likeliest words; null: among all."""
    top_p: float | None = None
    """sampling: draw among the fewest likeliest words that together have this probability; null: among all."""
    no_repeat_ngram: int = 0
    """Say no so many words in a row twice in a caption (1: no word twice); 0: anything may be repeated."""
    banned_words: str = ""
    """Words, with spaces between them, that are never said."""
    no_dangling_end: bool = False
    """Whether a caption may not end after one of the `dangling_words`."""
    dangling_words: str = "a an the of and with"
    """The words that need another one after them."""
    must_include: str = ""
    """Words, in any order, that each caption has to say; not with sampling."""
    beginning: str = ""
    """The words that each caption begins with."""
    unknown_word: bool = False
    """Whether the unknown word may be said."""
    test_time_rule: Rule = "expected"
    """What is shown of the regions for each word: their weighted mean, the one of largest weight, one that is drawn
    with the weights as probabilities, or the mean of `rule_samples` such draws."""
    rule_samples: int = 10
    """mean_of_k: how many."""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ConfigError(f"method: expected one of {', '.join(METHODS)}, got {self.method!r}")
        self._refuse_foreign_settings()
        if self.method == "sampling" and self.must_include:
            raise ConfigError(
                f"must_include: expected nothing with method sampling, got {self.must_include!r}: a drawn word "
                "can't be steered without changing what it is drawn from; choose method beam, diverse or greedy, or "
                "draw many samples and keep those that say it"
            )
        if self.method == "diverse" and (self.group_count < 1 or self.beam_size % self.group_count):
            raise ConfigError(
                f"groups: expected a number that divides beam_size {self.beam_size}, got {self.groups}: every group "
                "has as many hypotheses as the others"
            )

    @property
    def group_count(self) -> int:
        """diverse: how many groups there are."""
        return self.beam_size if self.groups is None else self.groups

    def changed(self, **settings: Any) -> "Search":
        """The same search with these settings; those that are None stay as they are.

        With another method, settings that it does not read go back to their defaults. Raises ConfigError for a name
        that is no setting.
        """
        for name in settings:
            if name not in DEFAULTS:
                near = get_close_matches(name, DEFAULTS, n=1)
                way_out = f"did you mean {near[0]}?" if near else f"settings are {', '.join(DEFAULTS)}"
                raise ConfigError(f"search: there is no setting {name!r}; {way_out}")
        given = {name: value for name, value in settings.items() if value is not None}
        method = given.get("method", self.method)
        if method != self.method:
            foreign = {name: DEFAULTS[name] for name, methods in READ_BY.items() if method not in methods}
            given = foreign | ({"must_include": ""} if method == "sampling" else {}) | given
        return replace(self, **given)

    def details(self) -> dict[str, Any]:
        """What a reader must know of a result: the settings that make the search what it is."""
        return {name: value for name, value in asdict(self).items() if self._matters(name, value)}

    def _matters(self, name: str, value: Any) -> bool:
        if name in READ_BY:
            return self.method in READ_BY[name] and value is not None
        if name in ALWAYS_TOLD:
            return True
        if name == "rule_samples":
            return self.test_time_rule == "mean_of_k"
        return self.no_dangling_end if name == "dangling_words" else bool(value != DEFAULTS[name])

    def _refuse_foreign_settings(self) -> None:
        for name, methods in READ_BY.items():
            value = getattr(self, name)
            if self.method not in methods and name != "beam_size" and value != DEFAULTS[name]:
                raise ConfigError(
                    f"{name}: expected {DEFAULTS[name]} with method {self.method}, got {value}: only "
                    f"{' and '.join(methods)} reads it; add method {methods[0]}, or leave it out"
                )


DEFAULTS: dict[str, Any] = {each.name: each.default for each in fields(Search)}
