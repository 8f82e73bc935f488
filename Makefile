# Every target makes the virtual environment first if it is missing or out of date.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: demo page test lint bench docs release-check clean

demo: $(STAMP)
	$(BIN)/whowrote demo

page: $(STAMP)
	$(BIN)/whowrote serve --demo

test: lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal --cov --cov-report=term

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	@set -e; for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script; done

docs: $(STAMP)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "Site: docs/_build/html/index.html"

release-check: test docs
	$(BIN)/python release/check.py

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --report .venv/installed.json --constraint constraints.txt --editable ".[dev]"
	$(BIN)/python release/check.py installed .venv/installed.json
	touch $@

clean:
	rm -rf .venv dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
