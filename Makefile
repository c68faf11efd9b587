# Every target builds its own environment in .venv first; nothing else needs to be done by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt

# torch chooses its own number of threads.
unexport OMP_NUM_THREADS

.PHONY: demo test bench lint format clean
.DEFAULT_GOAL := test

demo: $(STAMP)
	$(BIN)/cockpit demo

test: $(STAMP)
	$(BIN)/python -m pytest -q -rs -n 2 --dist worksteal

# What watching costs on this machine, in about ten minutes; BENCH="--all --out FILE" for everything, into a file.
bench: $(STAMP)
	$(BIN)/python benchmarks/overhead.py $(BENCH)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .venv-notorch

# torch first and pinned, so that no other requirement can choose its version.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch==2.13.0
	$(PIP) -e '.[dev]'
	touch $@
