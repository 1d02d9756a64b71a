# Two commands do everything on a fresh machine with Python 3.11 or newer: `make demo` and `make test`.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: demo test test-all lint bench results clean

demo: $(READY)  ## train No Relations and PARSE on Blueprints, compare, compact, draw (3 to 6 minutes on 2 cores)
	$(BIN)/parse-dg demo

# Three processes on two cores: many tests wait for others.
test: $(READY)  ## every promise (about 5 minutes on 2 cores)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 3 --dist worksteal -m "not slow"

test-all: $(READY)  ## every test: also what kills, waits, enumerates or takes a whole journey (about 13 minutes)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 3 --dist worksteal

lint: $(READY)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)  ## speed, as ratios of two things measured in one run
	$(BIN)/python -m benchmarks

results: $(READY)  ## the Blueprints table of docs/results.md: 4 domains, 3 seeds, 3 methods (about 2 hours on 2 cores)
	$(BIN)/python -m benchmarks.blueprints

# torch goes first, pinned: a range would take the largest build there is.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
