# Each target does all of its own set-up; a second call reuses it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Python compiles a module when it is first imported: most of what comes with PySpark never is.
PIP    := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile
ARGS   ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo test e2e long lint docs wheel bench chaos soak profile boundary clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(VENV)/.ready  ## virtual environment with eagre in its bin, companion jar, JVM jars

demo: setup  ## the payments stream in micro-batch and in real time (ARGS="--seconds 10")
	@$(BIN)/eagre demo $(ARGS)

# One test process for each core and one more, as far as the memory goes: tests wait a third of the time.
PYTEST := $(BIN)/pytest -n auto --dist worksteal

test: setup $(VENV)/.dev  ## style, types, layers, unit tests, every operator in both modes (ARGS="-k broker")
	@$(PYTEST) $(ARGS)

e2e: setup $(VENV)/.dev  ## kills, restarts, clusters, browsers, use cases, the wheel (ARGS="-k wheel")
	@$(PYTEST) -m e2e $(ARGS)

long: setup $(VENV)/.dev  ## bounds of state, a short soak, a round of chaos for each fault: minutes each
	@$(BIN)/pytest -m long $(ARGS)

lint: setup $(VENV)/.dev  ## style, types, layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

docs: setup $(VENV)/.docs  ## write the generated pages, and build the site into site/
	@$(BIN)/python -m eagre.cli.reference > docs/reference/cli.md
	@$(BIN)/python -m eagre.preflight.reference > docs/reference/check.md
	@$(BIN)/python -m laboratory.ablation --tables
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "eagre: site/index.html; for its search: $(BIN)/python -m http.server --bind 127.0.0.1 --directory site"

wheel: setup  ## the wheel and the source distribution, into dist/
	@rm -f dist/eagre-*
	@$(BIN)/python -m hatchling build --target sdist --target wheel
	@ls -1 dist/eagre-*

bench: setup $(VENV)/.bench  ## the field's benchmark against the others (ARGS="count --systems all")
	@$(BIN)/eagre bench run $(or $(ARGS),field)

chaos: setup $(VENV)/.dev  ## faults against pipelines, verified (ROUNDS=20 SEED=1 RESUME=FILE CONTROL=off)
	@$(BIN)/python -m chaos.campaign --rounds $(or $(ROUNDS),20) $(if $(SEED),--seed $(SEED)) $(if $(RESUME),--resume $(RESUME)) $(if $(CONTROL),--control $(CONTROL)) $(ARGS)

soak: setup $(VENV)/.dev  ## the six use cases for hours, with faults: what is lost, what grows (HOURS=2 SEED=1)
	@$(BIN)/python -m soak --hours $(or $(HOURS),2) $(if $(SEED),--seed $(SEED)) $(ARGS)

profile: setup $(VENV)/.bench  ## measure the latency profile, setting by setting, into docs/reference/profile.md
	@$(BIN)/python -m laboratory.ablation

boundary: setup $(VENV)/.bench  ## measure the epoch boundary, phase by phase, for docs/internals/boundary.md
	@$(BIN)/python -m laboratory.boundary

clean:  ## remove everything that was built here
	rm -rf $(VENV) dist site .pytest_cache .mypy_cache .ruff_cache src/eagre/jvm/lib

$(VENV)/bin/python:
	@echo "eagre: creating the virtual environment in $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "eagre needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + "; name another with: make PYTHON=python3.12 ...")'
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# The build backend and PySpark go in first, so that the companion is compiled against the very
# PySpark it will run with and not against a second copy of 400 MB in an isolated build.
BUILT_FROM := pyproject.toml hatch_build.py src/eagre/__init__.py src/eagre/jvm/ivy.xml \
	src/eagre/jvm/jars.lock $(shell find jvm-companion/src -name '*.java') \
	$(wildcard src/eagre/python/eagre_worker/*.py)
$(VENV)/.ready: $(BUILT_FROM) | $(VENV)/bin/python
	@PYTHONPATH=src $(BIN)/python -m eagre.jvm
	@echo "eagre: installing PySpark (400 MB, some minutes the first time)"
	@$(PIP) "hatchling>=1.26" editables "pyspark>=4.3.0,<4.4"
	@echo "eagre: building the companion and installing eagre"
	@$(PIP) --no-build-isolation --editable .
	@$(BIN)/eagre jars fetch --no-archive
	@touch $@

# What a list of dependencies in pyproject.toml asks for, given by its place there.
REQUIRED = $(BIN)/python -c 'import functools, sys, tomllib; print("\n".join(functools.reduce(lambda table, key: table[key], sys.argv[1].split("/"), tomllib.load(open("pyproject.toml", "rb")))))'

EXTRAS   := project/optional-dependencies/pandas project/optional-dependencies/bench

$(VENV)/.bench: pyproject.toml $(VENV)/.ready
	@echo "eagre: installing what the benchmark needs"
	@{ for list in $(EXTRAS); do $(REQUIRED) $$list; done; } | grep -v '^eagre' > $(VENV)/bench-requirements.txt
	@$(PIP) -r $(VENV)/bench-requirements.txt
	@touch $@

# One call of pip for all that the tests need: each takes seconds to begin.
$(VENV)/.dev: pyproject.toml $(VENV)/.ready
	@echo "eagre: installing the development tools, and what the benchmark and the site need"
	@{ for list in $(EXTRAS) dependency-groups/dev dependency-groups/docs; do $(REQUIRED) $$list; done; } | grep -v '^eagre' > $(VENV)/dev-requirements.txt
	@$(PIP) -r $(VENV)/dev-requirements.txt
	@touch $(VENV)/.bench $(VENV)/.docs $@

$(VENV)/.docs: pyproject.toml $(VENV)/.ready
	@echo "eagre: installing what builds the site"
	@$(REQUIRED) dependency-groups/docs > $(VENV)/docs-requirements.txt
	@$(PIP) -r $(VENV)/docs-requirements.txt
	@touch $@
