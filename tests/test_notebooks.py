"""Notebooks are committed without outputs, hold no machine's paths, and run from top to bottom."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)

ABSOLUTE = re.compile(r"""["'](/|~|[A-Za-z]:[\\/]|file:)|/(home|Users|root|tmp|mnt)/""")
DRAW = """
def draw_what_the_cell_left():
    import matplotlib.pyplot as plt
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()
    plt.close("all")
"""

QUICK = {"hard_attention": "DRAWS, PICTURES, PASSES = 3, 64, 1"}
"""What the cell `parameters` says instead, so that a notebook that trains takes seconds here."""


def cells_of(path, kind):
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind]


def source_of(cell):
    return "".join(cell["source"])


def as_script(path):
    """The code cells one after the other; each picture is drawn where a notebook would show it."""
    quick = {"parameters": QUICK.get(path.stem, "")}
    sources = ((cell["id"], quick.get(cell["id"]) or source_of(cell)) for cell in cells_of(path, "code"))
    cells = (f"# cell {name}\n{source}\ndraw_what_the_cell_left()\n" for name, source in sources)
    return "\n".join([DRAW, *cells])


def test_there_is_a_notebook():
    assert NOTEBOOKS


@each_notebook
def test_no_outputs_are_committed(path):
    for cell in cells_of(path, "code"):
        assert (cell["outputs"], cell["execution_count"]) == ([], None), cell["id"]


@each_notebook
def test_no_paths_of_a_machine(path):
    for cell in cells_of(path, "code") + cells_of(path, "markdown"):
        assert not ABSOLUTE.search(source_of(cell)), cell["id"]


@each_notebook
def test_every_cell_runs(path, tmp_path):
    script = tmp_path / f"{path.stem}.py"
    script.write_text(as_script(path), encoding="utf-8")
    environment = os.environ | {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", script.name]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
