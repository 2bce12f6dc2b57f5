"""What `make reproduce-<paper>` runs, in which order, and what it refuses."""

import subprocess
import sys

import pytest
from compositions import PAPERS, asked
from compositions import runs as runs_of
from tiny import ROOT

from common.errors import UserError
from common.sweeps.plan import experiments
from common.sweeps.reproduce import reproduce


@pytest.mark.sweep
@pytest.mark.parametrize("paper", PAPERS)
def test_smoke_results_are_kept_apart(paper):
    assert {x.results_dir for x in runs_of(paper, "smoke")} == {"results/smoke"}
    assert {x.results_dir for x in runs_of(paper, "laptop")} == {"results"}


def test_runs_come_seed_by_seed_with_the_sweeps_overrides():
    runs = experiments(asked("f_grpo", "scale=smoke"))
    assert [(x.name, x.seed) for x in runs[:4]] == [
        ("base", 1),
        ("grpo_n8", 1),
        ("f_grpo_gamma1", 1),
        ("base", 2),
    ]
    assert [x.optim.steps for x in runs[:3]] == [0, 6, 6]  # the base model is not trained
    assert {x.table for x in runs} == {"smoke"}


def test_the_rest_waits_for_the_base_model_and_the_end_for_all(monkeypatch, tmp_path):
    calls = []

    def noted(tasks, workers, then):
        calls.append((tasks, workers, then))

    monkeypatch.setattr("common.sweeps.reproduce.run_all", noted)
    config = asked("f_grpo", "scale=smoke", "workers=3", f"results_dir={tmp_path}")
    part = ("theory", print, ())
    needs = ("needs the base model", print, ())
    reproduce(
        config,
        finish=lambda c: calls.append(c),
        parts=lambda c: [part] if c is config else [],
        later=lambda c: [needs] if c is config else [],
    )
    (first, workers, rest), end = calls
    assert workers == 3
    assert [title.split("-s")[0] for title, _, _ in first] == ["base", "theory"]
    assert rest[0] == needs
    assert len(rest) == len(experiments(config))
    assert first[0][0] not in [title for title, _, _ in rest]
    assert end is config


def test_a_part_gets_its_scales_overrides():
    config = asked("f_grpo", "scale=smoke")
    assert config.overrides("simulation")[-1] == "results_dir=results/smoke"
    assert "steps=100" in config.overrides("simulation")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["scale=huge"], "scale=huge: use one of"),
        (["workers=0"], "workers=0: must be at least 1"),
        (["+speed=2"], "unknown key speed"),
        (["+scales.smoke.sweep=[]"], "sweep"),
    ],
)
def test_bad_requests_are_refused(overrides, message):
    with pytest.raises(UserError, match=message):
        asked("f_grpo", *overrides)


@pytest.mark.process
def test_a_cluster_scale_is_sent_to_the_launcher():
    command = [sys.executable, "-m", "rlvr_papers", "reproduce", "paper=f_grpo", "scale=cluster"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "rlvr submit paper=f_grpo profile=NAME scale=cluster" in done.stderr


@pytest.mark.process
def test_explain_prints_sizes_and_differences_and_runs_nothing(tmp_path):
    command = [sys.executable, "-m", "papers.f_grpo", f"results_dir={tmp_path / 'results'}"]
    done = subprocess.run([*command, "explain=1x1x80"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "model tiny-qwen2, backend=local, one process" in done.stdout
    assert "1 x 1 GPUs change nothing" in done.stdout
    assert "256 = 32 x 8" in done.stdout
    assert "0.0001, printed 1e-6" in done.stdout
    assert not (tmp_path / "results").exists()
    done = subprocess.run([*command, "explain=2x"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "explain=2x: give NODESxGPUSxGB" in done.stderr
