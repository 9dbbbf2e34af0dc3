"""SPICE: what is said where something is missing, and the conversation with its program, played by a stand-in."""

import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from captioning.metrics import DEFAULT, score, spice

PROGRAM = """#!{python}
import json, sys
arguments = sys.argv[1:]
assert arguments[:2] == ["-Xmx8G", "-jar"] and arguments[2].endswith("spice-1.0.jar"), arguments
rows = json.load(open(arguments[3]))
scores = [{{"image_id": row["image_id"], "scores": {{"All": {{"f": len(row["refs"]) / 4}}}}}} for row in rows]
if rows[0]["test"] == "fail":
    sys.exit("out of memory")
json.dump(scores[::-1][: len(scores) - (rows[0]["test"] == "short")], open(arguments[arguments.index("-out") + 1], "w"))
"""
REFERENCES = {"a": ["a cat"], "b": ["a dog", "dogs"]}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like the package, and a `java` that answers as SPICE does."""
    if os.name == "nt":
        pytest.skip("the stand-in is a script with a #! line")
    library = tmp_path / "my package" / "spice" / "lib"
    library.mkdir(parents=True)
    for name in spice.MODELS:
        (library / name).touch()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(PROGRAM.format(python=sys.executable), encoding="utf-8")
    java.chmod(0o755)
    found = SimpleNamespace(submodule_search_locations=[str(tmp_path / "my package")])
    monkeypatch.setattr(spice, "find_spec", lambda name: found)
    monkeypatch.setenv("PATH", str(java.parent))
    monkeypatch.setenv("CAPTIONING_CACHE", str(tmp_path / "cache"))
    return library


def test_scores_are_keyed_by_image_in_any_order_of_answers(program: Path) -> None:
    before = sorted(program.parent.rglob("*"))
    scores = score({"b": "a dog", "a": "cats"}, REFERENCES, "SPICE")
    assert scores.per_image["SPICE"] == {"a": 0.25, "b": 0.5}
    assert scores.corpus["SPICE"] == 0.375
    assert sorted(program.parent.rglob("*")) == before


@pytest.mark.parametrize(("said", "reason"), [("fail", "status 1: out of memory"), ("short", "of 2 images.*gave 1")])
def test_a_failing_program_leaves_the_other_metrics(program: Path, said: str, reason: str) -> None:
    scores = score({"a": said, "b": "a dog"}, REFERENCES, ("SPICE", "BLEU-1"))
    assert set(scores.corpus) == {"BLEU-1"}
    assert re.search(reason, scores.unavailable["SPICE"])


def test_missing_parts_are_named(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (program / spice.MODELS[1]).unlink()
    assert "get_stanford_models" in score({"a": "", "b": ""}, REFERENCES, "SPICE").unavailable["SPICE"]
    monkeypatch.setattr(spice, "find_spec", lambda name: None)
    assert "captioning[meteor]" in score({"a": "", "b": ""}, REFERENCES, "SPICE").unavailable["SPICE"]
    monkeypatch.setenv("PATH", "")
    assert "no java" in score({"a": "", "b": ""}, REFERENCES, "SPICE").unavailable["SPICE"]
    assert "SPICE" not in DEFAULT
