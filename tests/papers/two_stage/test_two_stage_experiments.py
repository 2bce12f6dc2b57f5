"""The two-stage paper's experiments, sweeps and rows of the tables."""

from dataclasses import replace
from functools import partial

import compositions
import pytest
from printed import printed
from tiny import ROOT

from common.claims.judge import load as load_claims
from common.comparison.spec import spec_of
from common.config.compose import compose
from common.config.strict import strict
from common.sweeps.plan import Reproduce, evaluations, evaluations_of
from papers.two_stage.cluster import GREEDY

pytestmark = pytest.mark.sweep

CLAIMS = ROOT / "papers" / "two_stage" / "claims.yaml"
CLUSTER = compositions.cluster("two_stage")


# ---- the experiments


@pytest.mark.parametrize("name", CLUSTER)
def test_every_experiment_has_the_papers_regularisers(name):
    x = row(name)
    assert (x.method.kl_coef, x.method.entropy_coef) == (1e-3, 1e-4)
    assert x.method.kl_estimator == "k3"
    assert (x.method.loss["eps_low"], x.method.loss["eps_high"]) == (0.2, 0.2)
    assert (x.sampling.group_size, x.sampling.temperature, x.eval.temperature) == (8, 1.0, 0.6)
    by_response = "gspo" in name or name.endswith("_sequence")
    mean = "sequence_mean_token_mean" if by_response else "token_mean"
    assert x.method.aggregation["_target_"] == f"common.losses.aggregate.{mean}"
    assert ("negative_only" in x.method.advantage["_target_"]) == ("_n" in name)
    assert ("gspo" in x.method.loss["_target_"]) == ("gspo" in name)
    assert x.method.loss.get("clip_ratio_c") == (None if "gspo" in name else 3.0)


# ---- the rows of the tables


row = partial(compositions.experiment, paper="two_stage")


def test_every_row_of_the_tables_has_one_experiment_that_a_scale_runs():
    wanted = {
        (r["model"], r["method"]) for t in (1, 2, 3, 4) for r in printed("two_stage", f"table{t}")
    }
    scales = strict(Reproduce, compose("two_stage", [], "reproduce")).scales
    swept = {key: [n for one in scale.sweeps for n in one.rows] for key, scale in scales.items()}
    rows = [row(name) for name in swept["cluster"]]
    assert sorted((x.model.name, x.label) for x in rows) == sorted(wanted)
    more = swept["cluster_sequence"] + swept["cluster_long"]
    assert sorted([*swept["cluster"], *more]) == CLUSTER


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


def test_tables_are_evaluated_on_the_printed_sets(tmp_path):
    flags = ["scale=cluster", f"results_dir={tmp_path}"]
    config = strict(Reproduce, compose("two_stage", flags, "reproduce"))
    planned = evaluations(config)
    qwen = {r["benchmark"] for t in ("table1", "table3") for r in printed("two_stage", t)}
    llama = {r["benchmark"] for r in printed("two_stage", "table2")}
    for model, sets in (("Qwen2.5-Math-7B", qwen), ("Llama-3.2-3B-Instruct", llama)):
        every = [x for x in planned if x.label == model]
        greedy = [x for x in every if x.row.benchmark == GREEDY and x.scores is None]
        assert {(x.n, x.temperature, x.eval.name) for x in greedy} == {(1, 0, "math_lighteval")}
        steps = [x.row.checkpoint for x in greedy if x.row.method == "GRPO"]
        assert steps == ["last", 7, 14, 21, 35, 49, 70, 91, 112]
        assert [x.row.checkpoint for x in greedy if x.row.method == "Base Model"] == [0]
        scored = {x.scores for x in every if x.scores}
        assert {x.path.name for x in greedy} <= scored  # and two sets of each row's n = 256
        assert len(scored) == len(greedy) + 2 * len({x.row.method for x in every})
        evaluated = [x for x in every if x.row.benchmark != GREEDY]
        drawn = [x.row.benchmark.partition(", draw ") for x in evaluated]
        assert {name for name, _, _ in drawn} == sets
        assert {x.max_tokens for x in evaluated} == {4096}  # or what a prompt leaves of it
        chat = "qwen" if "Qwen" in model else "llama_chatml"  # as vLLM reads Zhu's ChatML
        assert {x.eval.prompts["chat"] for x in every} == {chat}
        assert {(x.n, x.temperature, x.top_p) for x in evaluated} == {(256, 0.6, 0.95)}
        assert {x.eval.prompts["instruction"] for x in evaluated} == {"boxed_user"}


def test_the_subsampled_sets_are_three_draws_whose_mean_is_the_printed_cell(tmp_path):
    """App. C.2: 128 questions, three times, averaged."""
    flags = ["scale=cluster", f"results_dir={tmp_path}"]
    config = strict(Reproduce, compose("two_stage", flags, "reproduce"))
    sweep = config.scales["cluster"].sweeps[0]
    found = evaluations_of([row("cluster/qwen7b_math_grpo")], sweep)
    for name in ("ARC-c", "MMLU-Pro"):
        draws = {x.row.benchmark: x.eval.prompts for x in found if x.row.benchmark.startswith(name)}
        assert list(draws) == spec_of("two_stage").averages[name]
        assert [node["seed"] for node in draws.values()] == [0, 1, 2]
        assert {node["subset"] for node in draws.values()} == {128}


def test_the_printed_cells_are_of_the_papers_own_number_of_questions():
    """pass@256 of 256 samples is a share of the questions, in multiples of 1 / questions."""
    cells = [r for r in printed("two_stage", "table1") if r["metric"] == "pass@256"]
    for name, questions in spec_of("two_stage").own_problems.items():
        values = [float(r["value"]) for r in cells if r["benchmark"] == name]
        shares = [100 * i / questions for i in range(questions + 1)]
        assert len(values) == 5
        assert all(min(abs(x - share) for share in shares) <= 0.0501 for x in values)
