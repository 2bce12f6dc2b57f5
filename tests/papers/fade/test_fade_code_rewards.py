"""Reinforcement learning on programs with the sandboxed verifier as its reward, end to end."""

import shutil

import pandas as pd
import pytest
from tiny import MODEL

from common.config.compose import compose
from common.config.strict import strict
from common.errors import UserError
from common.experiment import load
from common.models import store
from common.results.collect import verify
from common.tasks import expressions
from common.verifiers.code import sandbox
from papers.fade.code_rewards import runs

pytestmark = pytest.mark.sandbox

sandboxed = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
TINY = [
    *MODEL,
    "device=cpu",
    "data.train.size=40",
    "data.benchmarks.functions.size=4",
    "sampling.prompts=4",
    "sampling.group_size=4",
    "optim.steps=2",
    "eval.n=4",
    "eval.k=[1,4]",
    "eval.curve_n=4",
]


def config(results, *overrides: str) -> runs.CodeRewards:
    given = ",".join(f"'{override}'" for override in [*TINY, *overrides])
    named = ["experiments=[code_fade]", f"overrides=[{given}]", f"results_dir={results}"]
    return strict(runs.CodeRewards, compose("fade", named, "code_rewards"))


@sandboxed
def test_a_tiny_run_learns_from_the_sandbox(tmp_path):
    (folder,) = runs.run(config(tmp_path), progress=False)
    assert verify(folder) == []
    curve = pd.read_json(folder / "metrics.jsonl", lines=True)
    assert list(curve.step) == [1, 2]
    assert curve[["timeout", "error"]].eq(0).all(axis=None)
    rows = pd.read_csv(folder / "metrics.csv").set_index(["benchmark", "metric"])
    assert 0 <= rows.loc[("functions", "pass@4"), "value"] <= 100
    samples = pd.read_json(folder / "samples" / "functions.jsonl.gz", lines=True)
    assert len(samples) == 4 * 4
    assert set(samples.outcome) <= {"correct", "wrong", "unparsed"}
    programs = samples[samples.outcome != "unparsed"].response
    assert len(programs) > 0
    assert programs.str.startswith(expressions.OPENING).all()


def test_without_the_sandbox_it_says_so_and_runs_nothing(tmp_path, monkeypatch, capsys):
    sandbox.close()  # an earlier test's
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    assert runs.run(config(tmp_path), progress=False) == []
    assert "code rewards are left out: " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    # one such experiment alone stops before it computes
    from common.backends import run_experiment

    with pytest.raises(UserError, match="bubblewrap"):
        run_experiment(load(["experiment=code_grpo", f"results_dir={tmp_path}", *TINY], "fade"))


def test_mistakes_are_found_before_anything_runs(tmp_path):
    with pytest.raises(UserError, match=r"optim\.stepz"):
        runs.run(config(tmp_path, "+optim.stepz=1"), progress=False)
    assert list(tmp_path.iterdir()) == []


def test_the_task_is_in_the_models_name():
    plain, other = load([], "fade"), load(["+model.pretrain.task=expressions"], "fade")
    assert plain.model.pretrain.task == "countdown"
    assert store.identity(other.model) != store.identity(plain.model)
    assert plain.run_id != other.run_id
    with pytest.raises(UserError, match="task"):
        load(["+model.pretrain.task=other"], "fade")
