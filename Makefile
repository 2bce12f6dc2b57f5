# Every target makes the environment first if it is missing. make help lists them.
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
PAPERS := $(patsubst papers/%/reproduce.py,%,$(wildcard papers/*/reproduce.py))
FORMAT ?= terminal
DATA ?= ../shared/data
# Tests without a marker of pyproject.toml's list.
QUICK := not (trains or process or sandbox or sweep or slurm or verl or browser)
# The mark of the environment that lint and tests need; .ci/run names the one with TRL.
READY ?= $(VENV)/.ready
KEPT := theory toy simulation covariance weights laptop laptop_maze figures *.csv *.csv.gz *.md
# What submits, and what jobs then run in: .venv-cluster where it was made, else .venv (a dry run needs no more).
SUBMITTER := $(if $(wildcard $(CLUSTER_VENV)/bin/python),$(CLUSTER_VENV),$(VENV))
# Not its .ready file: a change of pyproject.toml must not turn a CUDA environment into the CPU one.
SUBMITTER_READY := $(or $(wildcard $(SUBMITTER)/bin/python),$(VENV)/.ready)

.DEFAULT_GOAL := help
.PHONY: help setup reproduce-all evidence join reference-check check test-quick test-pythons types gate test lint format docs bench bench-gpu verdicts report yardstick pretrained clean setup-cluster setup-cluster-cpu test-cluster test-slurm test-verl test-verl-slurm gpu-smoke rehearse

help: ## list the targets
	@grep -hE '^[a-z][a-zA-Z_%-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 26
	@echo "papers: $(PAPERS)   SCALE=smoke|laptop|laptop_maze|full (laptop)"

setup: $(VENV)/.ready ## make .venv with pinned versions

# torch first and exactly: on its own it resolves to the build that fits the machine's index.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,ifeval]'
	touch $@

reproduce-%: $(if $(filter cluster%,$(SCALE)),$(SUBMITTER_READY),$(VENV)/.ready) ## one paper on this machine, to the comparison; f_grpo SCALE=gpu [BUDGET=4h]: Table 4 of its second version on one GPU; SCALE=cluster CLUSTER=profile [DRY_RUN=1|full] [BUDGET=GPU-hours] [WITHOUT=ROW,ROW] [VERL="KEY=VALUE ..."]: through SLURM
ifneq ($(filter cluster%,$(SCALE)),)
	$(SUBMITTER)/bin/python -m slurm submit paper=$* profile=$(CLUSTER) scale=$(SCALE) dry_run=$(DRY_RUN) $(if $(BUDGET),budget=$(BUDGET)) $(if $(WITHOUT),without=$(WITHOUT)) $(addprefix verl.,$(VERL))
else
	$(BIN)/python -m papers.$*.reproduce scale=$(SCALE) $(if $(BUDGET),budget=$(BUDGET))
endif

status-%: $(SUBMITTER_READY) ## a paper's cluster jobs: queue, progress, failures
	$(SUBMITTER)/bin/python -m slurm status paper=$*

cancel-%: $(SUBMITTER_READY) ## end a paper's cluster jobs
	$(SUBMITTER)/bin/python -m slurm cancel paper=$*

reproduce-all: $(addprefix reproduce-,$(PAPERS)) ## all papers

evidence: $(VENV)/.ready ## SEEDS=10 (or 6-10) seeds of every row of the papers' laptop scales on both testbeds, unattended, at idle priority; stop and go on at will [ROWS=NAME,NAME] [BUDGET=8h]
	$(BIN)/python -m common.sweeps.evidence $(if $(SEEDS),seeds=$(SEEDS)) $(if $(ROWS),rows=$(ROWS)) $(if $(BUDGET),budget=$(BUDGET))

join: $(VENV)/.ready ## add the tables of finished runs to those of results/reference/ and judge again
	$(BIN)/python -m common.comparison.join
	for paper in $(PAPERS); do for part in figures compare; do \
	  $(BIN)/python -m papers.$$paper.$$part results_dir=results/reference > /dev/null || exit 1; done; done

compare-%: $(VENV)/.ready ## published against rerun, from results/ alone
	$(BIN)/python -m papers.$*.compare format=$(FORMAT)

report: $(VENV)/.ready ## results/report/index.html, from results/ alone: what each paper claims, what came out, what to run next; all claims and numbers below
	$(BIN)/python -m common.report

yardstick: $(VENV)/.ready ## every method of configs/method/ under one protocol, ranked at matched pass@1: two hours; PROTOCOL=yardstick_countdown|yardstick_maze: the second edition, which methods beat a smaller learning rate
	$(BIN)/python -m common.yardstick $(if $(PROTOCOL),protocol=$(PROTOCOL))

pretrained: $(VENV)/.ready ## the papers' methods on small pretrained models, against their base model; SCALE=smoke|overnight|gpu
	$(BIN)/python -m common.pretrained $(if $(filter-out laptop,$(SCALE)),scale=$(SCALE))

reference-%: ## copy what git keeps of finished runs (tables and pictures) to results/reference/
	mkdir -p results/reference/$*
	cp -r $(foreach name,$(KEPT),$(wildcard results/$*/$(name))) results/reference/$*/
	rm -f results/reference/$*/figures/*.pdf

reference-check: $(VENV)/.ready ## results/reference/: do claims, cells, figures' tables and the intervals in READMEs and docs follow from the committed tables? a few minutes
	$(BIN)/python -m common.comparison.reference

check: $(READY) ## the loop of every change, under two minutes: lint, types and the tests that need nothing
	$(MAKE) --jobs=3 --keep-going --output-sync=target test-quick types lint

test-quick: $(READY)
	$(BIN)/python -m pytest -n 2 -m '$(QUICK)' tests tests/slurm

types: $(READY)
	$(BIN)/python -m mypy

test: $(READY) ## the tests: no GPU, no network
	$(BIN)/python -m pytest -n 2

test-pythons: ## a quick subset without torch on Python 3.11 to 3.13, where they are [PYTHONS="3.12 3.13"]
	$(PYTHON) tests/pythons.py $(PYTHONS)

setup-cluster-cpu: $(CLUSTER_VENV)/.ready ## make .venv-cluster: verl and vLLM for a machine without a GPU

# --no-deps: the file is the whole environment; torch first and with its dependencies, as above.
$(CLUSTER_VENV)/.ready: pyproject.toml constraints-cluster-cpu.txt
	$(PYTHON) -m venv $(CLUSTER_VENV)
	$(CLUSTER_VENV)/bin/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(CLUSTER_VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps \
	  -r constraints-cluster-cpu.txt -e .
	$(CLUSTER_VENV)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec triton
	touch $@

setup-cluster: ## make .venv-cluster for CUDA: verl with its vLLM; PYTHON=python3.12 FLASH_ATTN=WHEEL
	@$(PYTHON) -c 'import sys; v = "%d.%d" % sys.version_info[:2]; sys.exit(v != "3.12" and \
	  "error: PYTHON=$(PYTHON): Python " + v + ", and the pins and flash-attn are for 3.12; set PYTHON=python3.12")'
	$(PYTHON) -m venv $(CLUSTER_VENV)
	@$(CLUSTER_VENV)/bin/pip install --disable-pip-version-check --no-deps --only-binary=:all: '$(FLASH_ATTN)' || \
	  { echo 'error: FLASH_ATTN=$(FLASH_ATTN): no such wheel; set it to the file or address of' \
	  'flash_attn-2.8.3-cp312-cp312-linux_x86_64.whl (docs/cluster.md says where it is)' >&2; exit 1; }
	$(CLUSTER_VENV)/bin/pip install --disable-pip-version-check --no-deps -r constraints-cluster-cuda.txt -e .
	touch $(CLUSTER_VENV)/.ready

test-cluster: $(READY) ## a real SLURM, verl and vLLM on this machine, without a GPU; names what is skipped
	$(MAKE) --jobs=2 --output-sync=target test-slurm test-verl test-verl-slurm  # beside each other: both wait often

test-slurm: $(READY)
	$(BIN)/python -m pytest -rs tests/slurm --ignore=tests/slurm/test_ray.py

test-verl: $(CLUSTER_VENV)/.ready
	$(CLUSTER_VENV)/bin/python -m pytest -rs tests/cluster --ignore=tests/cluster/test_verl_in_slurm.py

# After test-slurm, for a machine has one SLURM, and after test-verl: verl and vLLM of both at once, and other work beside
# them, have filled 24 GB, and Ray then kills a training.
test-verl-slurm: test-slurm test-verl $(CLUSTER_VENV)/.ready
	$(CLUSTER_VENV)/bin/python -m pytest -rs tests/slurm/test_ray.py
	$(CLUSTER_VENV)/bin/python -m pytest -rs tests/cluster/test_verl_in_slurm.py

# What waits and what computes beside each other, the longest first; a failure ends none of the others.
gate: ## what .ci/run runs: lint, types, make test, make test-cluster and the other Pythons' quick subset
	$(MAKE) --jobs=4 --keep-going --output-sync=target test-slurm test-verl types lint test test-verl-slurm test-pythons PYTHONS=3.13

# A row of SCALE=cluster with its own numbers on a hollow model: real SLURM, Ray, verl, vLLM, evaluation, comparison.
ROW ?=
SAMPLES ?= 2048
NODES ?= 1
rehearse-%: $(CLUSTER_VENV)/.ready ## dress rehearsal of one row of a paper on this machine, no GPU [ROW=... SAMPLES=... NODES=2]
	$(CLUSTER_VENV)/bin/python tests/slurm/one_machine.py run $(CLUSTER_VENV)/bin/python -m slurm rehearse \
	  paper=$* row=$(ROW) samples=$(SAMPLES) nodes=$(NODES)

# One after another: a machine has one SLURM.
rehearse: ## one row of every paper
	for paper in $(PAPERS); do $(MAKE) rehearse-$$paper || exit 1; done

lint: $(READY) ## ruff and the contracts on imports, check only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.ready ## ruff, in place
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.ready ## write docs/methods.md from docstrings and method files, the deviations in the papers' READMEs, and the README's first screen
	$(BIN)/python -m common.methods.catalogue > docs/methods.md.new
	mv docs/methods.md.new docs/methods.md
	$(BIN)/python -m common.sweeps.deviations
	$(BIN)/python -m common.report readme

bench: $(VENV)/.bench $(CLUSTER_VENV)/.ready ## side-by-side speed against the peers, into results/bench/
	$(BIN)/python -m bench step rollout dlc simulation metrics verifiers code_verifier startup weights
	$(CLUSTER_VENV)/bin/python -m bench losses advantages validation

# WORDS: smoke=true results_dir=FOLDER. vLLM takes part where the environment of setup-cluster has it.
bench-gpu: $(SUBMITTER_READY) ## speed on one GPU from 0.4 M to 1.5 B parameters, beside transformers and vLLM, into results/bench/
	$(SUBMITTER)/bin/python -m bench.gpu $(WORDS)

# WORDS: model.path=FOLDER_OR_HUB_ID results_dir=FOLDER
gpu-smoke: ## the first fifteen minutes on new GPUs: train, kill, resume, evaluate, DLC; a table of what works and how fast
	@test -x $(CLUSTER_VENV)/bin/python || { echo "no $(CLUSTER_VENV): make setup-cluster, without a GPU setup-cluster-cpu"; exit 2; }
	$(CLUSTER_VENV)/bin/python -m bench.gpu_smoke $(WORDS)

$(VENV)/.bench: $(VENV)/.ready
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,ifeval,bench]'
	touch $@

verdicts: $(VENV)/.ready ## how the verifiers judge labelled cases, into results/verifiers/ (DATA=../shared/data)
	$(BIN)/python -m bench.verdicts data=$(DATA)

clean: ## delete the environment and caches, never results
	rm -rf $(VENV) $(CLUSTER_VENV) .pytest_cache .ruff_cache .mypy_cache
