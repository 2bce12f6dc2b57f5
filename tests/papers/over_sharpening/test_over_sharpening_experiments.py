"""Over-sharpening's experiments, scales and rows of the tables, and one tiny run."""

from functools import partial

import compositions
import numpy as np
import pandas as pd
import pytest
from printed import printed
from tiny import TINY

from common.backends import run_experiment
from common.config.compose import compose
from common.config.strict import strict
from common.experiment import load
from common.methods.binding import bind, group_weights, largest_weight
from common.sweeps.plan import Reproduce

pytestmark = pytest.mark.sweep

CLUSTER = compositions.cluster("over_sharpening")

# ---- experiments


experiment = partial(compositions.experiment, paper="over_sharpening")


@pytest.mark.parametrize(
    ("name", "alpha"), [("iac", 1), ("iac_alpha05", 0.5), ("iac_alpha15", 1.5), ("iac_alpha2", 2)]
)
def test_the_largest_weight_of_iac_is_grpos_times_seven_to_the_alpha(name, alpha):
    x, grpo = (compositions.experiment(one, "study") for one in (name, "grpo"))
    sizes = [largest_weight(bind(one.method), 8, one.reward, {}) for one in (x, grpo)]
    assert sizes[0] / sizes[1] == pytest.approx(7**alpha)


def test_the_equalised_row_is_iac_at_a_rate_that_gives_grpos_largest_weight():
    from common.config.resolve import resolve

    x, plain, grpo = (
        compositions.experiment(name, "study") for name in ("iac_equalised", "iac", "grpo")
    )
    assert (x.method, x.optim.mini_batches) == (plain.method, plain.optim.mini_batches)
    assert plain.optim.equalise_to is None
    reference = bind(grpo.method).advantage.func
    assert resolve(x.optim.equalise_to, "optim.equalise_to").func is reference


def test_alpha_zero_is_grpo_exactly():
    from common.methods.binding import all_groups

    zero = load(["experiment=iac", "method.advantage.alpha=0"], "study")
    grpo = compositions.experiment("grpo", "study")
    both = [group_weights(x.bound, all_groups(8), grpo.reward, {}) for x in (zero, grpo)]
    np.testing.assert_array_equal(*both)


# ---- the rows of the tables


ROWS = {  # Table 5 names GRPO and IAC by their alpha
    "IAC alpha=0 (=GRPO)": "GRPO",
    "IAC alpha=1": "IAC",
}


def test_every_row_of_the_tables_has_one_experiment_and_a_sweep():
    wanted = {
        (r["model"], ROWS.get(r["method"], r["method"]))
        for t in (2, 3, 4, 5)
        for r in printed("over_sharpening", f"table{t}")
    }
    rows = [experiment(name) for name in CLUSTER]
    found = sorted((x.model.name, x.label) for x in rows)
    assert sorted(set(found) & wanted) == sorted(wanted)
    others = {label for _, label in set(found) - wanted}  # readings, under names of their own
    assert others == {
        *(f"{name} (verl's recipe)" for name in ("RLOO", "Reinforce++")),
        *(f"{name} (overlong shaping)" for name in ("DAPO", "DAPO+IAC")),
        "Filtering-based (of each batch)",
        *(f"{name} (bare)" for name in ("GRPO", "DrGRPO", "RLOO", "Reinforce++", "IAC")),
        *(f"{name} (bare)" for name in ("DAPO", "DAPO+IAC", "DAPO+IAC+DLC")),
    }
    scales = strict(Reproduce, compose("over_sharpening", [], "reproduce")).scales
    sweeps = [sweep for name in scales if "cluster" in name for sweep in scales[name].sweeps]
    assert sorted(name for sweep in sweeps for name in sweep.rows) == CLUSTER


def test_lighteval_alone_is_graded_as_verls_reward_for_math():
    ours = {"_target_": "common.verifiers.math.reference"}
    for name in CLUSTER:
        data = experiment(name).data
        references = {key: node["reference"] for key, node in data.benchmarks.items()}
        assert references.pop("LightEval") == {"_target_": "common.verifiers.verl_math.reference"}
        assert [*references.values(), data.train["reference"]] == [ours] * 6
        assert data.verifier == {"_target_": "common.verifiers.verl_math.verify"}


def test_one_tiny_run_with_iac_dapo_and_the_memory_network(results):
    settings = [*TINY, f"results_dir={results}", "optim.steps=2", "eval.every=2"]
    settings += ["optim.mini_batches=4", "method=dapo_iac_dlc"]
    x = load(settings, "over_sharpening")
    folder = run_experiment(x, progress=False)
    rows = pd.read_csv(folder / "metrics.csv")
    assert set(rows["method"]) == {x.label}
    log = pd.read_json(folder / "metrics.jsonl", lines=True)
    assert {"entropy", "memory_loss"} <= set(log)
