"""The rows of the papers' tables as experiments: they compose, they fit, they are as printed."""

import csv
import re
from dataclasses import replace
from functools import cache

import pytest
from compositions import cluster as cluster_rows
from compositions import composed
from tiny import ROOT

from common.config.compose import compose
from common.config.strict import strict
from common.datasets.templates import CHATS, render
from common.experiment import Experiment, load
from common.sweeps.plan import Reproduce, evaluations_of, runs_of

pytestmark = pytest.mark.sweep

CLUSTER = cluster_rows("f_grpo")
CLUSTER.remove("cluster/qwen7b_base")  # whose samples Delta NLL is of: no row of a table
PUBLISHED = ROOT / "papers" / "f_grpo" / "published"
SEQUENCE = "GRPO (sequence mean)"
RARE = "rare-correct set (1263 trajectories)"
GRADED = {"_target_": "common.verifiers.math.verify", "convention": "math_verify"}
NUMBER = re.compile(r"(?<![\w.-])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w])")
COEFFICIENTS = {"entropy": "entropy bonus coefficient", "kl": "KL penalty coefficient"}


def row(name: str, paper: str = "f_grpo") -> Experiment:
    return composed((f"experiment={name}",), paper)


@cache
def printed() -> dict[tuple[str, str], str]:
    """(scope, parameter) -> the printed value."""
    with open(PUBLISHED / "hyperparameters.csv", newline="") as file:
        return {(r["scope"], r["parameter"]): r["value"] for r in csv.DictReader(file)}


def numbers(scope: str, parameter: str) -> list[float]:
    found = [float(text) for text in NUMBER.findall(printed()[scope, parameter])]
    assert found, f"no number in {scope}, {parameter}"
    return found


def plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def family(x: Experiment) -> str:
    """GRPO, DAPO or CISPO, from the printed name."""
    return x.label.removeprefix("F-").removeprefix("DS-").split(" ")[0]


# ---- F-GRPO's rows


def test_every_row_of_both_versions_has_one_experiment():
    """Those of the Maze (v2 Table 4) are of one GPU: tests/papers/f_grpo/test_f_grpo_maze.py."""
    wanted = set()
    for path in PUBLISHED.glob("table*.csv"):
        with open(path, newline="") as file:
            for line in csv.DictReader(file):
                # N = 8 is what Tables 1 and 4 do not say: the same runs
                wanted.add((line["model"], line["method"].removesuffix(" (N=8)")))
    rows = [row(name) for name in CLUSTER]
    wanted = {one for one in wanted if one[0] != "Maze Transformer"}
    wanted.add(("Qwen2.5-7B", SEQUENCE))  # in addition
    assert sorted((x.model.name, x.label) for x in rows) == sorted(wanted)


@pytest.mark.parametrize("name", CLUSTER)
def test_training_is_as_printed(name):
    x = row(name)
    low = x.label == "GRPO (low LR)"
    assert not low or [x.optim.lr] == numbers("regularizer baselines", "low learning rate")[:1]
    assert printed()["training", "framework"].split()[0] == x.backend
    ours = {
        "adam betas": list(x.optim.betas),
        "weight decay": [x.optim.weight_decay],
        "gradient norm clipping": [x.optim.grad_clip],
        "learning rate": [1e-6 if low else x.optim.lr],
        "warmup steps": [x.optim.warmup_steps],
        "global batch size": [x.sampling.prompts],
        "mini-batch size": [x.sampling.prompts / x.optim.mini_batches],
        "sampling temperature": [x.sampling.temperature],
        "reward correct / wrong": [x.reward.correct, x.reward.wrong],
    }
    assert ours == {key: numbers("training", key)[: len(ours[key])] for key in ours}
    (epochs,), (pool,) = numbers("training", "epochs"), numbers("data", "samples retained")
    epoch = pool // x.sampling.prompts  # verl drops the incomplete last batch of an epoch
    assert x.optim.steps == epochs * epoch
    assert "end of each epoch" in printed()["evaluation", "checkpoint saving"]
    assert x.eval.every == epoch
    assert printed()["training", "loss aggregation"] == "token-mean"
    mean = "sequence_mean_token_mean" if x.label == SEQUENCE else "token_mean"
    assert x.method.aggregation == {"_target_": f"common.losses.aggregate.{mean}"}
    assert "math-verify" in printed()["training", "verifier"]
    assert x.data.verifier == GRADED


@pytest.mark.parametrize("name", CLUSTER)
def test_lengths_are_the_models(name):
    x = row(name)
    mine = f"max response length, {x.model.name}"
    key = mine if ("training", mine) in printed() else "max response length, other models"
    assert [x.sampling.max_tokens] == numbers("training", key)
    head = "max length "
    (evaluated,) = [
        numbers(scope, key)
        for scope, key in printed()
        if key.startswith(head) and plain(x.model.name).startswith(plain(key.removeprefix(head)))
    ]
    assert [x.eval.max_tokens] == evaluated


@pytest.mark.parametrize("name", CLUSTER)
def test_the_method_is_as_printed(name):
    x = row(name)
    kind = "importance-weight clip" if family(x) == "CISPO" else "clip"
    for side in ("low", "high"):
        assert [x.method.loss[f"eps_{side}"]] == numbers(family(x), f"{kind} epsilon {side}")
    focal, swept = x.label.startswith("F-"), re.search(r"gamma=([\d.]+)", x.label)
    dual = not any(name in x.label for name in ("CISPO", "DS-GRPO"))
    assert x.method.loss.get("clip_ratio_c") == (3.0 if dual else None)
    if x.label != "DS-GRPO":  # its equation: tests/losses/test_smoothing.py
        assert x.method.advantage["_target_"].endswith(".focal" if focal else ".grpo")
    if swept:
        assert x.method.advantage["gamma"] == float(swept[1])
        assert float(swept[1]) in numbers("gamma", "sweep (appendix)")
    elif focal:
        assert [x.method.advantage["gamma"]] == numbers("gamma", f"{x.model.name} {x.label}")
    for key, what in COEFFICIENTS.items():
        added = x.method.name == f"grpo_{key}"
        expected = numbers("regularizer baselines", f"{what} chosen") if added else [0]
        assert [getattr(x.method, f"{key}_coef")] == expected
    given = re.search(r"\(N=(\d+)\)", x.label)
    sizes = numbers("training", "group size N, second version")  # 8, then those of Table 2
    assert set(numbers("training", "group size N")) < set(sizes)
    assert x.sampling.group_size == (int(given.group(1)) if given else sizes[0])
    assert x.sampling.group_size in sizes


@pytest.mark.parametrize("name", CLUSTER)
def test_data_and_evaluation_are_as_printed(name):
    x = row(name)
    assert x.eval.n == x.eval.curve_n  # the table's n is that of the jobs that evaluate
    assert [x.eval.temperature] == numbers("evaluation", "temperature (all models)")
    assert printed()["data", "training set"].lower().startswith(x.data.name)
    assert x.data.train["drop_conflicts"]
    assert [x.data.train["max_prompt_tokens"]] == numbers("data", "filter")
    versions = ("trained models", "trained models, second version")
    assert any(x.model.name in printed()["models", which].split("; ") for which in versions)
    sets = [plain(name) for name in printed()["evaluation", "in-domain benchmarks"].split(",")]
    assert len(sets) == len(x.data.benchmarks)
    assert all(any(s.startswith(plain(name)) for s in sets) for name in x.data.benchmarks)


@pytest.mark.parametrize("name", CLUSTER)
def test_prompts_hold_the_printed_system_prompt(name):
    x = row(name)
    kin = "Llama" if "Llama" in x.model.name else "Qwen"
    system = printed()["evaluation", f"system prompt, math and GPQA, {kin}"].replace("\\n", "\n")
    if x.model.name == "Qwen3-4B-Base":
        said = printed()["evaluation", "system prompt, math and GPQA, Qwen3-4B-Base"]
        assert said == f"{system} Thinking: on."
        assert x.model.chat == "qwen"  # without the empty thought
    for node in (x.data.train, *x.data.benchmarks.values()):
        made = {key: node[key] for key in ("instruction", "chat")}
        before, _ = render({"problem": "1 + 1 = ?"}, **made).split("1 + 1 = ?")
        for line in system.split("\n"):
            assert line.replace("[date]", "") in before
        assert printed()["data", "training system prompt"] in before


def test_the_sweeps_are_overrides_of_the_rows():
    """App. H.2 and H.3: every printed value is another run, the chosen one is the row itself."""
    swept = {("cluster/qwen7b_f_grpo", "advantage.gamma"): numbers("gamma", "sweep (appendix)")}
    for key, what in COEFFICIENTS.items():
        values = numbers("regularizer baselines", f"{what} sweep")
        swept[f"cluster/qwen7b_grpo_{key}", f"{key}_coef"] = values
    for (name, key), values in swept.items():
        runs = [load([f"experiment={name}", f"method.{key}={v}"], "f_grpo") for v in values]
        ids = {x.run_id for x in runs}
        assert len(ids) == len(values) > 1
        assert row(name).run_id in ids


# ---- what is evaluated of them


def cluster(paper: str) -> Reproduce:
    return strict(Reproduce, compose(paper, ["scale=cluster"], "reproduce"))


@pytest.mark.parametrize("paper", ["f_grpo", "cov_grpo"])
def test_every_printed_benchmark_is_evaluated_under_its_printed_name(paper):
    for sweep in cluster(paper).scales["cluster"].sweeps:
        if [*sweep.benchmarks] == [RARE]:  # Delta NLL
            assert paper == "f_grpo"
            continue
        # Table 2 of F-GRPO prints averages alone, of the sets that Table 3 names
        table = "table3" if (paper, sweep.table) == ("f_grpo", "table2") else sweep.table
        with open(ROOT / "papers" / paper / "published" / f"{table}.csv", newline="") as file:
            lines = [r for r in csv.DictReader(file) if r["metric"].startswith("pass@")]
        names = {r["benchmark"] for r in lines}
        assert set(sweep.benchmarks) == {name for name in names if not name.startswith("Avg")}
        assert sweep.n >= max(int(r["k"]) for r in lines)


def test_evaluations_are_as_printed():
    """Of the last sweep, for time: two models on nine benchmarks."""
    config = cluster("f_grpo")
    assert config.scales["cluster"].sweeps[0].n in numbers(
        "evaluation", "samples per problem n (significance test)"
    )
    sweep = config.scales["cluster"].sweeps[-1]
    runs = runs_of(config, sweep)
    found = evaluations_of(runs, sweep)
    assert len(found) == len(runs) * 9
    with open(PUBLISHED / "table4.csv", newline="") as file:
        cells = {
            (r["table"], r["model"], r["method"], r["benchmark"]) for r in csv.DictReader(file)
        }
    for e in found:
        assert (e.row.table, e.label, e.row.method, e.row.benchmark) in cells
        assert (e.engine, e.top_p) == ("vllm", 1.0)
        assert [e.temperature] == numbers("evaluation", "temperature (all models)")
        assert e.max_tokens == next(x.eval.max_tokens for x in runs if x.run_id == e.row.trained)
        assert e.eval.prompts["chat"] == "qwen"
        math = e.row.benchmark not in ("IFEval", "SynLogic")
        assert (e.eval.verifier == GRADED) == math
    instructions = {e.row.benchmark: e.eval.prompts["instruction"] for e in found}
    assert instructions["GPQA"] == instructions["AMC"] == "boxed_system"
    assert instructions["IFEval"] == instructions["SynLogic"] == "helpful"
    llama = next(s for s in config.scales["cluster"].sweeps if "llama" in s.rows[0])
    one = evaluations_of([row("cluster/llama3b_grpo")], replace(llama, baselines={}))
    assert {e.row.benchmark: e.eval.prompts["instruction"] for e in one}["IFEval"] == "bare"


def test_the_second_versions_model_is_asked_as_printed():
    config = cluster("f_grpo")
    whole = config.scales["cluster_v2"].sweeps[0]
    sweep = replace(whole, rows=["cluster/qwen3_4b_grpo"], baselines={})
    found = evaluations_of(runs_of(config, sweep), sweep)
    asked = {e.row.benchmark: e.eval.prompts for e in found}
    assert len(asked) == 9
    for benchmark, name in (("AMC", "math and GPQA"), ("IFEval", "IFEval"), ("SynLogic",) * 2):
        said = printed()["evaluation", f"system prompt, {name}, Qwen3-4B-Base"]
        system = "bare" if said.startswith("none") else "boxed_system"
        chat = "qwen" if said.endswith("Thinking: on.") else "qwen_no_think"
        assert (asked[benchmark]["instruction"], asked[benchmark]["chat"]) == (system, chat)
    assert {e.row.table for e in found} == {"table1_v2"}


def test_the_sampling_of_cw_grpo_is_its_repositorys():
    with open(ROOT / "papers" / "cov_grpo" / "published" / "hyperparameters.csv") as file:
        lines = list(csv.DictReader(file))
    (said,) = [
        r["value"] for r in lines if r["scope"] == "repo: evaluation" and r["parameter"] == "7B"
    ]
    by_row = {x: s for s in cluster("cov_grpo").scales["cluster"].sweeps for x in s.rows}
    one, seven = by_row["cluster/distill15b_grpo"], by_row["cluster/qwen7b_grpo"]
    for name in ("distill15b_grpo", "qwen7b_grpo"):
        x = row(f"cluster/{name}", "cov_grpo")
        assert (x.data.train["max_prompt_tokens"], x.data.train["tokenizer"]) == (512, x.model.path)
    for e in evaluations_of([row("cluster/qwen7b_grpo", "cov_grpo")], seven):
        assert (f"temperature {e.temperature}" in said, f"top_p {e.top_p}" in said) == (True, True)
        assert f"max_new_tokens {e.max_tokens}," in said
        assert (e.n, e.eval.prompts["instruction"]) == (1, "simple_evals_boxed")
        assert e.eval.verifier == GRADED
    found = evaluations_of([row("cluster/distill15b_grpo", "cov_grpo")], one)
    assert all(e.eval.verifier == GRADED | {"opened": True} for e in found)
    assert {e.eval.prompts["instruction"] for e in found} == {"simple_evals"}
    assert {e.max_tokens for e in found} == {32768}


def unready(verifier: dict, chat: str | None) -> bool:
    """Whether a verifier that could know that `chat` opens a thought does not."""
    parts = verifier.get("parts", [verifier])
    able = [part for part in parts if part["_target_"].split(".")[2] in ("math", "code")]
    opens = chat in CHATS and CHATS[chat](None, "x").rstrip().endswith("<think>")
    return any(part.get("opened", False) != opens for part in able)


@pytest.mark.parametrize("paper", ["cov_grpo", "fade"])
def test_an_opened_thought_is_known_wherever_it_is_graded(paper):
    opened = 0
    config = cluster(paper)
    for scale, one in config.scales.items():
        for sweep in one.sweeps if scale.startswith("cluster") else ():
            runs = runs_of(config, sweep)
            graded = [(x.data.verifier, x.model.chat) for x in runs]
            for e in evaluations_of(runs, sweep) if sweep.benchmarks else ():
                graded.append((e.eval.verifier, e.eval.prompts["chat"]))
            assert not [pair for pair in graded if unready(*pair)], (scale, sweep.table)
            opened += sum("opened" in str(verifier) for verifier, _ in graded)
    assert opened > 10
