# Everything a developer types. Nothing needs to be installed first but git, make, Python 3.13 and Node 20.
# `make PYTHON=/path/to/python3.13 …` uses that Python for the environment.

.DEFAULT_GOAL := help
VENV := .venv/bin
PYTHON_PACKAGES := .venv/.installed
NODE_PACKAGES := node_modules/.installed
# The core is pure, so nothing keeps a test from reaching all of it.
COVERAGE := --cov=functions.pattern --cov-branch --cov-report=term-missing:skip-covered --cov-fail-under=100
COMPILE := $(VENV)/pip-compile --quiet --upgrade --generate-hashes --strip-extras \
	--no-emit-find-links --no-emit-index-url --no-emit-trusted-host

.PHONY: help setup run demo up reset test test-fast check format bench screenshots lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(PYTHON_PACKAGES) $(NODE_PACKAGES) ## Make the environment and install the pinned packages

run: setup ## Start everything, show one order on its way, and stay until Ctrl-C
	@$(VENV)/python -m local run

demo: setup ## Start everything, send 50 orders and 50 deliveries, sum up, and stop
	@$(VENV)/python -m local demo

up: setup ## Start everything, and stay until Ctrl-C
	@$(VENV)/python -m local up

reset: $(PYTHON_PACKAGES) ## Forget all local state
	@$(VENV)/python -m local reset

# Files, not tests, are dealt out, so that a platform that a file's tests share is started once.
test: setup ## Run all tests
	@$(VENV)/pytest --numprocesses 2 --dist loadfile $(COVERAGE)

test-fast: $(PYTHON_PACKAGES) ## Run the tests that start no process
	@$(VENV)/pytest --quiet --numprocesses 2 --dist loadfile -m "not process" $(COVERAGE)

check: $(PYTHON_PACKAGES) ## Lint, check formatting, types and the import contracts
	@$(VENV)/ruff check .
	@$(VENV)/ruff format --check --quiet .
	@$(VENV)/mypy
	@for each in packages/*; do (cd $$each && ../../$(VENV)/mypy) || exit 1; done
	@$(VENV)/lint-imports

format: $(PYTHON_PACKAGES) ## Format the code and mend what the linter can
	@$(VENV)/ruff check --fix --quiet . ; $(VENV)/ruff format .

bench: setup ## Measure, and print one table
	@$(VENV)/python -m local.bench

screenshots: setup ## Take the console's pictures for the documentation anew, with Debian's chromium
	@$(VENV)/python -m tests.e2e.console.screenshots

lock: $(PYTHON_PACKAGES) ## Pin the newest allowed packages again, with hashes
	$(COMPILE) -o requirements.txt requirements.in
	$(COMPILE) --allow-unsafe -o requirements-dev.txt requirements-dev.in
	npm install --package-lock-only --no-audit --no-fund

clean: ## Delete what can be made again: environment, packages, caches (`make reset` forgets data)
	rm -rf .venv node_modules .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage*
	find functions local tests -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@python="$(PYTHON)"; : "$${python:=$$(local/setup/find-python)}"; test -n "$$python" && \
		echo "Making .venv with $$python" && "$$python" -m venv --clear .venv

$(PYTHON_PACKAGES): requirements.txt requirements-dev.txt | .venv/bin/python
	@echo "Installing the Python packages (once; a minute or two)"
	@$(VENV)/python -m pip install --quiet --disable-pip-version-check --require-hashes \
		-r requirements.txt -r requirements-dev.txt
	@$(VENV)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--editable packages/functions-local --editable packages/servicebus-local
	@touch $@

$(NODE_PACKAGES): package-lock.json
	@local/setup/check-node
	@echo "Installing Azurite (once)"
	@npm ci --no-audit --no-fund --loglevel=error
	@touch $@
