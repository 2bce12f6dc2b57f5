import math
from pathlib import Path

import pandas as pd
import pytest
import torch
from evaluations import samples_of
from local_loop import made_up
from plain_forward import plain_scores
from refuses import refuses

from common.backends import run_experiment
from common.evaluation import rare_nll
from common.evaluation import samples as samples_module
from common.evaluation.run import evaluate
from common.models import load as load_module
from common.results.files import read_csv, read_jsonl
from common.sweeps.plan import Sweep, evaluations_of, on_rare
from common.types import Prompt
from slurm.plan import plan


def all_made_up(pairs):
    return [made_up(*pair) for pair in pairs]


def test_rare_answers_are_the_least_likely_right_ones(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(rare_nll, "SHARE", 0.2)
    x = tiny("eval.rare_nll_samples=40")
    model, tokenizer = load_module.load_model(x.model, Path(x.results_dir), "cpu")
    prompts = [Prompt(text, text, text) for text in ("1 2 3 4 = 10", "5 6 7 8 = 26")]
    rare = rare_nll.rare_correct(model, tokenizer, prompts, all_made_up, x.eval, tmp_path)
    drawn = samples_module.sample(
        model,
        tokenizer,
        prompts,
        all_made_up,
        benchmark="rare-correct",
        n=40,
        settings=x.eval,
        seed=(0,),
    ).rows
    right = drawn[(drawn["outcome"] == "correct") & drawn["stopped"]]
    nll = (-right["log_prob"] / right["tokens"]).sort_values(ascending=False)
    assert len(rare) == round(0.2 * len(right)) > 2
    assert [row["response"] for row in rare] == right["response"][nll.index[: len(rare)]].tolist()
    ids = lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]  # noqa: E731
    for row in rare:
        slow = -plain_scores(model, ids(row["prompt"]), row["ids"])[0].mean().item()
        assert row["nll"] == pytest.approx(slow, abs=1e-5)
    again = [[*ids(row["response"]), tokenizer.eos_token_id] for row in rare]
    assert again != [row["ids"] for row in rare]  # a text lacks the special tokens drawn in it
    row = rare_nll.delta_nll(model, tokenizer, rare).iloc[0]
    assert row["value"] == pytest.approx(0, abs=1e-6)
    assert row["n_samples"] == len(rare)
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(0.0)  # the uniform model: NLL = log V for every token
    row = rare_nll.delta_nll(model, tokenizer, rare).iloc[0]
    mean = sum(row["nll"] for row in rare) / len(rare)
    assert row["value"] == pytest.approx(math.log(len(tokenizer)) - mean, abs=1e-4)


def test_the_rare_answers_are_one_in_a_hundred():
    log_probs = [-float(i) for i in range(200)]
    right = {"outcome": "correct", "stopped": True, "tokens": 1}
    drawn = pd.DataFrame([right | {"log_prob": log_prob} for log_prob in log_probs])
    assert rare_nll.rarest(drawn, rare_nll.SHARE).index.tolist() == [199, 198]
    assert len(rare_nll.rarest(drawn[:9], rare_nll.SHARE)) == 1


@pytest.fixture
def planned(tiny):
    """A training, the model that it starts from, and their evaluations: samples, and NLL."""
    x = tiny("scope=cluster", "eval.rare_nll_samples=0")
    base = tiny("scope=cluster", "name=base", "label=base", "optim.steps=0")
    words = ["eval=countdown_natural", "eval.prompts.size=6", "+eval.rare_share=0.5"]
    sweep = Sweep("rare", [], [], [], benchmarks={"rare set": words}, n=200)
    return x, base, [*evaluations_of([base], sweep), *evaluations_of([x], sweep)]


def test_a_trained_model_scores_the_samples_of_its_base_model(planned):
    x, base, evaluations = planned
    drawn, scored = on_rare(evaluations)
    jobs = {name: job for job in plan([x, base], [drawn, scored]) for name in job.makes}
    assert jobs[scored.path.name].needs == (x.run_id, drawn.path.name)
    assert jobs[scored.path.name].kind == "score"
    (made,) = jobs[drawn.path.name].needs  # the base model, which is made first
    assert jobs[made].kind == "model"
    with refuses("eval.rare_share", "0.5"):
        on_rare(evaluations[1:])

    run_experiment(x, progress=False)
    with refuses("scores", drawn.path.name):
        evaluate(scored)
    home = evaluate(drawn)
    assert "delta_NLL_rare" not in set(read_csv(home / "metrics.csv")["metric"])
    run = evaluate(scored)
    rare = read_jsonl(run / "rare.jsonl.gz")
    right = [row for row in samples_of(home) if row["outcome"] == "correct" and row["stopped"]]
    assert len(rare) == round(0.5 * len(right)) > 2
    least = sorted(right, key=lambda row: row["log_prob"] / row["tokens"])[: len(rare)]
    assert sorted(row["response"] for row in rare) == sorted(row["response"] for row in least)

    root = Path(x.results_dir)
    texts = {row["id"]: row["text"] for row in read_jsonl(home / "problems.jsonl.gz")}
    changes = []
    for row in rare:
        nll = {}
        for key, of in (("nll", x.model), ("trained_nll", scored.model)):
            model, tokenizer = load_module.load_model(of, root, "cpu")
            ids = lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]  # noqa: B023, E731
            response = [*ids(row["response"]), tokenizer.eos_token_id]
            assert response == row["ids"]  # this tokenizer has one way to write a text
            log_probs, _ = plain_scores(model, ids(texts[row["problem_id"]]), response)
            nll[key] = -log_probs.mean().item()
            assert row[key] == pytest.approx(nll[key], abs=1e-5)
        changes.append(nll["trained_nll"] - nll["nll"])
    (line,) = read_csv(run / "metrics.csv").to_dict("records")
    assert line["value"] == pytest.approx(sum(changes) / len(changes), abs=1e-5) != 0
    told = {"benchmark": "rare set", "metric": "delta_NLL_rare", "step": 6, "method": x.label}
    assert told.items() <= line.items()
