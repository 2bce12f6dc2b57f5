"""Over-sharpening's comparison, figures and experiment files, on made-up results."""

import gzip
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
import yaml
from compositions import asked, composed
from compositions import runs as runs_of
from omegaconf import OmegaConf
from tiny import MODEL, ROOT, TINY

from common.claims import judge
from common.comparison import compare
from common.config.compose import compose
from common.config.strict import strict
from common.experiment import load
from common.methods.binding import bind, group_weights, largest_weight
from common.metrics.passk import report
from common.results.columns import COLUMNS
from common.results.files import write_csv
from common.results.run import Run
from common.sweeps.plan import Reproduce
from papers.over_sharpening import figures, laptop
from papers.over_sharpening import reproduce as command
from papers.over_sharpening.compare import (
    SPEC,
    bootstrap_best,
    bootstrap_rows,
    own_rows,
    peak_rows,
    toy_rows,
)
from papers.over_sharpening.toy import tables
from papers.over_sharpening.toy.config import Toy

HOME = ROOT / "papers" / "over_sharpening"
CLUSTER = sorted(
    f"cluster/{path.stem}" for path in (HOME / "configs" / "experiment" / "cluster").glob("*.yaml")
)
EXPERIMENTS = sorted(path.stem for path in (HOME / "configs" / "experiment").glob("*.yaml"))

# ---- experiments


def experiment(name: str):
    return composed((f"experiment={name}",), "over_sharpening")


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
    own = bind(x.method)
    reference = bind(experiment("grpo").method)
    assert resolve(x.optim.equalise_to, "optim.equalise_to").func is reference.advantage.func
    share = largest_weight(own, 8, x.reward, {}) / largest_weight(reference, 8, x.reward, {})
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
        assert all(len(own) == 3 for own in seeds.values())
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
    assert x.eval.n == x.eval.curve_n == 8  # AVG@8 and PASS@8, at every checkpoint
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


# ---- own rows


def test_bootstrap_best_by_hand_and_by_sampling():
    # one right of two, k = 2: both are drawn, and missed by both resamples with chance 1/4
    assert bootstrap_best(np.array([1]), np.array([2]), 2) == pytest.approx([0.75])
    assert bootstrap_best(np.array([0, 5]), np.array([8, 8]), 8)[0] == 0
    rng, c, n = np.random.default_rng(0), 3, 12
    right = np.arange(n) < c
    found = [rng.choice(rng.permutation(right)[:8], 8).any() for _ in range(20_000)]
    assert bootstrap_best(np.array([c]), np.array([n]), 8)[0] == pytest.approx(
        np.mean(found), abs=0.015
    )


def test_bootstrap_rows_lie_below_pass_at_8():
    counts = pd.DataFrame(
        [
            dict(
                table="t",
                model="m",
                method="a",
                benchmark="b",
                seed=1,
                step=s,
                problem_id=str(i),
                n=n,
                c=c,
            )
            for s, n in ((0, 16), (1, 4))
            for i, c in enumerate((0, 1, 4))
        ]
    )
    (row,) = bootstrap_rows(counts).to_dict("records")  # n = 4 is too few
    own = report(
        counts[counts["step"] == 0][["benchmark", "problem_id", "n", "c"]].assign(distinct=1), [8]
    )
    unbiased = own[own["metric"] == "pass@8"]["value"].item()
    assert 0 < row["value"] < unbiased
    assert (row["step"], row["metric"], row["k"]) == (0, "bootstrap best@8", 8)


def test_peak_takes_the_best_checkpoint_of_each_run():
    rows = pd.DataFrame(
        [
            dict(
                table="t",
                method=m,
                benchmark="natural",
                metric=metric,
                value=v,
                seed=1,
                step=s,
                run_id=m,
            )
            for m in ("GRPO", "base")
            for metric, s, v in (
                ("pass@1", 50, 3),
                ("pass@1", 100, 2),
                ("pass@8", 50, 1),
                ("pass@8", 100, 5),
            )
        ],
        columns=COLUMNS,
    )
    peak = peak_rows(rows)
    assert set(peak["method"]) == {"GRPO"}
    assert set(peak["table"]) == {"t, peak"}
    assert dict(zip(peak["metric"], peak["value"], strict=True)) == {"pass@1": 3, "pass@8": 5}
    assert peak_rows(rows.iloc[:0]).empty


def final_row(**changes) -> dict:
    own = dict(optimizer="sgd", G=4, estimator="raw", alpha=0.0, mu=0.0, lr=1.0, seed=0)
    own |= dict(p_cat=0.3, p_persian=0.2, siamese_high=0.1, siamese_mid=0.1, siamese_low=0.1)
    own |= dict(
        entropy=1.0, step_one=np.nan, step_both=np.nan, start_p_cat=0.25, start_p_persian=0.25
    )
    return own | changes


def test_toy_rows_by_hand(tmp_path):
    frame = pd.DataFrame(
        [
            final_row(seed=0, p_cat=0.995, p_persian=0.001, step_one=20),
            final_row(seed=1, p_cat=0.5, p_persian=0.495, step_one=21),
            final_row(seed=0, alpha=1.0, mu=0.5, optimizer="adamw", lr=0.3),
        ]
    )
    write_csv(tmp_path / "over_sharpening" / "toy" / "final.csv", frame)
    rows = toy_rows(tmp_path).set_index(["method", "seed", "metric"])["value"]
    rows = rows.sort_index()
    assert set(rows.index.get_level_values(0)) == {
        "raw, sgd, lr=1",
        "raw + IAC + DLC, adamw, lr=0.3",
    }
    one, two = rows["raw, sgd, lr=1", 0], rows["raw, sgd, lr=1", 1]
    names = ["collapsed", "collapsed_by_20", "frozen", "over_sharpened", "cat_wins"]
    assert one[names].tolist() == [100, 100, 0, 100, 100]
    assert two[names].tolist() == [0, 0, 100, 0, 100]
    assert rows["raw + IAC + DLC, adamw, lr=0.3", 0]["over_sharpened"] == 100
    assert toy_rows(tmp_path / "nothing").empty


# ---- claims and published numbers


def verdicts(root) -> pd.DataFrame:
    return compare.verdicts(SPEC, root)[0].set_index("id")


def test_published_claims_are_decided_on_the_printed_numbers(tmp_path):
    found = verdicts(tmp_path)
    decided = found[found["published_numbers"] != ""]
    assert len(decided) > 20
    assert set(decided["published"]) == {"holds", "fails"}
    assert set(decided.index[decided["published"] == "fails"]) == {
        "filter_consistent",
        "overlap_ratio",
    }
    assert found.loc["iac_cells_avg", "published_numbers"] == "67 hold, 4 fail, 1 open of 72"
    assert set(found["laptop"]) == {"not run"}


def test_published_files_are_the_transcription():
    source = ROOT.parent / "shared" / "published" / "over_sharpening"
    if not source.exists():
        pytest.skip("the transcription ../shared/published is not here")
    for file in source.glob("*.csv"):
        own = HOME / "published" / file.name.replace("appendix_g", "table_appendix_g")
        assert own.read_bytes() == file.read_bytes()


def test_claims_name_settings_that_the_toy_and_the_theory_have(tmp_path):
    from papers.over_sharpening.theory import tables

    config = strict(Toy, compose("over_sharpening", ["lr=[1.0,3.0]"], "toy"))
    rows = [
        final_row(optimizer=o, G=G, estimator=c.estimator, alpha=c.alpha, mu=c.mu, lr=c.lr, seed=s)
        for o, G, c, s in product(config.optimizers, config.G, config.cells, range(3))
    ]
    write_csv(tmp_path / "over_sharpening" / "toy" / "final.csv", pd.DataFrame(rows))
    folder = tmp_path / "over_sharpening" / "theory"
    groups = tables.sampled_groups(8, 0.1, 200, seed=1)
    checks = [tables.modes_checks(draws=50), tables.group_checks(groups)]
    write_csv(folder / "checks.csv", pd.concat(checks).assign(beta=0.1))
    coupled = [tables.coupling_checks(4, 0.5, 0.0, r, draws=50, seed=1) for r in (0, 1)]
    write_csv(folder / "coupling.csv", pd.concat(coupled))
    write_csv(folder / "kernel.csv", tables.kernel())
    found = verdicts(tmp_path)
    for claim in yaml.safe_load((HOME / "claims.yaml").read_text()):
        where = str(claim.get("laptop", ""))
        if "laptop_strong" not in where and where:
            assert found.loc[claim["id"], "laptop"] != "not run", claim["id"]
    assert found.loc["self_similarity", "laptop"] == "fails"
    assert found.loc["theorem_2_3", "laptop"] == "holds"
    assert len(own_rows(tmp_path)) == 4


# ---- laptop runs, made up


def made_up_run(root, method: str, seed: int, step: int, right: dict[str, float]):
    rng = np.random.default_rng([seed, step, *map(ord, method)])
    counts = pd.concat(
        [
            pd.DataFrame(
                {"benchmark": name, "problem_id": [str(i) for i in range(16)], "n": 64}
                | {"c": rng.binomial(64, share, 16), "distinct": 1}
            )
            for name, share in right.items()
        ]
    )
    name = f"{method.lower().replace('+', '_')}-s{seed}"
    run = Run(root, "over_sharpening", name, {"seed": seed})
    own = dict(table="laptop_strong", model="tiny", method=method, seed=seed, step=step)
    frame = report(counts, [1, 8, 64]).assign(**own, run_id=run.run_id)
    write_csv(run.path / "metrics.csv", frame[COLUMNS])
    write_csv(run.path / "eval" / f"step-{step:05d}-counts.csv", counts)
    (run.path / "metrics.jsonl").write_text('{"step": 1, "entropy": 0.5}\n')
    run.finish()


@pytest.mark.sweep
def test_laptop_runs_are_judged_and_drawn(tmp_path, capsys):
    made_up_run(tmp_path, "base", 1, 0, {"natural": 0.1, "rare": 0.02})
    for seed in (1, 2, 3):
        made_up_run(tmp_path, "GRPO", seed, 200, {"natural": 0.2, "rare": 0.01})
        made_up_run(tmp_path, "IAC", seed, 200, {"natural": 0.6, "rare": 0.2})
        made_up_run(tmp_path, "DAPO", seed, 200, {"natural": 0.6, "rare": 0.01})
        made_up_run(tmp_path, "DAPO+IAC", seed, 200, {"natural": 0.2, "rare": 0.01})
    compare.compare(SPEC, tmp_path, "csv")
    capsys.readouterr()
    found = pd.read_csv(tmp_path / "over_sharpening" / "claims.csv").set_index("id")["laptop"]
    assert found["iac_grpo_avg"] == found["iac_grpo_pass"] == found["iac_matched"] == "holds"
    assert found["iac_boot_pass"] == found["iac_peak_avg"] == "holds"
    assert found["dapo_iac_avg"] == "fails"
    assert found["iac_rloo_avg"] == "not run"
    laptop.gather(tmp_path)
    figures.draw(tmp_path)
    drawn = tmp_path / "over_sharpening" / "figures"
    assert (drawn / "laptop_strong_entropy.png").stat().st_size > 5000
    assert not (drawn / "laptop_strong_alpha.png").exists()  # one alpha only
    entropy = pd.read_csv(drawn / "laptop_strong_entropy.csv")
    assert set(entropy["method"]) == {"GRPO", "IAC", "DAPO", "DAPO+IAC"}
    counts = (tmp_path / "over_sharpening" / "laptop" / "counts.csv.gz").read_bytes()
    assert gzip.decompress(counts).startswith(b"table,model,method")


@pytest.mark.sweep
def test_toy_figures_hold_what_is_drawn(tmp_path):
    small = ["seeds=3", "steps=20", "every=10", "lr=[0.3,1.0]", "G=[4,8]", "traces=2"]
    config = strict(Toy, compose("over_sharpening", [*small, f"results_dir={tmp_path}"], "toy"))
    folder = tables.run(config)
    figures.draw(tmp_path)
    drawn = tmp_path / "over_sharpening" / "figures"
    names = {f"toy_fig{i}.png" for i in range(1, 6)} | {
        "toy_collapse.png",
        "toy_learning_rates.png",
    }
    assert names <= {path.name for path in drawn.glob("*.png")}
    table = pd.read_csv(drawn / "toy_collapse.csv")
    setting = "estimator == 'raw' and optimizer == 'momentum' and G == 4 and alpha == mu == 0"
    own = table.query(setting)
    final = pd.read_csv(folder / "final.csv").query(f"{setting} and lr == 1")
    share = 100 * (final[["p_cat", "p_persian"]].max(axis=1) >= 0.99).mean()
    assert own["collapsed"].item() == pytest.approx(share)
