# Two commands on a fresh machine: `make demo` and `make test`. `make soak` kills runs and takes minutes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The real data that some tests read, where a folder `shared` lies beside the project's.
export CAPTIONING_SHARED ?= $(wildcard $(abspath ../shared))

.PHONY: demo test parity soak fuzz setup clean

demo: $(VENV)/.demo
	$(BIN)/captioning demo

test: $(VENV)/.dev
	$(BIN)/python scripts/check.py

soak: $(VENV)/.dev
	$(BIN)/python -m scripts.soak --kills 10

# Some 12,000 inputs that no one would write; `make test` tries a few hundred.
fuzz: $(VENV)/.dev
	FUZZ_EXAMPLES=640 $(BIN)/python -m pytest -q -n 2 tests/fuzz

# All metrics beside the common COCO scorer's, which needs Java; writes the tables of docs/metrics.md.
parity: $(VENV)/.dev
	$(BIN)/python -m scripts.parity

setup: $(VENV)/.dev

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.demo: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
