"""A captioner with random weights in a folder, and the board in a file, for all cases."""

import pytest

from tests.cases.making import board, write_captioner
from tests.cli.conftest import drawn

__all__ = ["drawn"]


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """The folder of a captioner."""
    return write_captioner(tmp_path_factory.mktemp("model") / "captioner")


@pytest.fixture
def board_file(tmp_path):
    """board.png in a folder of its own."""
    path = tmp_path / "board.png"
    board().save(path)
    return path
