import json
from pathlib import Path

import compositions
import pandas as pd
import pytest
from compositions import asked
from printed import hyperparameters
from tiny import ROOT, TINY

from common.claims.file import load as load_claims
from common.claims.judge import judge
from common.config.rows import rows as rows_of
from common.experiment import load
from common.reproduce import finish
from common.results.files import write, write_csv
from common.sweeps.reproduce import compute
from papers.cov_grpo.compare import SEC22, covariance_rows, logged_rows, stability

HOME = ROOT / "papers" / "cov_grpo"
NAMES = compositions.laptop("cov_grpo")
PRINTED = hyperparameters("cov_grpo", "training")


def jsonl(lines: list[dict]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


# ---- experiments


@pytest.mark.parametrize("name", NAMES)
def test_laptop_experiments_have_the_papers_values(name):
    x = load([f"experiment={name}"], "cov_grpo")
    assert x.name == name
    assert x.sampling.prompts == float(PRINTED["batch size"])
    assert x.sampling.group_size == float(PRINTED["number of generations"])
    assert x.sampling.temperature == float(PRINTED["temperature"])
    steps = float(PRINTED["training steps"])
    assert x.optim.warmup_steps == float(PRINTED["warmup ratio"]) * steps
    assert x.optim.mini_batches == 1
    assert x.method.kl_coef == 0.04
    assert x.method.aggregation["_target_"].endswith(".sequence_mean_token_mean")
    checkpoints = {*range(x.eval.every, x.optim.steps, x.eval.every), x.optim.steps}
    assert {steps, 1.5 * steps, 2 * steps} <= checkpoints
    assert x.data.verifier == {"_target_": "common.verifiers.countdown.verify"}


@pytest.mark.parametrize("name", ["cluster/distill15b_grpo", "cluster/qwen7b_grpo"])
def test_the_cluster_reward_is_accuracy_plus_format(name):
    import torch

    from common.backends.dynamic import rewards
    from common.config.resolve import resolve

    x = load([f"experiment={name}"], "cov_grpo")
    verify = resolve(x.data.verifier, "data.verifier")
    opened = "<think>\n" if name.endswith("qwen7b_grpo") else ""
    thought, right, wrong = f"{opened}so\n</think>\n", "\\boxed{4}", "\\boxed{5}"
    loose = "so</think>"  # no tags as the repository, or the paper, asks for them
    responses = [
        thought + right,
        thought + wrong,
        loose + right,
        loose + wrong,
        thought + "4",
        right,
    ]
    verdicts = [verify(response, "4") for response in responses]
    given = rewards(verdicts, 6, x.reward.correct, x.reward.wrong)
    never_ended = 1.0 if opened else 0.0  # at 1.5B the prompt has opened a thought
    assert torch.equal(given, torch.tensor([[2.0, 1.0, 1.0, 0.0, 1.0, never_ended]]))


def test_cluster_rows_have_the_authors_log_probs_and_the_kernels_means_over_responses():
    names = [name for name in rows_of("cov_grpo") if name.startswith("cluster/")]
    for name in (*names, "cw_grpo_repository"):
        x = load([f"experiment={name}"], "cov_grpo")
        assert (x.sampling.temperature, x.sampling.reported) == (0.7, 1), name
    for name in ("cluster/distill15b_cw_grpo", "cluster/qwen7b_cw_grpo"):
        kernel = load([f"experiment={name}"], "cov_grpo").method.token_weights
        assert kernel["_target_"].endswith(".by_group")
        assert (kernel["mean"], kernel["group_size"]) == ("sequence", 12)


# ---- measurements


def test_stability_by_hand():
    entropy = [1.0] * 10 + [0.5] * 90 + [0.2] * 10 + [0.6] * 10 + [0.4] * 10
    log = pd.DataFrame({"step": range(1, 131), "entropy": entropy})
    measured = stability(log)
    expected = {
        "entropy_range": 0.4,  # of 0.2, 0.6, 0.4, the blocks after step 100
        "entropy_swing": 0.4,  # 0.2 to 0.6
        "entropy_change": 0.6,  # 1 to 0.4
        "entropy_jitter": (0.5 + 0.3 + 0.4 + 0.2) / 129,
    }
    assert measured == pytest.approx(expected)


def test_table_1_and_fig_3_are_of_the_first_50_steps_of_grpo_at_15b(tmp_path):
    runs = [("GRPO", SEC22["model"]), ("GRPO", "7B"), ("CW-GRPO", SEC22["model"])]
    rows = [
        {"table": "table2", "model": model, "method": method, "seed": 1, "step": 60, "run_id": id}
        for id, (method, model) in zip("abc", runs, strict=True)
    ]
    at, top = "covariance_negative_at_0.01", "covariance_top_0.05"
    steps = [(1, -2.0, 0.4), (2, None, None), (50, -4.0, 0.8), (51, -100.0, 0.0)]  # 2: all c are 0
    lines = [
        {"step": s, "entropy": 1.0} | ({at: c, top: held} if c else {}) for s, c, held in steps
    ]
    for row in rows:
        write(tmp_path / "cov_grpo" / row["run_id"] / "metrics.jsonl", jsonl(lines))
    whole, printed = logged_rows(tmp_path, pd.DataFrame(rows))
    (cell,) = printed.to_dict("records")
    named = [cell[key] for key in ("table", "run_id", "metric", "benchmark", "value")]
    assert named == ["table1", "a", "negative_covariance", "percentile 1.00%", -3.0]
    held = whole[whole["metric"] == top].set_index("run_id")["value"].to_dict()
    assert held == pytest.approx({"a": 0.6, "b": 0.6, "c": 0.6})


# ---- claims


def covariance_tables(root: Path, tops: list[float], extremes: list[float]) -> None:
    """Made-up tables of as many seeds: percent of sum |c| that the top 5 % hold, and c at 0.01 % of
    the positive side, where 20 % have 1."""
    folder = root / "cov_grpo" / "covariance"
    seeds, token = range(1, len(tops) + 1), {"mean": "token", "tokens": "all"}
    side = {"side": "positive", "reading": "threshold"} | token
    made = {
        "cumulative": [
            {"seed": seed, "share": 0.05, "contribution": top / 100} | token
            for seed, top in zip(seeds, tops, strict=True)
        ],
        "percentiles": [
            {"seed": seed, "share": share, "value": value} | side
            for seed, extreme in zip(seeds, extremes, strict=True)
            for share, value in ((0.0001, extreme), (0.2, 1.0))
        ],
        "weights": [
            {"seed": seed, "step": step, "reading": "token mean", "mean_active": 0.9 + 0.1 * step}
            for seed in seeds
            for step in (1, 2)
        ],
        "steps": [
            {"seed": seed, "predicted": x, "measured_plain": seed * x, "measured_adamw": -x}
            for seed in seeds
            for x in (-1.0, 2.0)
        ],
    }
    for name, rows in made.items():
        write_csv(folder / f"{name}.csv", pd.DataFrame(rows))


def decided(root: Path) -> tuple[pd.Series, pd.DataFrame]:
    """The laptop verdicts, and the comparisons behind them, by claim."""
    rows = pd.concat(covariance_rows(root))
    verdicts, gaps, _ = judge(load_claims(HOME / "claims.yaml"), {"laptop": rows})
    return verdicts.set_index("id")["laptop"], gaps.set_index("claim")


@pytest.mark.parametrize(
    ("tops", "verdict"),
    [
        ([60, 61, 62], "holds"),
        ([20, 21, 22], "fails"),
        ([20, 31, 50], "inconclusive"),  # its mean is above 29, its interval is not
        ([60, 61], "inconclusive"),  # fewer than three seeds
    ],
)
def test_the_covariance_claims_have_an_interval_over_seeds(tmp_path, tops, verdict):
    covariance_tables(tmp_path, tops, [14.0, 15, 16][: len(tops)])
    verdicts, gaps = decided(tmp_path)
    assert verdicts["dominate_token_all"] == verdict
    gap = gaps.loc["dominate_token_all"]
    assert (gap["n_seeds"], gap["difference"]) == (len(tops), pytest.approx(sum(tops) / len(tops)))
    if len(tops) < 3:
        return
    half = 4.302653 * pd.Series(tops).std() / 3**0.5  # t of two degrees of freedom
    assert [gap["low"], gap["high"]] == pytest.approx(
        [gap["difference"] + x for x in (-half, half)]
    )


def test_an_order_of_covariances_is_paired_by_seed_and_means_are_over_steps(tmp_path):
    covariance_tables(tmp_path, [60, 61, 62], [14.9, 15, 15.1])
    verdicts, gaps = decided(tmp_path)
    assert verdicts["extreme_positive"] == "holds"
    assert gaps.loc["extreme_positive", "difference"] == pytest.approx(14)
    rows = pd.concat(covariance_rows(tmp_path)).set_index(["benchmark", "metric", "seed"])["value"]
    assert rows["weights", "mean_active", 2] == pytest.approx(1.05)
    slopes = [rows[kind, "slope", seed] for kind in ("plain", "adamw") for seed in (1, 2, 3)]
    assert slopes == pytest.approx([1, 2, 3, -1, -1, -1])
    covariance_tables(tmp_path, [60, 61, 62], [11.0, 11.5, 12])
    assert decided(tmp_path)[0]["extreme_positive"] == "inconclusive"  # 10.5, the margin is 10


# ---- one tiny reproduction


@pytest.mark.sweep
def test_a_tiny_measurement_ends_in_verdicts_and_a_figure(results, capsys):
    config = asked("cov_grpo", f"results_dir={results}")
    tiny = [o for o in TINY if "optim.steps" not in o]
    part = ["steps=2", "seeds=[2,6]", f"overrides={json.dumps(tiny)}".replace('"', "'")]
    config.scales["laptop"].parts["covariance"] = part
    compute(config, "covariance")
    finish(config)
    folder = results / "cov_grpo"
    assert {path.stem for path in (folder / "figures").glob("*.png")} == {"covariance"}
    verdicts = pd.read_csv(folder / "claims.csv").set_index("id")["laptop"]
    assert verdicts["cw_grpo_avg_15b"] == "not run"
    covered = [i for i in verdicts.index if i.startswith(("dominate", "drift", "intact"))]
    assert set(verdicts[covered]) == {"inconclusive"}  # two seeds
    rows = pd.concat(covariance_rows(results))
    assert not rows.duplicated(["method", "benchmark", "metric", "seed"]).any()
    assert set(rows["seed"]) == {2, 6}
    counted = verdicts.value_counts()
    said = capsys.readouterr().out
    assert f"claims, laptop: {counted['inconclusive']} inconclusive, {counted['not run']} " in said
