# Two commands matter to a newcomer: `make lab` and `make test`. `make help` lists the others.
# Everything lives in .venv; it is made once and again when pyproject.toml, setup.py or constraints.txt change.

PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=
JOBS   ?= 2

BIN      := $(VENV)/bin
INSTALL   = $(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt
RECIPE   := pyproject.toml setup.py constraints.txt
LESSONS   = $(sort $(wildcard lessons/[0-9][0-9]*.ipynb lessons/solutions/[0-9][0-9]*.ipynb))
TYPESCRIPT := 5.9.3
COMPILER  = $(VENV)/node/typescript-$(TYPESCRIPT)
CHROMIUM := $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help lab test check lint types unit interpreter notebooks browser test-all exhaustive lessons players clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo '  ARGS go to jupyter lab as they are: make lab ARGS="--no-browser --port 9999"'

lab: $(VENV)/.lab ## install if needed, copy the lessons to my-lessons/ and open JupyterLab on lesson 00
	@$(BIN)/specdec-teach lab --folder my-lessons $(ARGS)

test: lint types unit interpreter notebooks browser ## everything that needs no GPU

check: ## what CI runs: make test, and chromium must be there
	@bash .ci/run

lint: $(VENV)/.test ## ruff
	@echo '== ruff'
	@$(BIN)/ruff check .

types: $(VENV)/.test ## mypy --strict
	@echo '== mypy --strict'
	@$(BIN)/mypy

unit: $(VENV)/.test $(COMPILER) ## unit and exactness tests and doctests
	@echo '== tests and doctests'
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder --ignore tests/browser --ignore tests/interpreter -m 'not slow and not exhaustive and not gpu' $(ARGS)

interpreter: $(VENV)/.test ## the kernels in Triton's interpreter: its mode is one for a process
	@echo '== kernels, interpreted'
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(JOBS) --dist load -m 'not slow and not exhaustive and not gpu' tests/interpreter

notebooks: $(VENV)/.test ## run every lesson and compare each output with the stored one
	@echo '== lessons, strictly'
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile -p tests.lessons.kernels -c tests/lessons/nbval.ini --rootdir . --nbval --nbval-current-env --nbval-cell-timeout=120 $(LESSONS)

browser: $(VENV)/.test ## the player and a lesson in a real browser
	@echo '== browser'
ifneq ($(or $(CHROMIUM),$(SPECDEC_REQUIRE_BROWSER)),)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(JOBS) -m 'not slow and not exhaustive' tests/browser
else
	@echo '!! SKIPPED: no chromium here, so the browser tests did not run. On Debian or Ubuntu: apt-get install chromium'
endif

test-all: test ## also the slow tests
	@$(BIN)/python -m pytest -q --ignore tests/interpreter -m 'slow and not exhaustive and not gpu'

exhaustive: $(VENV)/.test ## walk whole spaces; before a release
	@$(BIN)/python -m pytest -q --ignore tests/interpreter -m 'exhaustive and not gpu'
	@$(BIN)/python -m pytest -q -m 'exhaustive and not gpu' tests/interpreter

lessons: $(VENV)/.test ## rebuild lessons/*.ipynb from lessons/src
	@OMP_NUM_THREADS=1 $(BIN)/python -m lessons.build $(ARGS)

players: $(VENV)/.lab ## write pages/: the key moment of every lesson, to play in any browser
	@$(BIN)/python -m lessons.players pages $(ARGS)

clean: ## remove the environment and every cache; my-lessons/ stays
	rm -rf $(VENV) pages build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo 'Python 3.11 or newer is needed. Name one: make PYTHON=python3.12 lab'; exit 1; }
	@echo '== making $(VENV)'
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo 'This Python cannot make an environment. On Debian or Ubuntu: apt-get install python3-venv'; exit 1; }

# Checks the types of the views' scripts. Without npm or a network the test of those types is skipped, and says so.
$(COMPILER): | $(BIN)/python
	@command -v npm >/dev/null || { echo '!! no npm here: the types of the scripts will NOT be checked. On Debian or Ubuntu: apt-get install npm'; exit 0; }; \
	  echo '== installing TypeScript $(TYPESCRIPT)'; \
	  npm install --prefix $(VENV)/node --cache $(VENV)/node/cache --no-save --no-package-lock --no-audit --no-fund \
	    --no-update-notifier --fetch-retries 1 --silent typescript@$(TYPESCRIPT) && touch $@ || \
	  echo '!! TypeScript could not be installed: the types of the scripts will NOT be checked. Online: make $@'

$(VENV)/.lab: $(RECIPE) | $(BIN)/python
	@echo '== installing torch (the largest part; once)'
	@$(INSTALL) torch
	@echo '== installing JupyterLab, transformers and specdec-teach'
	@$(INSTALL) --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.lab
	@echo '== installing what the tests need'
	@$(INSTALL) --editable '.[test]'
	@touch $@
