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
from common.comparison.spec import spec_of
from common.config.compose import compose
from common.config.strict import strict
from common.experiment import load
from common.methods.binding import bind, group_weights, largest_weight
from common.sweeps.plan import Reproduce
from common.sweeps.reproduce import parts
from papers.over_sharpening import figures
from papers.over_sharpening.toy.config import Toy

SPEC = spec_of("over_sharpening")

pytestmark = pytest.mark.sweep

HOME = ROOT / "papers" / "over_sharpening"
CLUSTER = compositions.cluster("over_sharpening")
EXPERIMENTS = compositions.laptop("over_sharpening")

# ---- experiments


experiment = partial(compositions.experiment, paper="over_sharpening")


def methods_of(node) -> list[str]:
    """Every `method` of a predicate's selectors, however deep."""
    if isinstance(node, list):
        return [name for part in node for name in methods_of(part)]
    if not isinstance(node, dict):
        return []
    named = node.get("method", [])
    own = [named] if isinstance(named, str) else [x for x in named if isinstance(x, str)]
    return own + [name for part in node.values() for name in methods_of(part)]


@pytest.mark.sweep
def test_labels_are_those_that_claims_figures_and_pairs_speak_of():
    labels = [experiment(name).label for name in EXPERIMENTS]
    spoken = {method for pair in SPEC.pairs for method in pair} | set(figures.MAIN)
    spoken |= set(figures.ENTROPY) | {name for both in figures.ALPHAS.values() for name in both}
    for claim in judge.load(HOME / "claims.yaml"):
        predicate = claim.get("laptop", {})
        if "laptop_strong" in str(predicate):
            spoken |= set(methods_of(predicate))
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
    both = [group_weights(x.bound, all_groups(8), grpo.reward, {}) for x in (zero, grpo)]
    np.testing.assert_array_equal(*both)


@pytest.mark.parametrize("scale", ["smoke", "laptop"])
def test_a_scale_plays_the_toy_and_has_its_seeds(scale):
    config = asked("over_sharpening", f"scale={scale}")
    (play,) = [task for task in parts(config, "nothing") if task[0] == "toy"]
    assert strict(Toy, compose("over_sharpening", config.words("toy"), "toy"))
    assert play[2] == (config, "toy")
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
            for name in sweep.rows
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
    found = sorted((x.model.name, x.label) for x in rows)
    assert sorted(set(found) & wanted) == sorted(wanted)
    others = {label for _, label in set(found) - wanted}  # readings, under names of their own
    assert others == {
        *(f"{name} (verl's recipe)" for name in ("GRPO", "RLOO", "Reinforce++", "IAC")),
        *(f"{name} (overlong shaping)" for name in ("DAPO", "DAPO+IAC")),
        "Filtering-based (of each batch)",
        *(f"{name} (KL)" for name in ("GRPO", "DrGRPO", "RLOO", "Reinforce++", "IAC")),
        *(f"{name} (KL)" for name in ("DAPO", "DAPO+IAC", "DAPO+IAC+DLC")),
    }
    scales = strict(Reproduce, compose("over_sharpening", [], "reproduce")).scales
    sweeps = [sweep for name in scales if "cluster" in name for sweep in scales[name].sweeps]
    assert sorted(name for sweep in sweeps for name in sweep.rows) == CLUSTER


def test_the_recipes_rows_have_the_examples_values():
    """verl's examples, by method: rate, mini-batches, KL in the reward, its estimator."""
    wanted = {
        "grpo": (1e-6, 4, False, "k3"),
        "iac": (1e-6, 4, False, "k3"),
        "rloo": (1e-6, 4, True, "k1"),
        "reinforce_pp": (3e-6, 1, False, "k2"),
    }
    for name, said in wanted.items():
        x = experiment(f"cluster/qwen3_8b_{name}_verl")
        method = x.method
        assert (
            x.optim.lr,
            x.optim.mini_batches,
            method.kl_in_reward,
            method.kl_estimator,
        ) == said
        assert method.kl_coef == 0.001
        assert method.loss["_target_"].endswith("dual_clip")
    rates = experiment("cluster/qwen3_8b_filter").data.train["solve_rate"]
    assert rates["drop_easiest"] == 0.25  # Table 5
    for name in ("dapo", "dapo_iac"):
        for x in (experiment(f"cluster/qwen3_8b_{name}_overlong"), experiment(f"{name}_overlong")):
            assert x.sampling.dynamic_batches == 10
            given = x.method.advantage
            assert given["buffer"] == 4096 / 20480  # Yu et al. 2025
            assert given["max_tokens"] == x.sampling.max_tokens


@pytest.mark.parametrize("name", CLUSTER)
def test_cluster_rows_are_as_printed(name):
    x, said = experiment(name), hyperparameters()
    assert (x.scope, x.backend, x.data.name) == ("cluster", "verl", "deepscaler")
    if name != "cluster/qwen3_8b_reinforce_pp_verl":  # the example's own
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
    if x.label == "DAPO (overlong shaping)":
        assert alpha == 0  # shaping without IAC
        return
    label = x.label.partition(" (")[0]
    given = {"IAC": 1, "DAPO+IAC": 1, "DAPO+IAC+DLC": 1} | {
        f"IAC alpha={a:g}": a for a in (0.5, 1.5, 2)
    }
    assert alpha == given.get(label)
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
