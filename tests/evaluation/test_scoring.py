from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from evaluations import made, samples_of
from interrupted import Stopped, interrupted
from plain_forward import plain_scores
from refuses import refuses

from common.backends import run_experiment
from common.comparison.gather import gather
from common.evaluation import scoring
from common.evaluation.run import evaluate
from common.models import load
from common.results.collect import verify
from common.results.files import read_csv, read_jsonl
from common.sweeps.plan import Sweep, evaluations_of
from slurm.plan import plan


@pytest.fixture(scope="module")
def drawn(pretrained, tmp_path_factory):
    """A nucleus's samples: their own log-probabilities say little of the model's entropy."""
    root = tmp_path_factory.mktemp("scoring")
    (root / "models").symlink_to(pretrained / "models")
    return made(root, "top_p=0.9", "temperature=0.6")


def test_scores_are_exact_on_the_ids_that_were_drawn(drawn, monkeypatch, tmp_path):
    monkeypatch.setattr(scoring, "SCORED", 20)  # 48 samples in three chunks
    x = replace(drawn, scores=drawn.path.name)
    with refuses("scores", drawn.path.name):  # nothing is drawn there
        evaluate(replace(x, results_dir=str(tmp_path)))
    home = evaluate(drawn)
    run = evaluate(x)
    assert run.parent == home.parent
    assert run != home
    assert verify(run) == []
    assert len(list((run / "samples").iterdir())) == 3
    samples, scored = samples_of(home), samples_of(run)
    model, tokenizer = load.load_model(drawn.model, Path(drawn.results_dir), "cpu")
    texts = {row["id"]: row["text"] for row in read_jsonl(home / "problems.jsonl.gz")}
    for sample, row in zip(samples, scored, strict=True):
        assert all(row[key] == sample[key] for key in scoring.KEPT)
        prompt = tokenizer(texts[sample["problem_id"]], add_special_tokens=False)["input_ids"]
        log_probs, entropies = plain_scores(model, prompt, sample["ids"])
        assert row["log_prob"] == pytest.approx(log_probs.sum().item(), abs=2e-4)
        assert row["entropy"] == pytest.approx(entropies.sum().item(), abs=2e-4)
        _, drawn_at = plain_scores(model, prompt, sample["ids"], drawn.temperature)
        assert row["drawn_entropy"] == pytest.approx(drawn_at.sum().item(), abs=2e-4)
        assert sample["raw_log_prob"] == pytest.approx(row["log_prob"], abs=2e-4)
    found = read_csv(run / "metrics.csv").set_index("metric")
    table = pd.DataFrame(scored)
    means = (table["entropy"] / table["tokens"]).groupby(table["problem_id"]).mean()
    assert found["value"]["exact_token_entropy"] == pytest.approx(means.mean())
    own = (table["drawn_entropy"] / table["tokens"]).groupby(table["problem_id"]).mean()
    assert found["value"]["exact_drawn_entropy"] == pytest.approx(own.mean())
    assert found["n_samples"].tolist() == [8, 8, 8]
    nll = read_csv(home / "metrics.csv").set_index("metric")["value"]["token_nll_per_response"]
    assert found["value"]["exact_token_nll"] == pytest.approx(nll, abs=1e-4)
    assert nll < 0.8 * found["value"]["exact_token_entropy"]  # what the nucleus leaves out


def test_a_stopped_scoring_goes_on_where_it_was(drawn, monkeypatch):
    monkeypatch.setattr(scoring, "SCORED", 16)
    home = evaluate(drawn)
    x = replace(drawn, scores=home.name, seed=1)  # another folder than the test before
    asked = []

    def stop() -> None:
        asked.append(None)
        if len(asked) == 2:
            raise Stopped

    interrupted(evaluate, x, stop)
    run = evaluate(x, lambda: asked.append(None))
    assert len(asked) == 2 + 2  # the first chunk is not made again
    assert len(samples_of(run)) == 48


def test_a_rows_samples_are_scored_after_they_are_drawn_and_gathered(tiny):
    x = tiny("scope=cluster", "eval.rare_nll_samples=0", "optim.steps=1")
    words = ["eval=countdown_natural", "eval.prompts.size=4", "n=4", "top_p=0.9"]
    sweep = Sweep("t", [], [], [], benchmarks={"a": words, "b": words}, scored=["b"])
    with refuses("scored", "['c']"):
        evaluations_of([x], replace(sweep, scored=["c"]))
    first, second, scored = evaluations_of([x], sweep)
    assert (first.scores, second.scores, scored.scores) == (None, None, second.path.name)
    jobs = {name: job for job in plan([x], [first, second, scored]) for name in job.makes}
    assert jobs[scored.path.name].kind == "score"
    assert jobs[scored.path.name].needs == (x.run_id, second.path.name)
    run_experiment(x, progress=False)
    for one in (second, scored):
        evaluate(one)
    rows = gather(Path(x.results_dir), x.paper).scopes["cluster"].rows
    (row,) = rows[rows["metric"] == "exact_token_entropy"].to_dict("records")
    assert row["value"] > 0
    told = {"benchmark": "b", "method": x.label, "table": x.table, "step": 1, "unit": "nats"}
    assert told.items() <= row.items()
