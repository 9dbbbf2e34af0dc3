"""Imports point one way: a part imports only parts of strictly lower rank, and some never import torch."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "captioning"
RANKS = {
    "errors": -2,
    "disk": -1,
    "differences": -1,
    **dict.fromkeys(("tensors", "text", "features", "estimators", "charting"), 0),
    **dict.fromkeys(("attention", "decoding", "metrics", "viz"), 1),
    **dict.fromkeys(("encoders", "decoders", "data", "document", "reproduction"), 2),
    "captioner": 3,
    **dict.fromkeys(("evaluation", "extraction", "transfer", "export", "estimation", "inspection"), 4),
    "training": 5,
    "config": 6,
    "build": 7,
    "checkpoint": 8,
    "run": 9,
    "ablation": 10,
    "cli": 11,
    "__main__": 12,
}
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
WITHOUT_TORCH = (
    "captioning",
    "captioning.text.vocabulary",
    "captioning.metrics",
    "captioning.config",
    "captioning.cli.main",
)


def part_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def imported_parts(path):
    for module in imported_modules(path):
        steps = module.split(".")
        if steps[0] == "captioning" and len(steps) > 1 and steps[1] in RANKS:
            yield steps[1]


def test_every_part_has_a_rank():
    assert {part_of(path) for path in FILES} == set(RANKS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_to_lower_ranks(path):
    own = part_of(path)
    for part in imported_parts(path):
        assert part == own or RANKS[part] < RANKS[own], f"{own} imports {part}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_lightning_is_at_the_edge(path):
    if RANKS[part_of(path)] <= 4:
        assert not any(module.split(".")[0] == "pytorch_lightning" for module in imported_modules(path))


@pytest.mark.parametrize("module", WITHOUT_TORCH)
def test_some_parts_never_import_torch(module):
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_torchvision_is_not_imported_before_it_is_needed():
    """Its import takes as long as torch's own."""
    for path in FILES:
        if path != PACKAGE / "encoders" / "torchvision_networks.py":
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                assert not isinstance(node, ast.Import | ast.ImportFrom) or "torchvision" not in ast.unparse(node), path


def test_pictures_know_no_model():
    for path in (PACKAGE / "viz").rglob("*.py"):
        assert "torch" not in {module.split(".")[0] for module in imported_modules(path)}


def test_files_and_functions_stay_small():
    """Files of at most 320 lines; functions of at most 50, docstring not counted."""
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 320, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
                length = body[-1].end_lineno - body[0].lineno + 1
                assert length <= 50, f"{path}: {node.name} has {length} lines"
