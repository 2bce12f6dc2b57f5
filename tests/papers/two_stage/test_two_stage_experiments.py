from dataclasses import replace
from functools import partial

import compositions
import pytest
from printed import printed
from tiny import ROOT

from common.claims.file import load as load_claims
from common.comparison.spec import spec_of
from common.config.compose import compose
from common.config.strict import strict
from common.sweeps.plan import Reproduce, evaluations

pytestmark = pytest.mark.sweep

CLAIMS = ROOT / "papers" / "two_stage" / "claims.yaml"
CLUSTER = compositions.cluster("two_stage")


# ---- the experiments


@pytest.mark.parametrize("name", CLUSTER)
def test_every_experiment_has_the_functions_of_its_name(name):
    x = row(name)
    assert x.method.kl_estimator == "k3"
    assert ("negative_only" in x.method.advantage["_target_"]) == ("_n" in name)
    assert ("gspo" in x.method.loss["_target_"]) == ("gspo" in name)
    assert x.method.loss.get("clip_ratio_c") == (None if "gspo" in name else 3.0)


# ---- the rows of the tables


row = partial(compositions.experiment, paper="two_stage")


@pytest.mark.parametrize("name", ["qwen7b_math_grpo", "qwen7b_math_grpo_n", "llama3b_grpo"])
def test_further_rows_change_what_they_name_alone(name):
    """1/|y| as printed (Eqs. 1, 2, App. B.5), and more steps (Remark 4)."""
    x = row(f"cluster/{name}")
    same = row(f"cluster/{name}_sequence")
    mean = {"_target_": "common.losses.aggregate.sequence_mean_token_mean"}
    changed = replace(x.method, aggregation=mean)
    assert same == replace(x, name=same.name, label=f"{x.label} (sequence mean)", method=changed)
    if x.model.name == "Qwen2.5-Math-7B":
        longer = row(f"cluster/{name}_long")
        assert longer.optim.steps == 10 * x.optim.steps
        assert set(longer.keep_at) >= {x.optim.steps}
        shown = {"name": x.name, "label": x.label, "keep_at": x.keep_at}
        every = replace(longer.eval, every=x.eval.every)
        assert replace(longer, **shown, optim=x.optim, eval=every) == x


def test_the_long_rows_are_read_at_the_steps_of_their_claims(tmp_path):
    flags = ["scale=cluster_long", f"results_dir={tmp_path}"]
    config = strict(Reproduce, compose("two_stage", flags, "reproduce"))
    steps = {(x.row.benchmark, x.row.checkpoint) for x in evaluations(config)}
    read = [one.get("step") for claim in load_claims(CLAIMS) if claim.id == "long_rises"
            for one in claim.cluster.order]  # fmt: skip
    assert read == [row("cluster/qwen7b_math_grpo_long").optim.steps, 140]
    for name in ("AMC 2023", "AIME 2024", "AIME 2025"):
        assert {(name, "last"), (name, 140)} <= steps


def test_the_printed_cells_are_of_the_papers_own_number_of_questions():
    """pass@256 of 256 samples is a share of the questions, in multiples of 1 / questions."""
    cells = [r for r in printed("two_stage", "table1") if r["metric"] == "pass@256"]
    for name, questions in spec_of("two_stage").own_problems.items():
        values = [float(r["value"]) for r in cells if r["benchmark"] == name]
        shares = [100 * i / questions for i in range(questions + 1)]
        assert len(values) == 5
        assert all(min(abs(x - share) for share in shares) <= 0.0501 for x in values)
