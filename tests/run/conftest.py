"""The drawn pictures, and a run, of the commands' tests."""

from tests.cli.conftest import drawn, trained

__all__ = ["drawn", "trained"]
