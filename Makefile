# Everything needs only Python >= 3.11, make and a C++ compiler; the rest is installed into .venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
NATIVE := CMakeLists.txt pyproject.toml $(wildcard src/drnmf/_native/*)

.PHONY: demo test test-browser test-oldest lint clean

demo: $(VENV)/.installed
	$(BIN)/drnmf demo --out demo-result --overwrite

test: $(VENV)/.installed-dev lint
	$(BIN)/python -m pytest

# Reports in a real Chromium (Debian: apt-get install chromium; or name one in DRNMF_CHROMIUM).
test-browser: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -rs tests/browser

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python $(NATIVE)
	$(BIN)/python -m pip install --quiet -e '.[plot,audio,report]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/bin/python $(NATIVE)
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) .venv-oldest build dist demo-result .mypy_cache .ruff_cache .pytest_cache .hypothesis
