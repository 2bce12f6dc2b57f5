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


@pytest.mark.parametrize(("paper", "name"), ROWS)
def test_a_row_would_not_end_only_on_the_cluster(paper, name):
    x, a = experiment(name, paper), assumptions()
    context, longest = a.models[x.model.path].context, a.prompts(x.data.name).longest
    keys = config.settings(x, PLACE, longest, context, {})
    # vLLM reads no more tokens than the model
    asked_for = keys["data.max_prompt_length"] + max(x.sampling.max_tokens, x.eval.max_tokens)
    assert keys["actor_rollout_ref.rollout.max_model_len"] == min(asked_for, context)
    assert keys["data.max_prompt_length"] < context
    # verl's store has no cap on samples, and the row saves by the clock
    assert keys["transfer_queue.backend.SimpleStorage.total_storage_size"] is None
    assert keys["trainer.save_freq"] is None
    # a KL penalty has its reference model
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
