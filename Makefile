# Everything needs only Python >= 3.11, make and a C++ compiler; the rest is installed into .venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
NATIVE := CMakeLists.txt pyproject.toml $(wildcard src/drnmf/_native/*)

.PHONY: demo test test-oldest lint clean

demo: $(VENV)/.installed
	$(BIN)/drnmf demo --out demo-result --overwrite

test: $(VENV)/.installed-dev lint
	$(BIN)/python -m pytest

# The lower bounds of pyproject.toml, exactly; the tools that only check may be new.
OLDEST := numpy==1.26.0 scipy==1.12.0 scikit-learn==1.6.0 threadpoolctl==3.2.0 typer==0.19.2 rich==13.0.0 matplotlib==3.8.0

test-oldest: .venv-oldest/.installed
	.venv-oldest/bin/python -m pytest

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python $(NATIVE)
	$(BIN)/python -m pip install --quiet -e '.[plot]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/bin/python $(NATIVE)
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@ $(VENV)/.installed

.venv-oldest/.installed: Makefile $(NATIVE)
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet -e '.[dev]' $(OLDEST)
	touch $@

clean:
	rm -rf $(VENV) .venv-oldest build dist demo-result .mypy_cache .ruff_cache .pytest_cache .hypothesis
