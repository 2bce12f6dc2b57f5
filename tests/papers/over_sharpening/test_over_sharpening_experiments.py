"""Over-sharpening's experiments, scales and rows of the tables, and one tiny run."""

from functools import cache, partial

import compositions
import numpy as np
import pandas as pd
import pytest
from compositions import asked
from compositions import runs as runs_of
from omegaconf import OmegaConf
from tiny import MODEL, ROOT, TINY

from common.claims import judge
from common.config.compose import compose
from common.config.strict import strict
from common.experiment import load
from common.methods.binding import bind, group_weights, largest_weight
from common.sweeps.plan import Reproduce
from papers.over_sharpening import figures
from papers.over_sharpening import reproduce as command
from papers.over_sharpening.compare import (
    SPEC,
)
from papers.over_sharpening.toy.config import Toy

pytestmark = pytest.mark.sweep

HOME = ROOT / "papers" / "over_sharpening"
CLUSTER = sorted(
    f"cluster/{path.stem}" for path in (HOME / "configs" / "experiment" / "cluster").glob("*.yaml")
)
EXPERIMENTS = compositions.laptop("over_sharpening")

# ---- experiments


experiment = partial(compositions.experiment, paper="over_sharpening")


@pytest.mark.sweep
def test_labels_are_those_that_claims_figures_and_pairs_speak_of():
    labels = [experiment(name).label for name in EXPERIMENTS]
    spoken = {method for pair in SPEC.pairs for method in pair} | set(figures.MAIN)
    spoken |= set(figures.ENTROPY) | {name for both in figures.ALPHAS.values() for name in both}
    for claim in judge.load(HOME / "claims.yaml"):
        predicate = claim.get("laptop", {})
        if "laptop_strong" in str(predicate):
            spoken |= {selector["method"] for selector in predicate["order"]}
    assert spoken <= set(labels)


@pytest.mark.parametrize(
    ("name", "alpha"),
    [("iac", 1), ("iac_alpha05", 0.5), ("iac_alpha15", 1.5), ("iac_alpha2", 2), ("dapo_iac", 1)],
)
def test_equal_weight_divides_the_learning_rate_by_seven_to_the_alpha(name, alpha):
    from common.config.resolve import resolve

    x, plain = experiment(f"{name}_equalised"), experiment(name)
    assert x.method == plain.method
    assert x.optim.mini_batches == plain.optim.mini_batches
    assert plain.optim.equalise_to is None
    method = bind(x.method)
    reference = bind(experiment("grpo").method)
    assert resolve(x.optim.equalise_to, "optim.equalise_to").func is reference.advantage.func
    share = largest_weight(method, 8, x.reward, {}) / largest_weight(reference, 8, x.reward, {})
    assert share == pytest.approx(7**alpha)


def test_alpha_zero_is_grpo_exactly():
    from common.methods.binding import all_groups

    zero, grpo = (experiment(name) for name in ("iac_alpha0", "grpo"))
    rewards = all_groups(8, grpo.reward)
    both = [group_weights(bind(x.method), rewards, {}) for x in (zero, grpo)]
    np.testing.assert_array_equal(*both)


@pytest.mark.parametrize("scale", ["smoke", "laptop"])
def test_a_scale_plays_the_toy_and_has_its_seeds(scale):
    config = asked("over_sharpening", f"scale={scale}")
    (play,) = [task for task in command.parts(config) if task[0] == "toy"]
    assert strict(Toy, compose("over_sharpening", config.overrides("toy"), "toy"))
    assert play[2] == (config,)
    if scale == "laptop":  # three seeds for what a claim rests on
        seeds = {}
        for x in runs_of("over_sharpening", scale):
            seeds.setdefault(x.label, set()).add(x.seed)
        assert all(len(three) == 3 for three in seeds.values())
        assert set(seeds) == {"base", "GRPO", "IAC"}


def test_the_full_scale_runs_every_experiment_and_the_laptops_seeds():
    config = asked("over_sharpening")
    runs = {
        scale: [
            (sweep.table, name, seed, tuple(sweep.overrides))
            for sweep in config.scales[scale].sweeps
            for name in sweep.experiments
            for seed in sweep.seeds
        ]
        for scale in ("laptop", "full")
    }
    assert len(set(runs["full"])) == len(runs["full"])
    assert {name for _, name, _, _ in runs["full"]} == set(EXPERIMENTS)
    assert set(runs["laptop"]) < set(runs["full"])


# ---- the rows of the tables


def printed(name: str) -> list[dict]:
    return pd.read_csv(HOME / "published" / f"{name}.csv").to_dict("records")


ROWS = {  # Table 5 names GRPO and IAC by their alpha
    "IAC alpha=0 (=GRPO)": "GRPO",
    "IAC alpha=1": "IAC",
}


@cache
def hyperparameters() -> dict[tuple[str, str], str]:
    return {(r["scope"], r["parameter"]): r["value"] for r in printed("hyperparameters")}


@pytest.mark.sweep
def test_every_row_of_the_tables_has_one_experiment_and_a_sweep():
    wanted = {
        (r["model"], ROWS.get(r["method"], r["method"]))
        for t in (2, 3, 4, 5)
        for r in printed(f"table{t}")
    }
    rows = [experiment(name) for name in CLUSTER]
    assert sorted((x.model.name, x.label) for x in rows) == sorted(wanted)
    scales = strict(Reproduce, compose("over_sharpening", [], "reproduce")).scales
    swept = [name for sweep in scales["cluster"].sweeps for name in sweep.experiments]
    assert sorted(swept) == CLUSTER
    for sweep in scales["cluster"].sweeps:
        assert {experiment(name).table for name in sweep.experiments} == {sweep.table}


@pytest.mark.parametrize("name", CLUSTER)
def test_cluster_rows_are_as_printed(name):
    x, said = experiment(name), hyperparameters()
    assert (x.scope, x.backend, x.data.name) == ("cluster", "verl", "deepscaler")
    assert x.optim.lr == float(said["training", "learning rate"])
    assert x.sampling.prompts == int(said["training", "global batch size"])
    assert x.sampling.group_size == int(said["training", "group size G"])
    assert x.optim.steps == int(said["training", "steps"])
    assert f"every {x.eval.every} steps" in said["evaluation", "interval"]
    assert x.eval.n == x.eval.curve_n == 8  # AVG@8 and PASS@8, at every evaluation
    assert not x.data.train["drop_conflicts"]
    assert x.data.train["max_prompt_tokens"] is None
    sets = {r["benchmark"] for r in printed("table2")} - {"Avg"}
    assert set(x.data.benchmarks) == sets
    files = (OmegaConf.load(ROOT / "configs" / "eval" / f"{n['name']}.yaml")
             for n in x.data.benchmarks.values())  # fmt: skip
    for file, node in zip(files, x.data.benchmarks.values(), strict=True):
        there = OmegaConf.to_container(file.prompts) | {"chat": x.model.chat}
        there |= {"instruction": "boxed_user"}
        for key in there | node:
            assert node.get(key) == there.get(key), key
    alpha = x.method.advantage.get("alpha")
    given = {"IAC": 1, "DAPO+IAC": 1, "DAPO+IAC+DLC": 1} | {
        f"IAC alpha={a:g}": a for a in (0.5, 1.5, 2)
    }
    assert alpha == given.get(x.label)
    assert (x.method.loss["eps_high"] == 0.28) == x.label.startswith("DAPO")
    if x.method.sampler is not None:
        assert x.method.sampler.mu == float(said["DLC", "mu"])


def test_one_tiny_run_with_iac_dapo_and_the_memory_network(pretrained, tmp_path):
    import shutil

    from common.backends import run_experiment

    shutil.copytree(pretrained / "models", tmp_path / "models")
    settings = [
        *TINY,
        f"results_dir={tmp_path}",
        "optim.steps=2",
        "eval.every=2",
        "optim.mini_batches=4",
    ]
    x = load(["experiment=dapo_iac_dlc", *settings], "over_sharpening")
    assert set(MODEL) <= set(settings)
    folder = run_experiment(x, progress=False)
    rows = pd.read_csv(folder / "metrics.csv")
    assert set(rows["method"]) == {"DAPO+IAC+DLC"}
    log = pd.read_json(folder / "metrics.jsonl", lines=True)
    assert {"entropy", "memory_loss"} <= set(log)
