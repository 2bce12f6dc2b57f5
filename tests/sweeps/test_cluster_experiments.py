import csv
import re

import pytest
from compositions import cluster as cluster_rows
from compositions import composed
from tiny import ROOT

from common.config.compose import compose
from common.config.strict import strict
from common.datasets.templates import CHATS
from common.experiment import Experiment
from common.sweeps.plan import Reproduce, evaluations_of, runs_of

pytestmark = pytest.mark.sweep

GRADED = {"_target_": "common.verifiers.math.verify", "convention": "math_verify"}


def row(name: str, paper: str = "f_grpo") -> Experiment:
    return composed((f"experiment={name}",), paper)


def test_f_grpos_rows_train_ten_epochs_and_are_what_their_labels_say():
    epoch = 39_202 // 256  # verl drops the incomplete last batch of an epoch
    trained = [x for x in map(row, cluster_rows("f_grpo")) if x.optim.steps > 0]
    assert {(x.optim.steps, x.eval.every) for x in trained} == {(10 * epoch, epoch)}
    for x in trained:  # tests/comparison/test_deviations.py compares the rest
        for said, value in re.findall(r"(gamma|N)=([\d.]+)", x.label):
            ours = x.sampling.group_size if said == "N" else x.method.advantage["gamma"]
            assert ours == float(value), x.name


def cluster(paper: str) -> Reproduce:
    return strict(Reproduce, compose(paper, ["scale=cluster"], "reproduce"))


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
