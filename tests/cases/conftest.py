"""The drawn pictures of the commands' tests."""

from tests.cli.conftest import drawn

__all__ = ["drawn"]
