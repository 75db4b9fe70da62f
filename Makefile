# Everything below works on a machine that has only Python 3.11 or newer, git and make.

PYTHON := $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,\
	$(if $(shell $(name) -c 'import sys; print(sys.version_info >= (3, 11) or "")' 2>/dev/null),$(name))))
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?= -n auto

.DEFAULT_GOAL := help

.PHONY: help
help:  ## Show what can be made.
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

.PHONY: demo
demo: $(VENV)/program  ## Run the whole pipeline on bundled real logs, ending in a report.
	$(BIN)/specledger demo --out out/demo

.PHONY: test
test: $(VENV)/tools  ## Run the tests; where there is Java those of Spark too.
	-@if command -v java >/dev/null; then $(MAKE) --no-print-directory $(VENV)/spark; fi
	$(BIN)/python -m pytest $(PYTEST_ARGS)

.PHONY: test-spark
test-spark: $(VENV)/spark  ## Run the tests of Spark alone, which needs Java 17 or newer; they must run.
	SPARK_TESTS=required $(BIN)/python -m pytest tests/spark

.PHONY: test-wheel
test-wheel: $(VENV)/tools  ## Run the tests against the built wheel, in an environment of its own.
	rm -rf build/wheel
	$(BIN)/python -m build --quiet --wheel --outdir build/wheel
	$(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/python -m pip install --quiet --upgrade pip
	build/wheel/venv/bin/python -m pip install --quiet build/wheel/*.whl --group dev
	build/wheel/venv/bin/python -m pytest -o pythonpath= $(PYTEST_ARGS) tests/house tests/test_cases.py

.PHONY: bench
bench: $(VENV)/tools  ## Measure speed, size and memory against their anchors, into out/bench.json.
	mkdir -p out
	$(BIN)/python -m tests.bench --out out/bench.json

.PHONY: calibrate
calibrate: $(VENV)/tools  ## Measure false alarms, detection and coverage on simulated fleets (minutes).
	$(BIN)/python -m tests.calibrate

.PHONY: lint
lint: $(VENV)/tools  ## Check style, format and types.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

.PHONY: clean
clean:  ## Remove whatever make has made.
	rm -rf $(VENV) build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo 'No Python 3.11 or newer found: install one, or say make PYTHON=/path/to/python3.' >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip  # dependency groups need pip 25.1

$(VENV)/program: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/tools: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@ $(VENV)/program

$(VENV)/spark: $(VENV)/tools
	$(BIN)/python -m pip install --quiet --group spark  # about 450 MB
	@touch $@
