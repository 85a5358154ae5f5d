# Everything a developer types. Nothing needs to be installed first but git, make, Python 3.13 and Node 20.
# `make PYTHON=/path/to/python3.13 …` uses that Python for the environment.

.DEFAULT_GOAL := help
VENV := .venv/bin
# Each of these files is made when its packages have been installed.
RUN_PACKAGES := .venv/.installed
TEST_PACKAGES := .venv/.installed-for-tests
AZURITE := node_modules/.installed
BROWSER := node_modules/.installed-for-tests
PACKAGES := packages/functions-local packages/servicebus-local
# In seconds; the time until the tests begin went into downloads and installs.
export MAKE_BEGUN := $(shell date +%s)
TESTS = $(VENV)/python -m tests.house.run
INSTALL := $(VENV)/python -m pip install --quiet --disable-pip-version-check --require-hashes
COMPILE := $(VENV)/pip-compile --quiet --upgrade --generate-hashes --strip-extras \
	--no-emit-find-links --no-emit-index-url --no-emit-trusted-host

.PHONY: help setup run demo up reset test test-all test-shuffled check budgets simulate simulate-planted azure-types format bench \
	stream screenshots queues settings-page lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(RUN_PACKAGES) $(AZURITE) ## Make the environment and install the pinned packages that running needs

run: queues ## Start everything, show one order on its way, and stay until Ctrl-C
	@$(VENV)/python -m local run

demo: queues ## Start everything, send 50 orders and 50 deliveries, sum up, and stop
	@$(VENV)/python -m local demo

up: queues ## Start everything, and stay until Ctrl-C
	@$(VENV)/python -m local up

reset: $(RUN_PACKAGES) ## Delete all local state
	@$(VENV)/python -m local reset

test: $(TEST_PACKAGES) $(BROWSER) ## Run the tests before a commit: at most 15 minutes on 2 cores
	@$(TESTS)

test-all: $(TEST_PACKAGES) $(BROWSER) ## Run every test, and larger runs: 5,000 events, a million tasks
	@VAST_TASKS=1000000 STREAM_EVENTS=5000 $(TESTS) --night

test-shuffled: $(TEST_PACKAGES) $(BROWSER) ## Run the tests of `make test` in another order (SEED=…)
	@$(TESTS) -p randomly --randomly-seed=$(SEED)

check: $(TEST_PACKAGES) ## Lint, check formatting, types, import contracts, texts and sizes
	@$(VENV)/ruff check .
	@$(VENV)/ruff format --check --quiet .
	@$(VENV)/mypy
	@for each in $(PACKAGES); do (cd $$each && ../../$(VENV)/mypy) || exit 1; done
	@$(VENV)/lint-imports
	@$(VENV)/python -m tests.house.prose
	@$(VENV)/python -m tests.house.budgets

budgets: $(RUN_PACKAGES) ## Print the size of the project, and its bounds
	@$(VENV)/python -m tests.house.budgets

simulate: $(TEST_PACKAGES) ## Repeat a simulated run exactly (SEED=…), and print its story, or that of one task (TASK=t1)
	@test -n "$(SEED)" || { echo "which seed? make simulate SEED=14"; exit 2; }
	@$(VENV)/python -m tests.simulation --seed $(SEED) --shrink $(if $(CALM),--calm) $(if $(TASK),--task $(TASK))

simulate-planted: $(TEST_PACKAGES) ## Print the first seed that sees each planted bug
	@$(VENV)/python -m tests.simulation --planted --count 2000

azure-types: $(TEST_PACKAGES) ## Get Azure's published types for the templates' tests, into AZURE_TYPES
	@$(VENV)/python -m tests.infra.azure.published

format: $(TEST_PACKAGES) ## Format the code and fix what the linter can
	@$(VENV)/ruff check --fix --quiet . ; $(VENV)/ruff format .

bench: $(TEST_PACKAGES) $(AZURITE) ## Measure, and print two tables
	@$(VENV)/python -m local bench

stream: $(TEST_PACKAGES) $(AZURITE) ## Send 100,000 orders through the event hub while parts are killed, and replay them
	@STREAM_EVENTS=100000 $(VENV)/pytest -q -s tests/e2e/hub/test_kills.py

screenshots: $(TEST_PACKAGES) $(BROWSER) ## Take the console's pictures for the documentation again
	@$(VENV)/python -m tests.e2e.console.screenshots

queues: setup ## Write the lists of queues again from the workflows' definitions
	@$(VENV)/python -m local.queue_list

settings-page: $(TEST_PACKAGES) ## Write docs/settings.md again from the application's settings
	@$(VENV)/python -m local.settings_page

lock: $(TEST_PACKAGES) ## Pin the newest allowed packages again, with hashes
	$(COMPILE) -o requirements.txt requirements.in
	$(COMPILE) --allow-unsafe -o requirements-local.txt requirements-local.in
	$(COMPILE) --allow-unsafe -o requirements-dev.txt requirements-dev.in
	npm install --package-lock-only --no-audit --no-fund

clean: ## Delete what can be made again: environment, packages, caches (`make reset` forgets data)
	rm -rf .venv node_modules .*_cache .hypothesis .coverage*
	find functions local packages tests -type d \( -name __pycache__ -o -name '.*_cache' -o -name .hypothesis \
		-o -name build -o -name '*.egg-info' \) -prune -exec rm -rf {} +

.venv/bin/python:
	@python="$(PYTHON)"; : "$${python:=$$(local/setup/find-python)}"; test -n "$$python" && \
		echo "Making .venv with $$python" && "$$python" -m venv --clear .venv

$(RUN_PACKAGES): requirements.txt requirements-local.txt $(PACKAGES:=/pyproject.toml) | .venv/bin/python
	@echo "Installing the Python packages (once; about a minute)"
	@$(INSTALL) -r requirements.txt -r requirements-local.txt
	@$(VENV)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		$(addprefix --editable ,$(PACKAGES))
	@touch $@

$(TEST_PACKAGES): requirements-dev.txt $(RUN_PACKAGES)
	@echo "Installing the Python packages of the tests (once; about a minute)"
	@$(INSTALL) -r requirements-dev.txt
	@touch $@

$(AZURITE): package-lock.json
	@local/setup/check-node
	@echo "Installing Azurite (once)"
	@npm ci --omit=dev --no-audit --no-fund --loglevel=error
	@touch $@

$(BROWSER): local/setup/unpack-browser.mjs $(AZURITE) $(TEST_PACKAGES)
	@echo "Installing a browser and a client of Service Bus for the tests (once)"
	@npm install --no-save --no-audit --no-fund --loglevel=error
	@node local/setup/unpack-browser.mjs
	@$(VENV)/python -m tests.e2e.console.browser
	@touch $@
