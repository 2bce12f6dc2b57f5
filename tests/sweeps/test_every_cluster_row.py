"""Four mistakes that would end a row only on the cluster, looked for in every row of every paper: a
context that is overrun, a store that is too small, a KL penalty without its reference model, and a
verifier without its package."""

from pathlib import Path

import pytest
from compositions import EXPERIMENTS, experiment

from common.backends.verl import config
from common.config.files import ROOT, read
from common.sweeps.assumptions import assumptions

pytestmark = pytest.mark.sweep

ROWS = [(paper, name) for paper, name in EXPERIMENTS if name.startswith("cluster/")]
PLACE = config.Place("cuda", 1, 8, None, Path("work"), "model")
IFEVAL = "common.verifiers.ifeval.verify"
NEEDED = ("lm_eval", "langdetect", "immutabledict", "nltk")  # of `lm-eval[ifeval]`


def settings(paper: str, name: str) -> tuple:
    x, a = experiment(name, paper), assumptions()
    context = a.models[x.model.path].context
    longest = a.prompts(x.data.name).longest
    return x, context, config.settings(x, PLACE, longest, context, {})


@pytest.mark.parametrize(("paper", "name"), ROWS)
def test_vllm_reads_no_more_tokens_than_the_model(paper, name):
    x, context, keys = settings(paper, name)
    longest = keys["data.max_prompt_length"]
    asked_for = max(x.sampling.max_tokens, x.eval.max_tokens)
    assert keys["actor_rollout_ref.rollout.max_model_len"] == min(longest + asked_for, context)
    assert longest < context


@pytest.mark.parametrize(("paper", "name"), ROWS)
def test_verls_store_has_no_cap_on_samples(paper, name):
    _, _, keys = settings(paper, name)
    assert keys["transfer_queue.backend.SimpleStorage.total_storage_size"] is None


@pytest.mark.parametrize(("paper", "name"), ROWS)
def test_a_row_saves_by_the_clock(paper, name):
    _, _, keys = settings(paper, name)
    assert keys["trainer.save_freq"] is None


@pytest.mark.parametrize(("paper", "name"), ROWS)
def test_a_kl_penalty_has_its_reference_model(paper, name):
    x, _, keys = settings(paper, name)
    used = [keys["actor_rollout_ref.actor.use_kl_loss"], keys["algorithm.use_kl_in_reward"]]
    assert used.count(True) == (x.method.kl_coef > 0)


def test_the_package_that_ifeval_needs_is_pinned_on_the_cluster():
    """F-GRPO's IFEval needs packages that no other verifier needs; slurm/preflight.py refuses an
    evaluation without them (tests/slurm/test_cost.py)."""
    files = [read(file) for file in (ROOT / "configs" / "eval").glob("*.yaml")]
    assert [one["verifier"]["_target_"] for one in files].count(IFEVAL) == 1
    for file in ROOT.glob("constraints-cluster-*.txt"):
        pinned = {line.partition("==")[0] for line in file.read_text().splitlines()}
        assert {*NEEDED} <= pinned
