"""Flags and YAML files from the dataclasses of `captioning.config`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any, NoReturn, cast, get_type_hints

from jsonargparse import ArgumentParser, Namespace, set_parsing_settings

from captioning.config import TrainingConfig
from captioning.decoding.search import Search
from captioning.errors import ConfigError

set_parsing_settings(docstring_parse_attribute_docstrings=True)


class OneLineParser(ArgumentParser):
    """A parser whose complaint is one line with the nearest known setting."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raise ConfigError instead of printing the usage and exiting."""
        raise ConfigError(_one_line(message, sorted(self.known_settings()))) from ex

    def known_settings(self) -> set[str]:
        """All dotted names."""
        return {action.dest for action in self._actions if action.dest not in ("help", "print_config")}


@cache
def training_parser(prog: str) -> OneLineParser:
    """Every field of TrainingConfig as a flag and as a YAML key; --config FILE and --print_config."""
    parser = OneLineParser(
        prog=prog,
        description="Train a captioner. Settings come from --config FILE (YAML); flags with dots override them, "
        "such as --model.attention.score dot --trainer.max_epochs 3.",
    )
    parser.add_argument("--config", action="config", help="A YAML file of settings, such as configs/*.yaml.")
    parser.add_class_arguments(TrainingConfig)
    return parser


def parse_training_config(arguments: Sequence[str], *, prog: str) -> TrainingConfig:
    """The settings of a call; a section without any, such as `objective:` alone, is its defaults.

    Raises ConfigError for an unknown name or a value of the wrong kind.
    """
    parser = training_parser(prog)
    try:
        settings = parser.parse_args(list(arguments))
        _fill_sections(settings, parser.get_defaults())
        values = parser.instantiate(settings).as_dict()
    except UnicodeDecodeError as error:
        raise ConfigError(f"--config: expected a file in UTF-8, got other bytes at {error.start}") from error
    except RecursionError as error:
        raise ConfigError("--config: expected settings, got YAML that is nested too deep") from error
    values.pop("config", None)
    return TrainingConfig(**values)


def _fill_sections(settings: Namespace, defaults: Namespace) -> None:
    """The parser itself trips over a section that holds no settings."""
    for section in _sections(TrainingConfig):
        value = settings.get(section)
        if value is None:
            settings[section] = defaults[section]
        elif not isinstance(value, Namespace | Mapping):
            raise ConfigError(f"{section}: expected settings below it, such as {section}.NAME, got {value!r}")


def _sections(config: type, prefix: str = "") -> Iterator[str]:
    """The dotted names of all settings that hold settings, outer ones first."""
    for name, kind in get_type_hints(config).items():
        if is_dataclass(kind):
            yield prefix + name
            yield from _sections(cast(type, kind), f"{prefix}{name}.")


def add_search_arguments(parser: OneLineParser) -> None:
    """Every field of Search as a flag; one that is not given (null) leaves the model's own setting as it is."""
    parser.add_class_arguments(Search, as_group=True)
    parser.set_defaults({each.name: None for each in fields(Search)})


def given_search(options: Any) -> dict[str, Any]:
    """What these flags say, for `Search.changed`."""
    return {each.name: getattr(options, each.name) for each in fields(Search)}


def _one_line(message: str, known: list[str]) -> str:
    line = " ".join(message.split())
    line = re.sub(r"an? typing\.Literal\[([^]]*)\]", lambda found: "one of " + found[1].replace("'", ""), line)
    line = re.sub(r"(?:an? )?<class '(\w+)'>", r"\1", line)
    name = _unknown_name(line)
    near = get_close_matches(name, known, n=1, cutoff=0.5) if name else []
    return f"{line}; did you mean {near[0]}?" if near else line


def _unknown_name(line: str) -> str:
    """The dotted name that the complaint is about, if it is about an unknown one."""
    if flag := re.search(r"unrecognized arguments?: --([\w.]+)", line, re.IGNORECASE):
        return flag[1]
    if key := re.search(r"Group '([\w.]+)' does not accept option '([\w.]+)'", line):
        return f"{key[1]}.{key[2]}"
    if key := re.search(r"[Kk]ey [\"']([\w.]+)[\"'] is not expected|does not accept option '([\w.]+)'", line):
        return key[1] or key[2]
    return ""
