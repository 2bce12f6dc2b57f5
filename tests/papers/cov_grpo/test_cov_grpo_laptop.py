"""CW-GRPO's experiments, laptop measurements, claims and figures."""

import csv
import json
from pathlib import Path

import compositions
import pandas as pd
import pytest
from compositions import asked, composed, runs
from tiny import ROOT, TINY

from common.backends.local import train
from common.claims.judge import judge
from common.claims.judge import load as load_claims
from common.comparison import compare, training
from common.comparison.gather import gather
from common.comparison.spec import spec_of
from common.config.compose import compose
from common.config.strict import strict
from common.errors import UserError
from common.experiment import load
from common.reproduce import finish
from common.results.files import write_csv
from common.sweeps.reproduce import compute
from papers.cov_grpo import figures, laptop
from papers.cov_grpo.compare import covariance_rows
from papers.cov_grpo.covariance.config import Covariance

SPEC = spec_of("cov_grpo")

HOME = ROOT / "papers" / "cov_grpo"
NAMES = compositions.laptop("cov_grpo")
CLUSTER = compositions.cluster("cov_grpo")


def table(name: str) -> list[dict]:
    with open(HOME / "published" / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def printed(parameter: str) -> float:
    rows = [r for r in table("hyperparameters") if r["scope"] == "training"]
    return float(next(r["value"] for r in rows if r["parameter"] == parameter))


# ---- experiments


@pytest.mark.parametrize("name", NAMES)
def test_laptop_experiments_have_the_papers_values(name):
    x = load([f"experiment={name}"], "cov_grpo")
    assert x.name == name
    assert x.sampling.prompts == printed("batch size")
    assert x.sampling.group_size == printed("number of generations")
    assert x.sampling.temperature == printed("temperature")
    steps = printed("training steps")
    assert x.optim.warmup_steps == printed("warmup ratio") * steps
    assert x.optim.mini_batches == 1
    assert x.method.kl_coef == (0 if name.endswith("no_kl") else 0.04)
    assert x.method.aggregation["_target_"].endswith(".sequence_mean_token_mean")
    if name != "base":
        checkpoints = {*range(x.eval.every, x.optim.steps, x.eval.every), x.optim.steps}
        assert {steps, 1.5 * steps, 2 * steps} <= checkpoints
    assert x.data.verifier == {"_target_": "common.verifiers.countdown.verify"}


def test_readings_differ_in_their_weights_alone():
    plain = load(["experiment=cw_grpo"], "cov_grpo")
    assert plain.method.token_weights["mean"] == "token"
    for name in ("cw_grpo_group", "cw_grpo_sequence"):
        other = load([f"experiment={name}"], "cov_grpo")
        assert other.method.token_weights != plain.method.token_weights
        assert (other.optim, other.sampling) == (plain.optim, plain.sampling)
        assert other.method.loss == plain.method.loss
    repository = load(["experiment=cw_grpo_repository"], "cov_grpo")
    assert repository.method.token_weights is None
    assert repository.optim.micro_batch == repository.sampling.group_size


@pytest.mark.parametrize("name", CLUSTER)
def test_cluster_rows_are_as_printed(name):
    x = load([f"experiment={name}"], "cov_grpo")
    assert x.name == name.removeprefix("cluster/")
    if not name.endswith("repository"):
        assert (x.model.name, x.label) in {(r["model"], r["method"]) for r in table("table2")}
    assert x.backend == "verl"
    assert x.optim.lr == printed("learning rate")
    assert x.sampling.prompts == printed("batch size")
    assert x.sampling.group_size == printed("number of generations")
    assert x.sampling.max_tokens in (printed("max completion length"), 3584)
    assert x.data.train["instruction"] == "think_tags"
    sizes = {r["benchmark"].lower().replace("-", ""): float(r["value"]) for r in table("table4")}
    assert {name: node["rows"] for name, node in x.data.benchmarks.items()} == sizes
    assert all(node["instruction"] == "think_tags" for node in x.data.benchmarks.values())


@pytest.mark.parametrize("name", ["cluster/distill15b_grpo", "cluster/qwen7b_grpo"])
def test_the_cluster_reward_is_accuracy_plus_format(name):
    import torch

    from common.config.resolve import resolve
    from common.verifiers.rewards import rewards

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


@pytest.mark.sweep
def test_every_scale_composes_and_starts_from_the_base():
    for scale, number in {"smoke": 6, "laptop": 9, "full": 55}.items():
        planned = runs("cov_grpo", scale)
        assert len({x.run_id for x in planned}) == len(planned) == number
        assert "base" in {x.name for x in planned}
        words = asked("cov_grpo", f"scale={scale}").words("covariance")
        part = compose("cov_grpo", words, "covariance")
        part = strict(Covariance, part)
        x = composed((f"experiment={part.experiment}", *part.overrides), "cov_grpo")
        assert x.model == planned[0].model  # the one that is made anyway
        measured = {"smoke": [1, 2], "laptop": [1, 2, 3], "full": [*range(1, 11)]}
        assert part.seeds == measured[scale]
    for scale, seeds in {"laptop": {1, 2, 3}, "full": {1, 2, 3, 4, 5}}.items():
        planned = runs("cov_grpo", scale)
        assert {x.seed for x in planned if x.name == "cw_grpo"} == seeds
    cluster = asked("cov_grpo", "scale=cluster").scales["cluster"].sweeps
    names = {name for sweep in cluster for name in sweep.rows}
    assert names == {name for name in CLUSTER if not name.endswith("repository")}


# ---- measurements


def test_blocks_and_stability_by_hand():
    entropy = [1.0] * 10 + [0.5] * 90 + [0.2] * 10 + [0.6] * 10 + [0.4] * 10
    log = pd.DataFrame({"step": range(1, 131), "entropy": entropy})
    log = log.assign(reward=0.5, active_groups=1.0)
    curve = training.blocks(log, ["entropy"])
    assert curve["step"].tolist() == list(range(10, 131, 10))
    assert curve["entropy"].tolist() == pytest.approx([1] + [0.5] * 9 + [0.2, 0.6, 0.4])
    measured = laptop.stability(log)
    expected = {
        "entropy_range": 0.4,  # of 0.2, 0.6, 0.4, the blocks after step 100
        "entropy_swing": 0.4,  # 0.2 to 0.6
        "entropy_drop": 0.8,
        "entropy_jitter": (0.5 + 0.3 + 0.4 + 0.2) / 129,
        "entropy_end": 0.4,
    }
    assert measured == pytest.approx(expected)


# ---- claims


def test_published_verdicts_agree_with_what_is_known_to_contradict_the_text(tmp_path):
    verdicts = compare.assess(SPEC, tmp_path).verdicts
    decided = verdicts.set_index("id")["published"]
    claims = load_claims(HOME / "claims.yaml")
    stated = [claim["id"] for claim in claims if "published" in claim]
    assert set(decided[stated]) == {"holds", "fails"}  # every selector finds a cell
    assert {claim for claim in stated if decided[claim] == "fails"} == {
        "cw_grpo_gain_7b",  # INC024
        "over_base_cw_grpo_7b",  # INC023
        "all_benchmarks",  # INC025
        "gain_7b",  # INC026
    }
    assert set(verdicts["laptop"]) <= {"not run", "not claimed here"}


def test_published_files_are_the_transcription():
    """Tables 1 and 3 with percentile and step, there in the note, in the benchmark: no selector
    reads notes."""
    source = ROOT.parent / "shared" / "published" / "cov_grpo"
    if not source.exists():
        pytest.skip("the transcription ../shared/published is not here")
    for file in source.glob("*.csv"):
        kept = HOME / "published" / file.name
        if file.stem not in ("table1", "table3"):
            assert kept.read_bytes() == file.read_bytes()
            continue
        theirs, ours = (pd.read_csv(path) for path in (file, kept))
        columns = [column for column in theirs if column != "benchmark"]
        pd.testing.assert_frame_equal(ours[columns], theirs[columns])
        assert not ours.duplicated(["method", "benchmark", "metric"]).any()
        for name, note in zip(ours["benchmark"], ours["note"], strict=True):
            assert name.split()[-1].rstrip("%") in note


def selectors(node, where=()):
    """Every selector below `node` that names a table, with what `where` adds."""
    where = dict(where)
    if isinstance(node, list):
        for one in node:
            yield from selectors(one, where)
    elif isinstance(node, dict):
        where |= node.get("where", {})
        if "table" in where | node:
            yield {k: v for k, v in (where | node).items() if isinstance(v, str | int)}
        for key, one in node.items():
            if key != "where":
                yield from selectors(one, where)


def test_claims_speak_of_methods_that_are_there():
    labels = {load([f"experiment={name}"], "cov_grpo").label for name in NAMES}
    spoken = {method for pair in SPEC.pairs for method in pair} | set(figures.MAIN)
    for claim in load_claims(HOME / "claims.yaml"):
        for one in selectors(claim.get("laptop", {})):
            if one["table"].startswith("laptop") and "method" in one:
                spoken.add(one["method"])
    assert spoken <= labels


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
        ([30, 31, 32], "fails"),
        ([40, 52, 70], "inconclusive"),  # its mean is above 50, its interval is not
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
    # t of two degrees of freedom; the seeds share a base, .55 of the variance (metrics/bases.py)
    half = 4.302653 * pd.Series(tops).std() * (1 / 3 + 0.55 / 0.45) ** 0.5
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


def test_tables_of_an_older_version_are_refused(tmp_path):
    covariance_tables(tmp_path, [60], [14.0])
    path = tmp_path / "cov_grpo" / "covariance" / "percentiles.csv"
    write_csv(path, pd.read_csv(path).drop(columns="seed"))
    with pytest.raises(UserError, match=r"percentiles.csv starts with .* expected \['seed'\]"):
        covariance_rows(tmp_path)


# ---- one tiny reproduction


@pytest.mark.sweep
def test_tiny_runs_end_in_verdicts_and_figures(results, capsys):
    tiny = [o for o in TINY if "optim.steps" not in o]
    for name in ("base", "grpo", "cw_grpo", "cw_grpo_group", "cw_grpo_repository", "clip_cov"):
        where = [f"results_dir={results}", "table=laptop_strong", "eval.every=2"]
        steps = [] if name == "base" else ["optim.steps=8"]
        x = load([f"experiment={name}", *tiny, *where, *steps], "cov_grpo")
        train(x, progress=False)
    config = asked("cov_grpo", f"results_dir={results}")
    part = ["steps=2", "seeds=[1,2]", f"overrides={json.dumps(tiny)}".replace('"', "'")]
    config.scales["laptop"].parts["covariance"] = part
    compute(config, "covariance")
    finish(config)
    folder = results / "cov_grpo"
    names = {path.stem for path in (folder / "figures").glob("*.png")}
    expected = {f"laptop_strong_{name}" for name in ("fig1", "table3", "stability")}
    assert names >= expected | {"covariance", "weights", "entropy_drift"}
    drawn = pd.read_csv(folder / "figures" / "laptop_strong_table3.csv")
    assert set(drawn["step"]) == {4, 6, 8}
    verdicts = pd.read_csv(folder / "claims.csv").set_index("id")["laptop"]
    assert verdicts["cw_grpo_avg_15b"] == "inconclusive"  # one seed
    assert verdicts["stable_range"] == "inconclusive"
    assert verdicts["stable_long"] == "not run"
    covered = [i for i in verdicts.index if i.startswith(("dominate", "drift", "intact"))]
    assert set(verdicts[covered]) == {"inconclusive"}  # two seeds
    rows = pd.concat(covariance_rows(results))
    assert not rows.duplicated(["method", "benchmark", "metric", "seed"]).any()
    assert set(rows["seed"]) == {1, 2}
    measured = laptop.read(results, "stability")
    assert set(measured["method"]) == {"GRPO", "CW-GRPO", "CW-GRPO (by group)",
                                       "CW-GRPO (repository)", "Clip-Cov"}  # fmt: skip
    first = (folder / "laptop" / "stability.csv.gz").read_bytes()
    laptop.measure(results, gather(results, "cov_grpo").scopes["laptop"])
    assert (folder / "laptop" / "stability.csv.gz").read_bytes() == first
    counted = verdicts.value_counts()
    said = capsys.readouterr().out
    assert f"claims, laptop: {counted['inconclusive']} inconclusive, {counted['not run']} " in said
