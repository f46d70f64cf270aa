# One entry point for people and for CI. `make help` lists what there is.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The stamp names the Python that it was made with, so that another one, as in `make test PYTHON=python3.13`, makes
# .venv anew.
VERSION = -c 'import sys; print("%s-%d.%d" % (sys.implementation.name, *sys.version_info[:2]))'
WANTED := $(shell $(PYTHON) $(VERSION))
STAMP := $(VENV)/.ready-$(WANTED)

# The web pages: npm, what it installed, the types that it made, what it built, and what that was built from.
NPM := web/npm.sh
WEB := web/node_modules/.ready
TYPES := web/client/src/openapi.ts
PAGES := src/ficha/server/pages/.ready
WEB_SOURCES := $(shell find web \( -name node_modules -o -name dist -o -path $(TYPES) \) -prune -o -type f -print)

# Programs that the tests run, each with the Debian package that has it.
DEBIAN := chromium-headless-shell:chromium-headless-shell pgbouncer:pgbouncer promtool:prometheus systemd-analyze:systemd

# Options handed to pytest, for example: make test ARGS="-k ledger -x".
ARGS ?=
# The suite waits for disk flushes and for other processes as much as for the processor, so two cores feed four workers.
WORKERS ?= 4
# Which seeds `make simulate` runs.
SEEDS ?= 1000
START ?= 0
# How long `make chaos` and `make soak` go on.
MINUTES ?= 10
# How long all attackers of `make attack` together are at work on each database.
SECONDS ?= 60
# Anything at all makes `make demo` a check that ends by itself.
CHECK ?=
# How many requests of each kind `make fuzz` makes up for an operation.
CASES ?= 50
# Existing pins are kept by `make lock`; `make lock UPGRADE=1` takes the newest version of everything.
UPGRADE ?=

# Locks hold for every platform and every Python from 3.11 on, and name no index, so that any mirror can serve them.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)

# What comes before the tests in Python, two at a time.
BESIDE = $(MAKE) --jobs=2 --output-sync=target check-python check-web test-web

.PHONY: help setup web wheel demo test test-all test-web debian check check-python check-web format bench simulate chaos soak attack fuzz openapi sql lock clean

help: ## list these commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 16

setup: $(STAMP) ## make .venv with everything in it; does nothing when nothing changed

web: $(PAGES) ## build the web pages: the console and the studio; does nothing when nothing changed

wheel: web ## build a wheel into dist, with the console in it: to install it takes no Node
	$(BIN)/python -m hatchling build --target wheel

# In a terminal, Ctrl-C is for the demonstration alone, which then ends well; make itself would end with an error.
demo: setup web ## run the example studio with its page and the console until Ctrl-C; CHECK=1 tries it out over HTTP instead
	@if [ -t 0 ]; then set -m; fi; make=$$PPID; cd examples/studio && \
		$(CURDIR)/$(BIN)/python $(if $(CHECK),check.py --pages,run.py --parent $$make $(ARGS))

test: setup web debian ## before every commit: the static checks, then every test but the long ones
	$(BESIDE)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not long" $(ARGS)

test-all: setup web debian ## before every release: the long tests too, SEEDS of the simulator, MINUTES of faults, attackers
	$(BESIDE)
	CASES=$(CASES) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --hypothesis-profile thorough $(ARGS)
	$(MAKE) simulate chaos attack

# Where this may not install them, the tests that need them say what is missing.
debian:
	@missing=""; for tool in $(DEBIAN); do PATH="$$PATH:/usr/sbin" command -v "$${tool%:*}" >/dev/null || missing+=" $${tool#*:}"; done; \
	[ -z "$$missing" ] \
		|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq \
			&& RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; } \
		|| echo "The tests need these packages, which could not be installed:$$missing" >&2

check: check-python check-web ## formatting, lint, types and the import arrows

check-python: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/python -m mypy
	$(BIN)/lint-imports

check-web: $(TYPES)
	$(NPM) run check

test-web: $(TYPES)
	$(NPM) test

format: setup $(WEB) ## format the code and mend what the linter can mend
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format
	$(NPM) run format

bench: setup ## measure Ficha and its peers
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.endurance
	$(BIN)/python -m benchmarks.serving
	$(BIN)/python -m benchmarks.gpu
	$(BIN)/python -m benchmarks.hostile
	$(BIN)/python -m benchmarks.files
	$(BIN)/python -m benchmarks.callbacks
	$(BIN)/python -m benchmarks.console
	$(BIN)/python -m benchmarks.sizes

simulate: setup ## run SEEDS seeds (default 1000) of the simulator, from START on
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --start $(START)

chaos: setup ## break it on purpose for MINUTES (default 10), and report
	$(BIN)/python -m tests.chaos --minutes $(MINUTES) --report chaos-report.md

soak: setup ## mixed load for MINUTES (default 10) with kills, crashes, pruning and an upgrade, on each database
	$(BIN)/python -m tests.soak --minutes $(MINUTES) --report soak-report.md

attack: setup ## attack a live server for SECONDS (default 60) on each database, while honest clients measure
	$(BIN)/python -m tests.attack --seconds $(SECONDS)

fuzz: setup ## make up CASES requests (default 50) for each operation, right and wrong ones, on each database
	CASES=$(CASES) $(BIN)/python -m pytest tests/server/test_fuzz.py -n $(WORKERS)

openapi: setup ## write openapi.json again, after a change of routes or shapes
	$(BIN)/ficha openapi > openapi.json

sql: setup ## write the hottest statements to tests/stores/sql again, after a change of them
	WRITE=1 $(BIN)/python -m pytest -q tests/stores/test_postgres_sql.py tests/stores/optimistic/test_sql.py

lock: setup ## pin the dependencies again, with their hashes
	$(COMPILE) pyproject.toml --all-extras --output-file requirements/runtime.txt
	$(COMPILE) pyproject.toml --all-extras --group dev --constraint requirements/runtime.txt --output-file requirements/dev.txt
	$(COMPILE) requirements/uv.in --constraint requirements/dev.txt --output-file requirements/uv.txt
	$(COMPILE) requirements/build.in --constraint requirements/dev.txt --output-file requirements/build.txt

clean: ## remove everything that the commands above made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -f examples/images/ficha.db* examples/images/paid-calls.log
	rm -rf examples/studio/data
	rm -rf web/node_modules web/*/dist $(TYPES) src/ficha/server/pages examples/studio/pages
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last, so an interrupted set-up is done again. pip is needed only to fetch uv, which installs the
# rest in a tenth of the time. `sync` also removes what the lock no longer names, the project among it, which is why
# the project itself is installed afterwards; its build backend is in the lock, so that step fetches nothing.
$(STAMP): pyproject.toml requirements/dev.txt requirements/uv.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) does not run, or is older than 3.11, which Ficha needs; say another with: make setup PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
		|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
			&& apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv; } \
		|| { echo "Python's venv module is missing; install it (on Debian and Ubuntu: apt-get install python3-venv)" >&2; exit 1; }
	@[ "$$($(BIN)/python $(VERSION) 2>/dev/null)" = "$(WANTED)" ] && $(BIN)/python -m pip --version >/dev/null 2>&1 \
		|| $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip sync --quiet --require-hashes requirements/dev.txt
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# The stamp is a file of node_modules, which npm empties first: an interrupted installation is done again, too.
$(WEB): web/package.json web/package-lock.json web/*/package.json | $(STAMP)
	@$(NPM) ci --prefer-offline --no-progress --loglevel=error \
		|| { echo "npm could not install what the web pages need (web/package-lock.json): it takes a registry, or npm's cache" >&2; exit 1; }
	@touch $@

$(TYPES): openapi.json $(WEB)
	@$(NPM) run --silent types
	@touch $@

$(PAGES): $(WEB_SOURCES) $(TYPES)
	$(NPM) run build
	@touch $@
