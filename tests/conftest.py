"""All tests: the files that take longest come first, and a process computes on one core, as its neighbours do too."""

import os
from pathlib import Path

# Before torch is imported, and for all processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

LONGEST = (
    "ablation/test_runner.py",
    "run/test_processes.py",
    "cases/test_runs.py",
    "cli/test_train.py",
    "training/test_two_processes.py",
    "test_learning.py",
    "run/test_killed.py",
    "cli/test_features.py",
    "ablation/test_grid.py",
    "export/test_export.py",
    "test_notebooks.py",
    "training/test_module.py",
    "test_configs.py",
)
"""A worker takes a whole file (`--dist loadfile`): with these first, none is left alone with a long one at the end."""


def pytest_collection_modifyitems(items):
    places = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
