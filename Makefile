# Everything a contributor runs. `make walkthrough` and `make test` need nothing but Python 3.11 or newer and a package index:
# they make .venv themselves (scripts/environment.py says how), and start at once when it is there.
#
#   make test PYTHON=python3.13     with another Python
#   make test ORACLE=1              with PyTorch even where pip would take the large build
#   make walkthrough ARGS=--quick   arguments for the command itself

PYTHON ?= python3
ARGS ?=
TEXT ?=
VENV := .venv
BIN := $(VENV)/bin

# Two workers on two cores: a BLAS that starts threads of its own would only get in their way.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
export ORACLE
export CHAINRULE_VENV = $(VENV)

# $(call setup,EXTRAS): .venv with these extras.
define setup
@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	{ echo 'setup: "$(PYTHON)" is no Python 3.11 or newer that runs here; install one, or name one: make $@ PYTHON=python3.13' >&2; exit 1; }
@"$(PYTHON)" -I scripts/environment.py --target $@ $(1)
endef

.NOTPARALLEL:
.PHONY: help walkthrough test generic check bench mutants soak chars ulp size publish format clean

help:
	@echo 'make walkthrough   train, compare, draw: results/index.html    (ARGS=--quick: in 30 seconds)'
	@echo 'make test          the whole test suite, PyTorch and JAX as oracles included'
	@echo 'make generic       of the tests, those made for every primitive'
	@echo 'make check         format, lint, types, floors'
	@echo 'make format        what of make check can be put right by itself'
	@echo 'make bench         speed against PyTorch and JAX'
	@echo 'make mutants       break each rule in turn; the tests must notice'
	@echo 'make soak          kill a training run 50 times, at random, and resume it; 200 processes in one cache'
	@echo 'make chars         row C6, minutes: the character transformer with 3 seeds   (TEXT=file)'
	@echo 'make ulp           minutes: every float32 through every vector function of native code'
	@echo 'make size          lines, bytes and import time of the library'
	@echo 'make publish       full walkthrough and bench, then docs/measurements.json'
	@echo 'make clean         remove .venv, caches and results'
	@echo 'Each sets up .venv by itself. PYTHON=python3.13 takes another Python, ORACLE=1 the large PyTorch.'

walkthrough:
	$(call setup,walkthrough)
	@$(BIN)/chainrule walkthrough $(ARGS)

test:
	$(call setup,test oracle)
	@$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

# No oracles: this is what .ci/run does on a second Python.
generic:
	$(call setup,test)
	@$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal -m generic $(ARGS)

# All of them run, even after one has found something.
check:
	$(call setup,dev)
	@failed=; run() { echo "$$ $$*"; "$$@" || failed="$$failed $${1##*/}"; }; \
	run $(BIN)/ruff format --check .; \
	run $(BIN)/ruff check .; \
	run $(BIN)/pyright --project pyproject.toml --pythonpath $(BIN)/python; \
	run $(BIN)/lint-imports --no-logo; \
	[ -z "$$failed" ] || { echo "check: not right:$$failed"; exit 1; }

format:
	$(call setup,dev)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench:
	$(call setup,test oracle)
	@$(BIN)/python -m benchmarks $(ARGS)

mutants:
	$(call setup,test)
	@$(ONE_THREAD) $(BIN)/python -m tests.mutants.run $(ARGS)

soak:
	$(call setup,test)
	@$(ONE_THREAD) $(BIN)/python -m tests.training.soak $(ARGS)
	@$(ONE_THREAD) $(BIN)/python -m tests.compiler.soak_cache

# ARGS=--against-pytorch trains the same in PyTorch, where `make test` could get it.
chars:
	$(call setup,walkthrough)
	@$(ONE_THREAD) $(BIN)/python -m scripts.chars $(if $(TEXT),--text "$(TEXT)") $(ARGS)

size:
	$(call setup,walkthrough)
	@$(BIN)/python -m scripts.size

# Every float32 through every vector function of native code, and millions of float64: some minutes.
ulp:
	$(call setup,test)
	@$(ONE_THREAD) $(BIN)/python -m scripts.ulp $(ARGS)

publish:
	$(call setup,test oracle)
	@$(BIN)/python -m scripts.publish $(ARGS)

clean:
	rm -rf .venv .venv-* results build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
