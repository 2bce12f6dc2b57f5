"""The two-stage paper's laptop measurements, its claims, its case study, and one tiny run."""

import csv
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from compositions import composed
from tiny import ROOT, TINY

from common.backends.local import train
from common.claims.judge import load as load_claims
from common.comparison import compare, gather
from common.experiment import load
from common.results.files import write_csv, write_jsonl_gz
from common.sweeps.plan import Reproduce, evaluations, experiments
from papers.two_stage import case_study, figures, laptop
from papers.two_stage.compare import SPEC, named, own_rows, toy_rows
from papers.two_stage.toy.tables import ENDS, PATHS

CLAIMS = ROOT / "papers" / "two_stage" / "claims.yaml"
CLUSTER = sorted(
    f"cluster/{file.stem}"
    for file in (CLAIMS.parent / "configs" / "experiment" / "cluster").glob("*.yaml")
)
NAMES = sorted(file.stem for file in (CLAIMS.parent / "configs" / "experiment").glob("*.yaml"))


def printed(name: str) -> list[dict]:
    with open(CLAIMS.parent / "published" / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def value(parameter: str) -> float:
    """A printed hyperparameter."""
    rows = printed("hyperparameters")
    return float(next(r["value"] for r in rows if r["parameter"] == parameter))


def sample(problem: str, parsed: str | None, outcome: str, log_prob: float, tokens: int) -> dict:
    return dict(
        problem_id=problem, response=f"\\boxed{{{parsed}}}", parsed=parsed, outcome=outcome,
        log_prob=log_prob, tokens=tokens, stopped=True,
    )  # fmt: skip


# ---- Table 4's entropies


def test_entropies_by_hand(tmp_path):
    rows = [
        # p: answers x x y NA: 1.5 bits; -log p a token: 1, 2, 3, 2
        sample("p", "x", "correct", -2.0, 2),
        sample("p", "x", "correct", -4.0, 2),
        sample("p", "y", "wrong", -9.0, 3),
        sample("p", "left over", "unparsed", -2.0, 1),
        # q: one answer: 0 bits; 0.5 a token
        *[sample("q", "z", "wrong", -1.0, 2)] * 4,
    ]
    write_jsonl_gz(tmp_path / "natural.jsonl.gz", rows)
    found = laptop.entropies(tmp_path / "natural.jsonl.gz").set_index("metric")
    assert found.loc["answer_level_entropy", "value"] == pytest.approx(0.75)
    assert found.loc["token_level_entropy", "value"] == pytest.approx((2 + 0.5) / 2)
    assert found.loc["answer_level_entropy", "stderr"] == pytest.approx(0.75)  # of 1.5 and 0
    assert found["unit"].to_dict() == laptop.ENTROPIES
    assert set(found["benchmark"]) == {"natural"}
    assert (found[["n_problems", "n_samples"]] == [2, 4]).all(axis=None)


def test_boundary_by_hand():
    def counts(method, step, n, right: dict[str, int]):
        return [
            dict(table="t", model="m", method=method, benchmark="rare", seed=1, step=step,
                 problem_id=problem, n=n, c=c, distinct=1)
            for problem, c in right.items()
        ]  # fmt: skip

    frame = pd.DataFrame(
        counts("base", 0, 4, {"a": 0, "b": 1, "c": 4})
        + counts("GRPO", 5, 2, {"a": 1, "b": 0, "c": 2})
        + counts("GRPO", 6, 1, {"a": 1, "b": 0, "c": 1})  # fewer samples than k
    )
    found = laptop.boundary(frame, k=2)
    # pass@2 of the base: 0, 1/2, 1; of GRPO: 1, 0, 1: one problem gains 1, one loses 1/2
    assert found["step"].tolist() == [5]
    assert found["gained"].tolist() == pytest.approx([100 / 3])
    assert found["lost"].tolist() == pytest.approx([50 / 3])
    assert list(laptop.boundary(frame, k=8).columns) == list(found.columns)  # too few samples


def test_the_stages_are_drawn_against_the_base(tmp_path):
    k = figures.BOUNDARY_K
    rows = [
        dict(method=m, benchmark=b, metric=f"pass@{k}", step=s, value=v, seed=1)
        for b in figures.TASKS
        for m, s, v in (("base", 0, 60), ("GRPO", 100, 30), ("GRPO", 200, 50))
    ]
    curve = [dict(method="GRPO", seed=1, step=s, entropy=e) for s, e in ((100, 0.2), (200, 0.4))]
    figures.stages(pd.DataFrame(rows), pd.DataFrame(curve), tmp_path / "stages")
    drawn = pd.read_csv(tmp_path / "stages.csv")
    rare = drawn.query("benchmark == 'rare'")
    assert rare[["step", "mean"]].values.tolist() == [[0, 60], [100, 30], [200, 50]]
    assert drawn.query("metric == 'training entropy'")["mean"].tolist() == [0.2, 0.4]
    figures.stages(pd.DataFrame(rows), pd.DataFrame(curve[:0]), tmp_path / "none")
    assert not (tmp_path / "none.csv").exists()


# ---- the case study


def two_runs(counts: dict[str, tuple[int, int]]) -> pd.DataFrame:
    """Samples of GRPO and GRPO-N with so many different right answers to each prompt."""
    rows = []
    for problem, numbers in counts.items():
        for method, number in zip(case_study.METHODS, numbers, strict=True):
            own = [sample(problem, f"{problem}{i}", "correct", -1, 1) for i in range(number)]
            own += [
                sample(problem, "wrong", "wrong", -1, 1),
                sample(problem, None, "unparsed", -1, 1),
            ]
            rows += [row | {"benchmark": "natural", "method": method} for row in own]
    return pd.DataFrame(rows)


def test_the_rule_shows_gains_middle_and_losses():
    more = {f"p{i}": (5, 5 + d) for i, d in enumerate([4, 3, 2, 1, 0, 0, -1, -2, -3, -4])}
    samples = two_runs({**more, "unsolved": (0, 3)})
    found = case_study.chosen(samples)
    assert found["problem_id"].tolist() == ["p0", "p1", "p2", "p3", "p4", "p5", "p7", "p8", "p9"]
    assert found["more"].tolist() == [4, 3, 2, 1, 0, 0, -2, -3, -4]
    assert len(case_study.solved(samples)) == 10
    few = case_study.chosen(two_runs({"p": (1, 2), "q": (2, 1)}))
    assert few["problem_id"].tolist() == ["p", "q"]  # none twice


def test_the_page_says_what_the_samples_hold():
    samples = two_runs({"3 4 = 7": (1, 2)})
    text = case_study.page(samples, ["run-a", "run-b"])
    assert "`run-a`" in text
    assert "### `3 4 = 7` (natural)" in text
    assert "| right responses | 1 of 3 | 2 of 4 |" in text
    assert "| different right answers | 1 | 2 |" in text
    assert "| answer entropy (bits) | 1.58 | 2.00 |" in text  # 3 and 4 equal shares
    assert "`\\boxed{3 4 = 70}` x 1<br>`\\boxed{3 4 = 71}` x 1" in text
    assert "No prompt" in case_study.page(two_runs({"p": (0, 1)}), ["a", "b"])


def test_a_models_text_cannot_break_the_page():
    assert case_study.quoted("a`b|c\nd\x1b[31m") == "`a'b¦c�d�[31m`"
    assert len(case_study.quoted("x" * 10**6)) <= case_study.LONGEST + 2


# ---- claims


def test_published_verdicts_agree_with_what_is_known_to_contradict_the_text(tmp_path):
    verdicts, _ = compare.verdicts(SPEC, tmp_path)
    found = verdicts.set_index("id")["published"]
    stated = [claim["id"] for claim in load_claims(CLAIMS) if "published" in claim]
    assert set(found[stated]) <= {"holds", "fails", "inconclusive"}  # every selector finds a cell
    for bench in ("amc23", "aime25", "arcc", "mmlupro"):  # TS001-TS004
        assert found[f"best_pass1_{bench}"] == "holds"
    for bench in ("amc23", "aime24", "aime25"):  # TS005 in Table 1
        assert found[f"over_base_grpo_n_{bench}"] == found[f"over_base_gspo_n_{bench}"] == "holds"
    for bench in ("math500", "amc23_llama", "aime24_llama", "aime25_llama"):  # INC017
        assert found[f"over_base_grpo_n_{bench}"] == "fails"
    numbers = verdicts.set_index("id")["published_numbers"]
    assert numbers["over_standard_grpo_n_mmlupro"] == "5 hold, 4 fail, 0 open of 9"  # INC016
    assert numbers["over_standard_grpo_n_arcc"] == "7 hold, 1 fail, 1 open of 9"
    assert numbers["over_standard_gspo_n_arcc"] == "5 hold, 2 fail, 2 open of 9"
    assert found["table4_n_base_token_llama"] == "fails"  # INC018
    assert set(verdicts["laptop"]) == {"not run"}


def test_claims_speak_of_methods_and_cells_that_are_there():
    labels = {load([f"experiment={name}"], "two_stage").label for name in NAMES}
    from common.config.compose import compose

    toy = compose("two_stage", [], "toy").figures
    cells = {f"{figure} {cell.name}" for figure, own in toy.items() for cell in own}
    steps = {f"{step}{end}" for step in ("plain step", "Adam") for end in ("", ", -N")}
    words = json.dumps([claim["laptop"] for claim in load_claims(CLAIMS) if "laptop" in claim])
    found = selectors(json.loads(words))
    for one in found:
        if one.get("table") == "toy":
            assert one["method"] in steps
            assert one["benchmark"] in cells
        elif one.get("table") != "theory" and "method" in one:
            assert one["method"] in labels, one


def selectors(predicates: list[dict]) -> list[dict]:
    """Every selector of the predicates, with what `where` adds."""
    found = []

    def walk(node, where):
        if isinstance(node, list):
            for one in node:
                walk(one, where)
        elif isinstance(node, dict):
            where = where | node.get("where", {})
            if "method" in node:
                found.append(where | node)
            for key, one in node.items():
                if key != "where":
                    walk(one, where)

    walk(predicates, {})
    return found


def test_toy_rows_by_hand(tmp_path):
    folder = tmp_path / "two_stage" / "toy"
    end = dict(figure="fig1", optimizer="adam", method="negative", cell="p2=0.1", seed=7)
    numbers = dict(leader_start=0.5, leader_peak=0.9, leader_end=0.1, best_start=0.1, best_low=0.05)
    numbers |= dict(best_at_peak=0.08, best_end=0.88, peak_step=4, crossing=9, two_stages=1)
    write_csv(folder / "ends.csv", pd.DataFrame([end | numbers])[ENDS])
    key = {name: end[name] for name in ("figure", "optimizer", "method", "cell")}
    lines = [
        key | dict(step=i, action=a, mean=0.5, low=0.2, median=0.5, high=0.2 + 0.1 * a, expected=0)
        for i in (0, 1)
        for a in (1, 2, 3)
    ]
    write_csv(folder / "paths.csv", pd.DataFrame(lines)[PATHS])
    rows = toy_rows(tmp_path)
    assert set(rows["method"]) == {"Adam, -N"}
    assert set(rows["benchmark"]) == {"fig1 p2=0.1"}
    found = rows.set_index("metric")["value"].to_dict()
    assert found == pytest.approx(
        dict(two_stages=100, crossed=100, leader_rise=40, leader_peak=90, leader_fall=80,
             best_low=5, best_rise_at_peak=-2, best_rise=80, spread=20)
    )  # fmt: skip
    assert rows.set_index("metric")["seed"].isna().to_dict()["spread"]
    assert toy_rows(tmp_path / "nowhere").empty
    assert named(pd.DataFrame([key | {"optimizer": "sgd", "method": "full"}]))["method"][0] == (
        "plain step"
    )


# ---- the experiments


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_has_the_papers_regularisers(name):
    x = row(name)
    assert (x.method.kl_coef, x.method.entropy_coef) == (1e-3, 1e-4)
    assert x.method.kl_estimator == "k3"
    assert (x.method.loss["eps_low"], x.method.loss["eps_high"]) == (0.2, 0.2)
    assert (x.sampling.group_size, x.sampling.temperature, x.eval.temperature) == (8, 1.0, 0.6)
    mean = "token_mean" if "token_mean" in name else "sequence_mean_token_mean"
    assert x.method.aggregation["_target_"] == f"common.losses.aggregate.{mean}"
    assert ("negative_only" in x.method.advantage["_target_"]) == ("_n" in name)
    assert ("gspo" in x.method.loss["_target_"]) == name.startswith("gspo")


def test_every_sweep_composes_and_starts_from_the_base(tmp_path):
    from common.config.compose import compose
    from common.config.strict import strict

    whole = strict(Reproduce, compose("two_stage", [f"results_dir={tmp_path}"], "reproduce"))
    scales = {  # one seed of each sweep is enough to compose it
        name: replace(scale, sweeps=[replace(sweep, seeds=[1]) for sweep in scale.sweeps])
        for name, scale in whole.scales.items()
    }
    for name, runs in {"smoke": 5, "full": 9, "long": 3}.items():
        found = experiments(replace(whole, scale=name, scales=scales))
        assert len(found) == len({x.run_id for x in found}) == runs
        needed = {"base", "grpo", "grpo_n"} | ({"gspo", "gspo_n"} if name != "long" else set())
        assert {x.name for x in found} >= needed
    assert whole.scales["long"].sweeps[1] in whole.scales["full"].sweeps
    assert whole.scales["laptop"].sweeps[0].overrides == whole.scales["full"].sweeps[0].overrides


# ---- the rows of the tables


def row(name: str):
    return composed((f"experiment={name}",), "two_stage")


@pytest.mark.parametrize("name", CLUSTER)
def test_cluster_rows_are_as_printed(name):
    x = row(name)
    rows = {(r["model"], r["method"]) for r in printed(x.table)}
    assert (x.model.name, x.label) in rows
    assert (x.scope, x.backend, x.data.name) == ("cluster", "verl", "math_train")
    assert x.optim.lr == value("learning rate")
    assert x.sampling.prompts == value("prompt batch size")
    assert x.sampling.prompts / x.optim.mini_batches == value("mini-batch size")
    assert x.sampling.group_size == value("rollouts per prompt G")
    assert x.sampling.temperature == value("sampling temperature")
    context = value("max context length (both models)")
    assert x.sampling.max_tokens == x.eval.max_tokens == context - 1024
    assert x.method.kl_coef == value("KL penalty coefficient (all algorithms)")
    assert x.method.entropy_coef == value("entropy bonus coefficient (all algorithms)")
    assert x.method.loss["eps_low"] == x.method.loss["eps_high"] == value("clip ratio")
    trained = x.optim.steps > 0  # then the tables' samples are drawn by jobs of their own
    assert x.eval.n == (x.eval.curve_n if trained else value("samples per prompt n"))
    assert x.eval.temperature == value("temperature")
    assert set(x.data.benchmarks) == {"math500"}  # none of the laptop's
    negative = "negative_only" in x.method.advantage["_target_"]
    assert negative == x.label.endswith("-N")
    assert ("gspo" in x.method.loss["_target_"]) == x.label.startswith("GSPO")
    assert (x.optim.steps == 0) == (x.label == "Base Model")


def test_every_row_of_the_tables_has_one_experiment_that_a_scale_runs():
    from common.config.compose import compose
    from common.config.strict import strict

    wanted = {(r["model"], r["method"]) for t in (1, 2, 3, 4) for r in printed(f"table{t}")}
    rows = [row(name) for name in CLUSTER]
    assert sorted((x.model.name, x.label) for x in rows) == sorted(wanted)
    scales = strict(Reproduce, compose("two_stage", [], "reproduce")).scales
    swept = [s for scale in ("cluster", "cluster_base") for s in scales[scale].sweeps]
    assert sorted(name for sweep in swept for name in sweep.experiments) == CLUSTER


def test_tables_are_evaluated_on_the_printed_sets(tmp_path):
    from common.config.compose import compose
    from common.config.strict import strict

    flags = ["scale=cluster", f"results_dir={tmp_path}"]
    config = strict(Reproduce, compose("two_stage", flags, "reproduce"))
    found = evaluations(config)
    qwen = {r["benchmark"] for t in ("table1", "table3") for r in printed(t)}
    llama = {r["benchmark"] for r in printed("table2")}
    for model, sets in (("Qwen2.5-Math-7B", qwen), ("Llama-3.2-3B-Instruct", llama)):
        own = [x for x in found if x.label == model]
        assert {x.row.benchmark for x in own} == sets
        assert {(x.n, x.temperature, x.top_p) for x in own} == {(256, 0.6, 0.95)}
        assert {x.eval.prompts["instruction"] for x in own} == {"boxed_user"}


@pytest.mark.sweep
def test_tiny_runs_end_in_tables_page_figures_and_verdicts(results):
    for name in ("base", "grpo", "grpo_n"):
        changed = [o for o in TINY if name != "base" or "optim.steps" not in o]
        where = [f"results_dir={results}", "table=laptop_strong", "eval.rare_nll_samples=0"]
        train(load([*changed, *where, f"experiment={name}"], "two_stage"), progress=False)
    gather.gather(results, "two_stage", gather.LAPTOP)
    laptop.gather(results)
    measured = laptop.read(results, "entropies")
    assert len(measured) == 3 * 2 * 3  # runs, benchmarks, metrics
    assert (measured.groupby("metric")["value"].min() > 0).all()
    curve = laptop.read(results, "training")
    assert set(curve["method"]) == {"GRPO", "GRPO-N"}
    assert np.isfinite(curve[["entropy", "reward"]]).all(axis=None)
    case_study.write_page(results)
    page = (results / "two_stage" / "laptop" / "case_study.md").read_text()
    assert page.startswith("# Right responses of GRPO and GRPO-N")
    rows, _ = gather.read(results, "two_stage", gather.LAPTOP)
    figures.fig2(rows, curve, results / "fig2")
    drawn = pd.read_csv(results / "fig2.csv")
    assert set(drawn["metric"]) == {
        "pass@1",
        "token_entropy",
        "training entropy",
        "training reward",
    }
    figures.table1(rows, results / "table1")
    drawn = pd.read_csv(results / "table1.csv")
    assert set(drawn["method"]) == {"base", "GRPO", "GRPO-N"}
    assert set(drawn["benchmark"]) == set(figures.TASKS)
    hit = (rows["method"] == "GRPO") & (rows["benchmark"] == "shifted") & (rows["k"] == 8)
    shown = drawn.query("method == 'GRPO' and benchmark == 'shifted' and k == 8")["mean"]
    assert shown.item() == pytest.approx(rows[hit]["value"].item())
    verdicts, scopes = compare.verdicts(SPEC, results)
    assert len(own_rows(results)[-1]) == len(measured)
    assert set(scopes["laptop"]["metric"]) >= {"answer_level_entropy", "token_level_entropy"}
    found = verdicts.set_index("id")["laptop"]
    assert found["pass256_grpo_n_table1"] == "not run"  # eight samples only
    assert found["table4_n_grpo_answer"] == "inconclusive"  # one seed
    first = (results / "two_stage" / "laptop" / "entropies.csv").read_bytes()
    laptop.gather(results)
    assert (results / "two_stage" / "laptop" / "entropies.csv").read_bytes() == first


@pytest.mark.process
@pytest.mark.parametrize(
    ("module", "argument", "message"),
    [
        ("compare", "format=html", "error: format=html: use one of"),
        ("case_study", "seed=one", "error: seed=one: give a whole number"),
    ],
)
def test_commands_refuse_what_they_do_not_know(module, argument, message):
    done = subprocess.run(
        [sys.executable, "-m", f"papers.two_stage.{module}", argument],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(message)
    assert "Traceback" not in done.stderr
