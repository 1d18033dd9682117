# Everything runs in .venv, which each verb brings up to date by itself. ARGS passes words on:
#   make serve ARGS="--memory"     make test ARGS="tests/store -k fifo"

SHELL := /bin/sh
PYTHON ?= python3
JOBS ?= 3
ARGS ?=

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# A stamp is newer than what it stands for: a second run has nothing to do.
RUNTIME := .venv/.runtime
DEVELOPMENT := .venv/.development

LOCK := --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --extra embedded

.DEFAULT_GOAL := help
.PHONY: help setup serve test test-debian tools lint types bench demo-pipeline lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(RUNTIME) ## Prepare .venv with the locked packages and .venv/bin/penstock

serve: $(RUNTIME) ## Start the server on the embedded PostgreSQL
	@exec $(BIN)/penstock serve $(ARGS)

test: $(DEVELOPMENT) tools ## Run every test
	@$(BIN)/python -m pytest -n $(JOBS) $(ARGS)

test-debian: $(DEVELOPMENT) ## Run the tests of our SQL on the PostgreSQL that Debian ships
	@$(BIN)/python -m tests.debian -n $(JOBS) $(ARGS)

# Programs that tests drive: command:package. Without them, and without root, those tests say so and step aside.
TOOLS := curl:curl node:nodejs npm:npm
tools:
	@missing=$$(for tool in $(TOOLS); do command -v "$${tool%%:*}" >/dev/null || echo "$${tool##*:}"; done); \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$missing >/dev/null; \
	elif [ -n "$$missing" ]; then \
		echo "Not installed, so some tests are skipped:" $$missing >&2; \
	fi

lint: $(DEVELOPMENT) ## Check style and formatting
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(DEVELOPMENT) ## Check types
	@$(BIN)/mypy

bench: $(DEVELOPMENT) ## Measure a full cycle over HTTP
	@$(BIN)/python -m bench.cycle $(ARGS)

demo-pipeline: $(DEVELOPMENT) ## Run the pipelines on Spark over a shop that is made up
	@$(BIN)/python -m examples.pipeline_demo $(ARGS)

lock: $(DEVELOPMENT) ## Take the newest versions into the lock files
	@UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile $(LOCK) --group build \
		--output-file requirements.lock pyproject.toml
	@UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile $(LOCK) --extra spark --extra consumer --group dev \
		--constraint requirements.lock --output-file requirements-dev.lock pyproject.toml

clean: ## Remove .venv and everything generated
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Debian ships venv without ensurepip unless python3-venv is there.
.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Penstock needs Python 3.11 or later; set PYTHON=... to choose one." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null; \
		else \
			echo "Python cannot make virtual environments here: install the package python3-venv." >&2; exit 1; \
		fi
	@rm -rf .venv
	@$(PYTHON) -m venv .venv

$(RUNTIME): requirements.lock pyproject.toml | .venv/bin/python
	@echo "Installing the locked packages into .venv" >&2
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(DEVELOPMENT): requirements-dev.lock $(RUNTIME)
	@$(PIP) install --require-hashes -r requirements-dev.lock
	@touch $@
