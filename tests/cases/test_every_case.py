"""Every one of the 61 cases has a test that is named after it, in the file that this list says."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
FILES = {
    "cases/test_images.py": range(1, 8),
    "cases/test_captions.py": range(8, 16),
    "cases/test_text.py": range(16, 20),
    "features/test_store.py": [20],
    "cases/test_batches.py": range(21, 24),
    "cases/test_attention.py": range(24, 30),
    "cases/test_losses.py": range(30, 33),
    "cases/test_decoding.py": range(33, 38),
    "cases/test_pictures.py": range(38, 41),
    "cases/test_scores.py": [*range(41, 48), 61],
    "encoders/test_weights.py": [51],
    "cases/test_runs.py": [48, 49, 50, 52, 53, 54, 55, 58, 59, 60],
    "training/test_two_processes.py": [56, 57],
}


def test_the_list_has_all_cases_once():
    assert sorted(case for cases in FILES.values() for case in cases) == list(range(1, 62))


@pytest.mark.parametrize("name", FILES)
def test_each_case_has_a_test_of_its_name(name):
    tree = ast.parse((TESTS / name).read_text(encoding="utf-8"))
    tests = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for case in FILES[name]:
        assert any(test.startswith(f"test_H{case:02d}_") for test in tests), f"H{case:02d}"
