"""Hydra's own submitit launcher: for those who know no more than `--multirun`."""

import subprocess
import sys

import pytest
from tiny import ROOT, TINY


def multirun(root, *words: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "papers.f_grpo", "--multirun", "hydra/launcher=submitit_local"]
    where = [f"results_dir={root}", f"hydra.sweep.dir={root}/multirun"]
    return subprocess.run(
        [*command, *TINY, *where, *words], cwd=ROOT, capture_output=True, text=True, timeout=300
    )


@pytest.mark.process
def test_a_multirun_is_an_array_of_jobs(results):
    done = multirun(results, "optim.steps=2", "eval.every=2", "seed=1,2")
    assert done.returncode == 0, done.stderr
    assert len([*results.glob("f_grpo/*-s[12]-*/DONE")]) == 2
    assert len([*results.glob("multirun/.submitit/*/*_result.pkl")]) == 2


def test_several_nodes_are_refused_with_what_to_use(tmp_path):
    done = multirun(tmp_path, "hydra.launcher.nodes=2")
    assert done.returncode == 2
    assert done.stderr.startswith("error: hydra.launcher.nodes=2: ")
    assert "hydra.launcher.nodes" in done.stderr
    assert not [*tmp_path.iterdir()]
