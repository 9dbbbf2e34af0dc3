"""What was published on the sets of Show, Attend and Tell, and how a model stands beside it.

A number without its circumstances compares nothing: BLEU with or without brevity penalty, dev or test images, another
beam, another rule of what a hard model is shown at test time are each worth as much as a method. So every row states
them, and what its source does not state is called that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from captioning.metrics.table import markdown_table

NOT_STATED = "not stated"
WITHOUT, WITH = "none", "BLEU's own"
COLUMNS = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D")
"""In the order of the tables; in percent, as papers print them."""
TEST, TEST_OF_PAPER = "test", "the paper's Table 1 is of test images"


@dataclass(frozen=True)
class Row:
    """One model's scores with their circumstances."""

    name: str
    scores: Mapping[str, float]
    """Name of `COLUMNS` -> in percent."""
    split: str = NOT_STATED
    tokenizer: str = NOT_STATED
    """Of the scorer."""
    beam: str = NOT_STATED
    brevity: str = NOT_STATED
    """The brevity penalty of the BLEU columns."""
    rule: str = NOT_STATED
    """What the model is shown of the regions at test time."""
    selected_by: str = NOT_STATED
    """What chose the checkpoint."""
    published: bool = True

    @property
    def comparable(self) -> str:
        """Whether it may be read against Table 1."""
        if self.published:
            return "Table 1" if self.split == TEST else f"split {self.split}"
        if self.split != TEST:
            return f"**not comparable**: {self.split} images, and {TEST_OF_PAPER}"
        return "with rows of the same brevity penalty" if self.brevity == WITHOUT else "not with rows without penalty"


def _paper(name: str, scores: Sequence[float], *, soft: bool) -> Row:
    return Row(
        name=f"paper, {name}",
        scores=dict(zip(COLUMNS, scores, strict=False)),
        split=TEST,
        brevity=WITHOUT,
        rule="expected" if soft else f"{NOT_STATED} (code: expected)",
        selected_by="BLEU (paper), NLL (code)",
    )


def _port(name: str, scores: Sequence[float | None], *, soft: bool, beam: str = NOT_STATED) -> Row:
    known = {column: value for column, value in zip(COLUMNS, scores, strict=False) if value is not None}
    return Row(f"public port, {name}", known, beam=beam, rule="expected" if soft else NOT_STATED)


PUBLISHED: Mapping[str, Sequence[Row]] = {
    "flickr8k": (
        _paper("soft", (67.0, 44.8, 29.9, 19.5, 18.93), soft=True),
        _paper("hard", (67.0, 45.7, 31.4, 21.3, 20.30), soft=False),
        _port("soft, VGG-16", (62.2, 43.3, 29.3, 19.7, 19.6, 45.0, 49.7), soft=True, beam="5"),
        _port("soft, ResNet-50", (68.0, 48.3, 34.4, 24.2, 21.7), soft=True, beam="7"),
        _port("hard, ResNet-50", (68.3, 48.8, 34.7, 24.4, 22.0), soft=False),
        _port("hard, VGG-19", (64.7, 43.6, 29.9, 20.5, 19.3), soft=False),
    ),
    "flickr30k": (
        _paper("soft", (66.7, 43.4, 28.8, 19.1, 18.49), soft=True),
        _paper("hard", (66.9, 43.9, 29.6, 19.9, 18.46), soft=False),
    ),
    "coco": (
        _paper("soft", (70.7, 49.2, 34.4, 24.3, 23.90), soft=True),
        _paper("hard", (71.8, 50.4, 35.7, 25.0, 23.04), soft=False),
    ),
}
"""Set -> the paper's Table 1 (Xu et al., 2015), and what others report of ports of it."""


@dataclass(frozen=True)
class Circumstances:
    """How a model of ours was scored."""

    name: str
    split: str
    tokenizer: str
    beam: str
    rule: str
    selected_by: str
    corpus: Mapping[str, float] = field(default_factory=dict)
    """Metric -> value, BLEU with and without penalty."""

    def rows(self) -> list[Row]:
        """One with BLEU as the paper's, without brevity penalty, and one as the COCO scorer's."""
        return [self._row("-no-penalty", WITHOUT), self._row("", WITH)]

    def _row(self, suffix: str, brevity: str) -> Row:
        names = {column: f"{column}{suffix}" if column.startswith("BLEU") else column for column in COLUMNS}
        found = {column: 100 * self.corpus[name] for column, name in names.items() if name in self.corpus}
        return Row(
            self.name,
            found,
            split=self.split,
            tokenizer=self.tokenizer,
            beam=self.beam,
            brevity=brevity,
            rule=self.rule,
            selected_by=self.selected_by,
            published=False,
        )


def comparison_table(rows: Sequence[Row]) -> str:
    """One row a model, aligned, which is Markdown too; an empty cell where nothing was published."""
    heading = ["model", *COLUMNS, "split", "tokenizer", "beam", "brevity penalty", "test-time rule", "selected by"]
    table = [[*heading, "compare"]]
    for row in rows:
        scores = [f"{row.scores[name]:.4g}" if name in row.scores else "" for name in COLUMNS]
        told = [row.split, row.tokenizer, row.beam, row.brevity, row.rule, row.selected_by, row.comparable]
        table.append([row.name, *scores, *told])
    return markdown_table(table)
