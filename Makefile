# Everything needs only Python >= 3.11, make and a C++ compiler; the rest is installed into .venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := pip>=25.1
NATIVE := CMakeLists.txt pyproject.toml $(wildcard src/drnmf/_native/*)

.PHONY: demo test test-all fuzz test-browser test-torch test-gpu test-oldest test-asan bench bench-scale bench-algorithms lint clean \
        docs pictures wheel coverage mutants

# An environment that sees the packages of $(VENV) by path, so that only drnmf itself is built again in it.
define borrow
$(BIN)/python -m venv $(1)
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" \
	  > $$($(1)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/borrowed.pth
endef

# Two pages: the sources in a small table whose answer is known, and the notes in a tune. About half a minute on two free cores.
# Ranks, runs and tolerance are smaller than by default, and intervals are left out, for time. Nothing of the answer is given.
demo: $(VENV)/.installed
	@echo "1 of 2: what is in examples/data/air.csv? (about 15 s; without --level 0 also intervals)"
	$(BIN)/drnmf discover examples/data/air.csv --reference examples/data/sources.csv --ranks 2:6 --runs 10 --tol 1e-4 --level 0 \
	  --jobs 2 --out demo-result/air --overwrite
	@echo "2 of 2: which notes are in a noisy tune? (about 20 s)"
	$(BIN)/drnmf demo --out demo-result/tune --overwrite
	@echo "Open demo-result/air/report.html and demo-result/tune/report.html."

# Files of tests are shared out among the cores, four processes at most.
PARALLEL := -n logical --maxprocesses 4 --dist loadfile
test: $(VENV)/.installed-dev lint
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow"

# With the tests that take more than about two seconds each: pages that run, clusters, damaged files, kills.
test-all: $(VENV)/.installed-dev lint
	$(BIN)/python -m pytest $(PARALLEL)

# Damaged files of every format that the commands read: 10,000 of each (`make test-all` tries 100).
FUZZ ?= 10000
fuzz: $(VENV)/.installed-dev
	DRNMF_FUZZ=$(FUZZ) $(BIN)/python -m pytest tests/fuzz

# Reports in a real Chromium (Debian: apt-get install chromium; or name one in DRNMF_CHROMIUM).
test-browser: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -rs tests/browser

# The rows of the conformance table with torch, without a GPU: Triton's kernels under its interpreter, at small sizes.
# Torch gets an environment of its own, which borrows the packages of $(VENV): `make test` needs none.
TORCH := .venv-torch
test-torch: $(TORCH)/.installed
	PYTHONPATH=src TRITON_INTERPRET=1 $(TORCH)/bin/python -m pytest $(PARALLEL:loadfile=worksteal) tests/backends -k torch

# The same rows on a CUDA GPU, from the source tree, with whatever python holds torch and triton there.
# Most of the time goes into compiling kernels, so several processes share it, each with one thread.
GPU_PYTHON ?= python3
GPU_PROCESSES ?= 16
test-gpu:
	seq $(GPU_PROCESSES) | OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONPATH=src xargs -P $(GPU_PROCESSES) -I SHARD \
	  $(GPU_PYTHON) -m pytest -p no:cacheprovider tests/backends -k torch --shard SHARD/$(GPU_PROCESSES)

# The lower bounds of pyproject.toml, exactly; the tools that only check may be new.
OLDEST := numpy==1.26.0 scipy==1.12.0 scikit-learn==1.7.0 joblib==1.2.0 threadpoolctl==3.2.0 typer==0.19.2 rich==13.0.0 matplotlib==3.8.0 soundfile==0.12.1 fast-bss-eval==0.1.4 pyarrow==15.0.0 openpyxl==3.1.2 plotly==5.24.1 dask[array]==2025.7.0 distributed==2025.7.0 zarr==3.1.0 anndata==0.12.0 pandas==2.1.1

test-oldest: .venv-oldest/.installed
	.venv-oldest/bin/python -m pytest $(PARALLEL)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell README.md CHANGELOG.md CONTRIBUTING.md docs src tests tools examples benchmarks

# The kernel tests under AddressSanitizer and UndefinedBehaviorSanitizer, on every instruction set of this machine.
# The packages of $(VENV) are borrowed by path; only drnmf itself is built again.
ASAN     := .venv-asan
ASAN_RUN  = LD_PRELOAD="$$($${CXX:-c++} -print-file-name=libasan.so) $$($${CXX:-c++} -print-file-name=libstdc++.so)" \
            ASAN_OPTIONS=detect_leaks=0 $(ASAN)/bin/python -m pytest -p no:cacheprovider
test-asan: $(VENV)/.installed-dev
	$(call borrow,$(ASAN))
	$(ASAN)/bin/python -m pip install --quiet --no-deps --force-reinstall . \
	  -C build-dir=build/asan -C cmake.build-type=RelWithDebInfo -C cmake.define.DRNMF_SANITIZE=ON
	for isa in $$($(BIN)/python -c "from drnmf import _core; print(*_core.supported_instruction_sets())"); do \
	  DRNMF_ISA=$$isa $(ASAN_RUN) tests/backends/test_conformance.py tests/backends/test_losses.py \
	    tests/backends/test_curvature.py tests/backends/test_simplex_step.py tests/backends/test_scale.py \
	    tests/algorithms/test_descent.py -k "not numpy and not dask" || exit 1; \
	done
	$(ASAN_RUN) tests/backends/test_threads.py -k "bits or python_threads or forked or ctrl"

# The site of the documentation, in build/docs/html: `make docs`, then open index.html. Examples that did not change since
# the last build are not run again.
docs: $(VENV)/.installed-docs
	$(BIN)/python -m sphinx -W --keep-going -q -d build/docs/doctrees docs build/docs/html
	@echo "build/docs/html/index.html"

# The pictures of reports in docs/images, from runs of the present code.
pictures: $(VENV)/.installed-dev
	$(BIN)/python tools/pictures.py

# An sdist, a wheel built from it and repaired, and that wheel installed and tried where there is no compiler: dist/.
WHEEL := .venv-wheel
wheel: $(WHEEL)/.installed
	rm -rf dist build/wheelhouse build/wheel-test
	$(WHEEL)/bin/python -m build --outdir build/wheelhouse
	PATH="$(abspath $(WHEEL))/bin:$$PATH" $(WHEEL)/bin/auditwheel repair --wheel-dir dist build/wheelhouse/*.whl
	cp build/wheelhouse/*.tar.gz dist/
	$(PYTHON) -m venv build/wheel-test
	time env -u CC -u CXX PATH="$(abspath build/wheel-test)/bin" build/wheel-test/bin/python -m pip install --quiet dist/*.whl
	cd build/wheel-test && env -u PYTHONPATH PATH="$(abspath build/wheel-test)/bin" bin/python ../../tools/check_wheel.py

# Lines that the tests run, of Python and of C++ (one line, however many types and instruction sets it is compiled for):
# `make coverage`, or `make coverage TESTS=tests/losses` for a part. Headers of the build environment are gone by then.
TESTS    ?= tests
COVERAGE := .venv-coverage
coverage: $(VENV)/.installed-dev
	$(call borrow,$(COVERAGE))
	$(COVERAGE)/bin/python -m pip install --quiet --upgrade '$(PIP)'
	$(COVERAGE)/bin/python -m pip install --quiet --group coverage
	rm -rf build/coverage
	$(COVERAGE)/bin/python -m pip install --quiet --no-deps --force-reinstall . \
	  -C build-dir=build/coverage -C cmake.build-type=RelWithDebInfo -C cmake.define.DRNMF_COVERAGE=ON
	$(COVERAGE)/bin/python -m pytest $(PARALLEL) -p no:cacheprovider $(TESTS) --cov=drnmf --cov-report=term:skip-covered --cov-report=xml:build/coverage.xml
	$(COVERAGE)/bin/gcovr --root . --filter src/drnmf/_native --object-directory build/coverage --merge-lines \
	  --gcov-ignore-errors=all build/coverage

# How many of a seeded sample of changes to the code the unit tests notice: `make mutants`, or of one file with
# `make mutants MODULES=losses/beta.py MUTANTS=20 MUTANT_TESTS=tests/losses`. The files changed are an installed copy.
# `make mutants AGAIN=--again` tries only what survived the last time, and SEED=1 another sample.
MODULES      ?= losses objective algorithms selection
MUTANTS      ?= 300
SEED         ?= 0
MUTANT_TESTS ?= tests/losses tests/objective tests/algorithms tests/solve tests/selection \
                tests/backends/test_losses.py tests/backends/test_curvature.py tests/test_docs.py::test_docstring_examples
AGAIN        ?=
MUTATION     := .venv-mutants
mutants: $(VENV)/.installed-dev
	$(call borrow,$(MUTATION))
	$(MUTATION)/bin/python -m pip install --quiet --upgrade '$(PIP)'
	$(MUTATION)/bin/python -m pip install --quiet --group mutants
	$(MUTATION)/bin/python -m pip install --quiet --no-deps --force-reinstall .
	$(MUTATION)/bin/python tools/mutants.py --count $(MUTANTS) --seed $(SEED) --modules $(MODULES) --tests $(MUTANT_TESTS) $(AGAIN)

# Tables and figures of docs/performance.md and docs/checkpoints.md; sparse rows need DRNMF_DATA, the folder of data sets.
bench: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/native.py
	$(BIN)/python benchmarks/other_peers.py
	$(BIN)/python benchmarks/checkpoint.py

$(VENV)/bin/python:
	@echo "Making an environment in $(VENV) ..."
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python $(NATIVE)
	@echo "Installing drnmf and what it needs into $(VENV); its C++ is compiled (one to two minutes, once)."
	$(BIN)/python -m pip install --quiet -e '.[plot,audio,report]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/bin/python $(NATIVE)
	$(BIN)/python -m pip install --quiet --upgrade '$(PIP)'
	$(BIN)/python -m pip install --quiet -e '.[all]' --group dev
	touch $@ $(VENV)/.installed

$(TORCH)/.installed: $(VENV)/.installed-dev
	$(BIN)/python -m venv $(TORCH)
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" \
	  > $$($(TORCH)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/borrowed.pth
	$(TORCH)/bin/python -m pip install --quiet torch==2.13.0
	$(TORCH)/bin/python -m pip install --quiet triton
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --group docs
	touch $@

$(WHEEL)/.installed:
	$(PYTHON) -m venv $(WHEEL)
	$(WHEEL)/bin/python -m pip install --quiet --upgrade '$(PIP)'
	$(WHEEL)/bin/python -m pip install --quiet --group wheel
	touch $@

.venv-oldest/.installed: Makefile $(NATIVE)
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --upgrade '$(PIP)'
	.venv-oldest/bin/python -m pip install --quiet -e '.[all]' --group dev $(OLDEST)
	touch $@

clean:
	rm -rf $(VENV) $(TORCH) $(WHEEL) $(COVERAGE) $(MUTATION) .venv-oldest .venv-asan build dist docs/gallery docs/api/generated demo-result .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Tables of docs/scale.md; the sparse rows need DRNMF_DATA, and `memory` 6 GiB of disk.
bench-scale: $(VENV)/.installed-dev
	for what in ratio weak cuts memory model; do $(BIN)/python benchmarks/scale.py $$what || exit 1; done

bench-algorithms: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/algorithms.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/quality_time.py
	$(BIN)/python benchmarks/interval.py
