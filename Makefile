# Two commands on a fresh machine with Python 3.11 or newer: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# What is imported is compiled then, and kept: of ten thousand files most are not.
unexport PYTHONDONTWRITEBYTECODE
QUIETLY := --quiet --disable-pip-version-check --no-compile

.PHONY: demo test test-system test-reliability check docs benchmarks clean bom

PYTEST := $(BIN)/python -m pytest --maxprocesses 4 --dist worksteal
PROCESSORS := $(shell getconf _NPROCESSORS_ONLN)
# Those that wait for other processes begin first.
SYSTEM := tests/system tests/app tests/quality src/mercer_app src/mercer_cluster src/mercer/river src/mercer_reproduction

$(VENV)/.demo: pyproject.toml
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'mercer needs Python 3.11+')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(QUIETLY) -e ".[cli]"
	touch $@

$(VENV)/.dev: $(VENV)/.demo
	$(BIN)/python -m pip install $(QUIETLY) -e ".[dev]"
	touch $@

$(VENV)/.docs: $(VENV)/.demo
	$(BIN)/python -m pip install $(QUIETLY) -e ".[docs]"
	touch $@

demo: $(VENV)/.demo  ## train on handwritten digits; writes demo-output/
	$(BIN)/mercer demo --out demo-output

test: $(VENV)/.dev  ## run the tests of the library that take moments
	$(PYTEST) -n $(PROCESSORS) $(SYSTEM:%=--ignore=%)

test-system: $(VENV)/.dev  ## run the others: how good models are, the command, processes, documents
	$(PYTEST) -n $$(($(PROCESSORS) + 1)) $(SYSTEM)  # they wait for other processes now and then

test-reliability: $(VENV)/.dev  ## try shortly to break what is promised (Linux, a C compiler)
	$(BIN)/python reliability/run.py --short

check: $(VENV)/.dev  ## what CI runs besides the tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs  ## build the pages, examples and all: docs/_build/html/index.html
	$(BIN)/python -m sphinx -j 2 -W --keep-going -b html docs docs/_build/html

bom:  ## bill of materials of the wheel, dist/mercer.cdx.json, and what advisories say of it
	PYTHON=$(PYTHON) .ci/bom dist

benchmarks: $(VENV)/.dev  ## measure again and rewrite docs/benchmarks.md (long)
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV) demo-output docs/_build docs/api docs/gallery
