# Everything a developer types. Nothing needs to be installed first but git, make, Python 3.13 and Node 20.
# `make PYTHON=/path/to/python3.13 …` uses that Python for the environment.

.DEFAULT_GOAL := help
VENV := .venv/bin
VERDICTS ?= /tmp/simulated
PYTHON_PACKAGES := .venv/.installed
NODE_PACKAGES := node_modules/.installed
PACKAGES := packages/functions-local packages/servicebus-local
CLOCKS := tests/chaos/requirements-clocks.txt
# Files, not tests, are distributed, in the order of their folders: a platform that they share is started once on a
# worker, and stopped when its folder is done. Most tests of processes wait: WORKERS=3 is quicker on two cores that do
# nothing else.
WORKERS ?= 2
PYTEST := pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder -rsfE
# The core is pure, so nothing keeps a test from reaching all of it.
COVERAGE := --cov=functions.pattern --cov-branch --cov-report=term-missing:skip-covered --cov-fail-under=100
# Runs the tests of the packages and of the application with the given options, the latter also with the second ones;
# fails at the end if any failed.
define run_tests
@failed=0; \
for each in $(PACKAGES); do echo "Tests of $$each"; (cd $$each && ../../$(VENV)/$(PYTEST) $(1)) || failed=1; done; \
echo "Tests of the application"; $(VENV)/$(PYTEST) $(1) $(2) || failed=1; \
exit $$failed
endef
# Each of these is a process of its own with virtual time, so no other test can matter to it.
SIMULATED := seeds points planted
COMPILE := $(VENV)/pip-compile --quiet --upgrade --generate-hashes --strip-extras \
	--no-emit-find-links --no-emit-index-url --no-emit-trusted-host

.PHONY: help setup run demo up reset test test-shuffled test-fast check simulate simulate-many simulate-night simulate-planted \
	azure-types format bench stream vast crowds screenshots settings-page scale-page lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(PYTHON_PACKAGES) $(NODE_PACKAGES) ## Make the environment and install the pinned packages

run: setup ## Start everything, show one order on its way, and stay until Ctrl-C
	@$(VENV)/python -m local run

demo: setup ## Start everything, send 50 orders and 50 deliveries, sum up, and stop
	@$(VENV)/python -m local demo

up: setup ## Start everything, and stay until Ctrl-C
	@$(VENV)/python -m local up

reset: $(PYTHON_PACKAGES) ## Delete all local state
	@$(VENV)/python -m local reset

test: setup ## Run all tests, those of the packages too
	$(call run_tests,,$(COVERAGE))

test-shuffled: setup ## Run all tests but the simulated in another order (SEED=…); VERDICTS keeps which orders passed
	$(call run_tests,-p randomly --randomly-seed=$(SEED),$(SIMULATED:%=--ignore=tests/simulation/test_%.py))
	@mkdir -p $(VERDICTS) && echo "order $(SEED): passed, $$(git rev-parse --short HEAD)" | tee -a $(VERDICTS)/shuffled.txt

test-fast: $(PYTHON_PACKAGES) ## Run the tests that start no process
	$(call run_tests,--quiet -m "not process",$(COVERAGE))

check: $(PYTHON_PACKAGES) ## Lint, check formatting, types and the import contracts
	@$(VENV)/ruff check .
	@$(VENV)/ruff format --check --quiet .
	@$(VENV)/mypy
	@for each in $(PACKAGES); do (cd $$each && ../../$(VENV)/mypy) || exit 1; done
	@$(VENV)/lint-imports

simulate: $(PYTHON_PACKAGES) ## Repeat a simulated run exactly (SEED=…), and tell what happened in it, or to one task (TASK=t1)
	@test -n "$(SEED)" || { echo "which seed? make simulate SEED=14"; exit 2; }
	@$(VENV)/python -m tests.simulation --seed $(SEED) --story --shrink $(if $(CALM),--calm) $(if $(TASK),--task $(TASK))

simulate-many: $(PYTHON_PACKAGES) ## Simulate 2,000 seeds
	@$(VENV)/python -m tests.simulation --count 2000 --processes 2 --whole

simulate-night: $(PYTHON_PACKAGES) ## Go on with 23,000 seeds and 20,000 pairs of faults, for an hour each (VERDICTS=folder)
	@failed=0; \
	$(VENV)/python -m tests.simulation --count 23000 --processes 2 --whole --minutes 60 --keep $(VERDICTS)/seeds || failed=1; \
	$(VENV)/python -m tests.simulation --pairs --count 20000 --processes 2 --minutes 60 --keep $(VERDICTS)/pairs || failed=1; \
	exit $$failed

simulate-planted: $(PYTHON_PACKAGES) ## Search the first seed that catches each planted bug, and keep it for CI
	@$(VENV)/python -m tests.simulation.planted

azure-types: $(PYTHON_PACKAGES) ## Get Azure's published types for the templates' tests, into AZURE_TYPES
	@$(VENV)/python -m tests.infra.azure.fetch

format: $(PYTHON_PACKAGES) ## Format the code and fix what the linter can
	@$(VENV)/ruff check --fix --quiet . ; $(VENV)/ruff format .

bench: setup ## Measure, and print two tables
	@$(VENV)/python -m local bench

stream: setup ## Put 100,000 orders through the event hub while parts are killed, and print two tables
	@$(VENV)/python -m local.bench.stream

vast: $(PYTHON_PACKAGES) ## Sweep a million tasks, and print for how long and with how much memory
	@VAST_TASKS=1000000 $(VENV)/pytest --quiet --capture=no -k very_many tests/unit/supervisor/test_vast_store.py

crowds: setup ## Prove what is promised of crowds, at full size, and draw how calls return; half an hour
	@$(VENV)/python -m tests.e2e.crowds $(if $(ONLY),--only $(ONLY))

screenshots: setup ## Take the console's pictures for the documentation again
	@$(VENV)/python -m tests.e2e.console.screenshots

scale-page: $(PYTHON_PACKAGES) ## Compute the tables of docs/scale.md again
	@$(VENV)/python -m local.scale_page

settings-page: $(PYTHON_PACKAGES) ## Write docs/settings.md again from the application's settings
	@$(VENV)/python -m local.settings_page

lock: $(PYTHON_PACKAGES) ## Pin the newest allowed packages again, with hashes
	$(COMPILE) -o requirements.txt requirements.in
	$(COMPILE) --allow-unsafe -o requirements-dev.txt requirements-dev.in
	npm install --package-lock-only --no-audit --no-fund

clean: ## Delete what can be made again: environment, packages, caches (`make reset` forgets data)
	rm -rf .venv node_modules .*_cache .hypothesis .coverage*
	find functions local packages tests -type d \( -name __pycache__ -o -name '.*_cache' -o -name .hypothesis \
		-o -name build -o -name '*.egg-info' \) -prune -exec rm -rf {} +

.venv/bin/python:
	@python="$(PYTHON)"; : "$${python:=$$(local/setup/find-python)}"; test -n "$$python" && \
		echo "Making .venv with $$python" && "$$python" -m venv --clear .venv

$(PYTHON_PACKAGES): requirements.txt requirements-dev.txt $(CLOCKS) $(PACKAGES:=/pyproject.toml) | .venv/bin/python
	@echo "Installing the Python packages (once; a minute or two)"
	@$(VENV)/python -m pip install --quiet --disable-pip-version-check --require-hashes \
		-r requirements.txt -r requirements-dev.txt
	@$(VENV)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		$(addprefix --editable ,$(PACKAGES))
	@$(VENV)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --no-build-isolation \
		-r $(CLOCKS) >/dev/null 2>&1 || echo "No libfaketime here: chaos has no wrong clocks"
	@touch $@

$(NODE_PACKAGES): package-lock.json local/setup/unpack-browser.mjs | $(PYTHON_PACKAGES)
	@local/setup/check-node
	@echo "Installing Azurite, a browser and a client of Service Bus for the tests (once)"
	@npm ci --no-audit --no-fund --loglevel=error
	@node local/setup/unpack-browser.mjs
	@$(VENV)/python -m tests.e2e.console.browser
	@touch $@
