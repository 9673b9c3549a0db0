# Every target does its own set-up; `make` alone lists them.
SHELL := /bin/sh
PYTHON ?= python3.11
CASES ?= tests/golden
LAKE ?= build/demo/lake
REPORT ?= build/demo/report.html
ARGS ?=

RUN := .venv/bin/python
PURE := not (spark or airflow or browser or pulsar or slow or exhaustive)
RESULTS := build/test-all.xml
TYPES := build/mypy.txt
PROCESSES := -n auto --dist loadscope --no-loadscope-reorder
LOCK = .venv/bin/uv pip compile -q pyproject.toml --extra engine --group demo --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command "make lock"

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev demo ui report test test-all check conformance e2e soak bench docs site dist lock format stop clean

help: ## list the targets
	@echo "Evenkeel: make TARGET"
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: ## make .venv with all packages and fetch Delta's jars; what is there is not fetched again
	@$(call demand_python)
	@$(PYTHON) tools/environment.py

setup-dev:
	@$(call demand_python)
	@$(PYTHON) tools/environment.py --dev

demo: setup ## run the whole pipeline under Airflow over recordings of a real cluster, and write a report
	@$(RUN) -m devtools.demo $(ARGS)

ui: setup ## Airflow and the desk over a week of three generated clusters, until Ctrl-C (ARGS="--lake DIR": over others)
	@$(RUN) -m devtools.local_airflow $(ARGS)

report: setup ## write the report of LAKE's latest cycles to REPORT
	@.venv/bin/evenkeel report --lake $(LAKE) --out $(REPORT) $(ARGS)

test: setup-dev ## run the tests, one process per core (ARGS goes to pytest; -n 0 for a single process)
	@$(RUN) -m pytest $(PROCESSES) -m "not exhaustive" $(ARGS)

test-all: setup-dev ## run every test, the exhaustive ones too, and keep the results in build/test-all.xml
	@$(RUN) -m pytest $(PROCESSES) --timeout=3600 --junitxml=$(RESULTS) $(ARGS); status=$$?; echo "results: $(RESULTS)"; exit $$status

check: setup-dev ## the fast part: lint, format, types, and the tests that need no Spark, Airflow or browser
	@echo "ruff check";  .venv/bin/ruff check .
	@echo "ruff format"; .venv/bin/ruff format --check .
	@mkdir -p build; .venv/bin/mypy > $(TYPES) 2>&1 & types=$$!; trap 'kill $$types 2>/dev/null' EXIT; trap 'exit 130' INT TERM; \
	$(RUN) -m pytest $(PROCESSES) -m "$(PURE)" $(ARGS); tests=$$?; \
	wait $$types; types=$$?; trap - EXIT; \
	echo "mypy"; cat $(TYPES); \
	[ $$types = 0 ] || echo "make check: mypy failed" >&2; \
	[ $$tests = 0 ] || echo "make check: the tests failed" >&2; \
	[ $$types = 0 ] && [ $$tests = 0 ]

conformance: setup ## compare the decision code with golden answers of Pulsar's own classes in CASES
	@$(RUN) -m devtools.conformance $(CASES)

e2e: setup-dev ## balance a real three-broker cluster under Airflow, with both load managers (ARGS=--manager modular)
	@$(RUN) -m tests.e2e $(ARGS)

soak: setup-dev ## hundreds of cycles under Airflow with kills, restarts and upkeep; again: it goes on (ARGS="--cycles 300")
	@$(RUN) -m devtools.soak $(ARGS)

bench: setup-dev ## measure speed and memory (ARGS names single benchmarks)
	@$(RUN) -m benchmarks $(ARGS)

docs: setup ## write the reference pages that come from the code
	@$(RUN) -m devtools.reference docs/reference
	@$(RUN) -m devtools.rooms

site: setup-dev ## build the documentation as a site with search in build/site; a warning fails
	@.venv/bin/sphinx-build -q -W --keep-going -c docs -b html . build/site
	@echo build/site/docs/README.html

lock: setup-dev ## compile requirements*.txt from pyproject.toml, keeping what still fits (ARGS=--upgrade for newer)
	@$(LOCK) $(ARGS) -o requirements.txt > /dev/null
	@$(LOCK) $(ARGS) --group dev -c requirements.txt -o requirements-dev.txt > /dev/null

dist: setup-dev ## build the wheel and the source archive in dist/
	@.venv/bin/uv build -q --out-dir dist && ls dist/*.whl dist/*.tar.gz

format: setup-dev ## let ruff format the code
	@.venv/bin/ruff format .

stop: ## end the Spark server that this checkout left running
	@if [ -x .venv/bin/evenkeel ]; then .venv/bin/evenkeel engine stop; else echo "nothing was running"; fi

clean: stop ## remove what runs and tests left behind; .venv stays
	@rm -rf build dist .airflow .evenkeel .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find spark dags plugins tests benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Also finds out version managers whose python3.11 is a stub that cannot run.
define demand_python
$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null || { \
	echo "Evenkeel needs Python 3.11, 3.12 or 3.13, and '$(PYTHON)' is missing or another version." >&2; \
	echo "On Debian 12: apt-get install python3 python3-venv; elsewhere e.g. pyenv install 3.11." >&2; \
	echo "Then: make $(or $(MAKECMDGOALS),setup) PYTHON=/path/to/python3.11" >&2; exit 1; }
endef
