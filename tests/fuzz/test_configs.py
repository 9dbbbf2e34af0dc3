"""The config reader on YAML and flags that no one would write; a wrong one is one line with the name in it."""

import dataclasses
import string

from hypothesis import given
from hypothesis import strategies as st

from captioning.cli.settings import parse_training_config, training_parser
from captioning.config import TrainingConfig
from tests.fuzz.limits import MEMORY, documented_errors_only, peak, seldom

NAMES = sorted(training_parser("test").known_settings())
VALUES = st.one_of(
    st.sampled_from(["null", "true", "false", "0", "-1", "3", "1e-3", "nan", ".inf", "[]", "{}", "[1, 2]", "''", "~"]),
    st.sampled_from(["{a: 1}", "soft", "hard", "auto", "!!python/object:os.system x", "&a [*a]", "*a", "a: b: c"]),
    st.text(alphabet=string.printable, max_size=12),
)
KEYS = st.sampled_from(NAMES) | st.sampled_from([name.split(".")[0] for name in NAMES]) | st.text(max_size=6)


def as_yaml(pairs):
    """Nested YAML of dotted names."""
    lines = []
    for name, value in pairs:
        *groups, last = name.split(".")
        lines += ["  " * depth + f"{group}:" for depth, group in enumerate(groups)]
        lines.append("  " * len(groups) + f"{last}: {value}")
    return "\n".join(lines) + "\n"


TEXTS = st.one_of(
    st.binary(max_size=80),
    st.lists(st.tuples(KEYS, VALUES), max_size=4).map(as_yaml).map(lambda text: text.encode("utf-8", "replace")),
    st.text(alphabet=string.printable, max_size=60).map(str.encode),
)


def check(arguments):
    config = parse_training_config(arguments, prog="captioning train")
    assert isinstance(config, TrainingConfig)
    assert dataclasses.asdict(config)


@given(content=TEXTS)
@seldom
def test_config_files(content, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_bytes(content)
    before = peak()
    with documented_errors_only():
        check(["--config", str(path)])
    assert peak() - before < MEMORY


@given(pairs=st.lists(st.tuples(KEYS, VALUES), max_size=3))
@seldom
def test_flags(pairs):
    with documented_errors_only():
        check([part for name, value in pairs for part in (f"--{name}", value)])
