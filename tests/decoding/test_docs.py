"""The table of guarantees names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_the_table_of_guarantees_names_is_there():
    named = []
    for cell in re.findall(r"\|([^|]*)\|\n", (ROOT / "docs" / "decoding.md").read_text(encoding="utf-8")):
        file = None
        for path, name in re.findall(r"`([\w/]*\.py)?(?:::(\w+))?`", cell):
            file = path or file
            if file is not None and file.startswith(("test_", "captioner/test_", "cli/test_")):
                named.append((file, name))
    assert len(named) > 25
    for file, name in named:
        source = (ROOT / "tests" / (file if "/" in file else f"decoding/{file}")).read_text(encoding="utf-8")
        assert re.search(rf"^(?:def|class) {name or ''}", source, re.MULTILINE), f"{file}::{name}"
