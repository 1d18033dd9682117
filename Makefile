# Every target runs in .venv and updates it first. ARGS is passed to the command:
#   make serve ARGS="--memory"     make test ARGS="tests/store -k fifo"

SHELL := /bin/sh
# Without bytecode every process would compile the whole package again, and tests start hundreds.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
JOBS ?= 3
VERSION ?= 14
ARGS ?=

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Stamp files: make skips the installation while they are newer than the lock files.
RUNTIME := .venv/.runtime
DEVELOPMENT := .venv/.development

LOCK := --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --extra embedded

.DEFAULT_GOAL := help
.PHONY: help setup serve test test-slow fuzz fire test-debian test-postgres tools lint types docs bench demo-pipeline lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(RUNTIME) ## Prepare .venv with the locked packages and .venv/bin/penstock

serve: $(RUNTIME) ## Start the server on an embedded PostgreSQL
	@exec $(BIN)/penstock serve $(ARGS)

test: $(DEVELOPMENT) tools ## Run all tests except the slow ones
	@$(BIN)/python -m pytest -n $(JOBS) -m "not slow" $(ARGS)

# Those that draw random examples run again, with eight times as many. Two processes at once: most of these tests start
# Spark, which gives its Python processes ten seconds to start.
SLOW_JOBS ?= 2
test-slow: $(DEVELOPMENT) tools ## Run the slow tests: crashes, clusters, chaos, the demo, many random examples
	@$(BIN)/python -m pytest -n $(SLOW_JOBS) -m "slow or hypothesis" --hypothesis-profile thorough $(ARGS)

test-debian: $(DEVELOPMENT) ## Run the tests of the SQL functions on Debian's PostgreSQL
	@$(BIN)/python -m tests.postgres_versions -n $(JOBS) -m "not slow" $(ARGS)

test-postgres: $(DEVELOPMENT) tools ## Run them on PostgreSQL VERSION (14 to 17)
	@$(BIN)/python -m tests.postgres_versions --version $(VERSION) -n $(JOBS) -m "not slow" $(ARGS)

fuzz: $(DEVELOPMENT) ## Send hostile requests to a server of its own: SECONDS=60 SEED=1
	@$(BIN)/python -m tests.hostile.fuzz --seconds $(or $(SECONDS),60) --seed $(or $(SEED),1) $(ARGS)

fire: $(DEVELOPMENT) ## Kill servers and PostgreSQL under load and check every guarantee: SECONDS=60 SEED=1
	@$(BIN)/python -m tests.fire --seconds $(or $(SECONDS),60) --seed $(or $(SEED),1) $(ARGS)

# Programs that tests run, as command:package. root installs missing ones; other users get skipped tests.
TOOLS := chromium:chromium curl:curl node:nodejs npm:npm
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

docs: $(DEVELOPMENT) ## Build the documentation as a site in build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet $(ARGS)
	@echo "Open build/site/index.html"

bench: $(DEVELOPMENT) ## Compare with other queues in ten minutes: a table, charts in docs/img, rounds in bench/results
	@$(BIN)/python -m bench.suite $(ARGS)

bench-quick: $(DEVELOPMENT) ## Compare the CPU time of requests with bench/baseline.json, in a minute
	@$(BIN)/python -m bench.quick $(ARGS)

.PHONY: screenshots
screenshots: $(DEVELOPMENT) tools ## Take pictures of the dashboard for docs/img
	@$(BIN)/python -m tests.browser.screenshots $(ARGS)

demo-pipeline: $(DEVELOPMENT) ## Run all Spark pipelines on generated data
	@$(BIN)/python -m examples.pipeline_demo $(ARGS)

lock: $(DEVELOPMENT) ## Update the lock files to the newest versions
	@UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile $(LOCK) --group build \
		--output-file requirements.lock pyproject.toml
	@UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile $(LOCK) --extra spark --extra consumer --extra mcp --extra otel --group dev \
		--constraint requirements.lock --output-file requirements-dev.lock pyproject.toml

clean: ## Remove .venv and all generated files
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Debian's venv lacks ensurepip unless python3-venv is installed.
.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Penstock needs Python 3.11 or later; set PYTHON=... to choose one." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null; \
		else \
			echo "Python cannot create virtual environments: install the package python3-venv." >&2; exit 1; \
		fi
	@rm -rf .venv
	@$(PYTHON) -m venv .venv

$(RUNTIME): requirements.lock pyproject.toml | .venv/bin/python
	@echo "Installing the locked packages into .venv" >&2
	@$(PIP) install --no-deps --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(DEVELOPMENT): requirements-dev.lock $(RUNTIME)
	@$(PIP) install --no-deps --require-hashes -r requirements-dev.lock
	@touch $@
