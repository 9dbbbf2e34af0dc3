"""Every one of the 61 cases has a test that is named after it, in the file that this list says."""

import ast
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
FILES = {
    "test_images.py": range(1, 8),
    "test_captions.py": range(8, 16),
    "test_text.py": range(16, 20),
    "test_batches.py": range(20, 24),
    "test_attention.py": range(24, 30),
    "test_losses.py": range(30, 33),
    "test_decoding.py": range(33, 38),
    "test_pictures.py": range(38, 41),
    "test_scores.py": range(41, 48),
    "test_runs_apart.py": (51, 55, 60, 61),
    "test_runs.py": (48, 49, 50, 52, 53, 54, 56, 57, 58, 59),
}


def test_the_list_has_all_cases_once():
    assert sorted(case for cases in FILES.values() for case in cases) == list(range(1, 62))


@pytest.mark.parametrize("name", FILES)
def test_each_case_has_a_test_of_its_name(name):
    tree = ast.parse((FOLDER / name).read_text(encoding="utf-8"))
    tests = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for case in FILES[name]:
        assert any(test.startswith(f"test_H{case:02d}_") for test in tests), f"H{case:02d}"
