"""The way of a job from submission to its result, with stand-ins for SLURM's programs: `sbatch`
runs each element of the script at once."""

import json
import os
import sys

import pytest
import yaml
from lab import Lab
from tiny import ROOT

from slurm.attempts import attempts

SBATCH = """
case "$*" in *--test-only* | --version) exit 0 ;; esac
count=$(($(cat {bin}/count) + 1))
echo $count > {bin}/count
last=$(sed -n 's/^#SBATCH --array=0-\\([0-9]*\\)%.*/\\1/p' "$1")
for i in $(seq 0 "${{last:-0}}"); do
  [ -n "$last" ] && export SLURM_ARRAY_JOB_ID=$count SLURM_ARRAY_TASK_ID=$i
  SLURM_JOB_ID=$count bash "$1" >> {bin}/log 2>&1
done
echo "Submitted batch job $count"
"""
SRUN = """
while :; do
  case "$1" in --output | --error) shift 2 ;; --*) shift ;; *) exec "$@" ;; esac
done
"""


@pytest.mark.process
@pytest.mark.trains
def test_an_array_of_trainings_and_a_comparison_run_from_their_files(results, tiny, monkeypatch):
    bin = results / "bin"
    bin.mkdir()
    (bin / "count").write_text("0")
    scripts = {"sbatch": SBATCH.format(bin=bin), "srun": SRUN, "squeue": "", "scontrol": ""}
    for name, script in scripts.items():
        (bin / name).write_text(f"#!/bin/sh\n{script}")
        (bin / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    lab = Lab(results, results, tiny)
    runs = [tiny(f"seed={seed}", "optim.steps=2", "eval.every=2") for seed in (1, 2)]
    said = lab.submit(runs, python=sys.executable)
    assert [line.split()[:2] for line in said[2:]] == [["train", "2"], ["compare", "1"]]
    found = lab.statuses()
    log = (bin / "log").read_text()
    assert {one.state for one in found.values()} == {"done"}, log
    assert [found[run.run_id].job_id for run in runs] == ["1_0", "1_1"]
    for run, job in zip(runs, ("1_0", "1_1"), strict=True):
        (folder,) = results.glob(f"f_grpo/cluster/*/runs/{run.run_id}")
        assert attempts(folder)[0]["job"] == job
    assert lab.submit(runs)[0].endswith("0 to submit")
    assert (results / "f_grpo" / "comparison.csv").read_text().count("\n") > 10
    shown = lab.show()
    for said in ("step 2/2", "reward", "pass@1", "GPU-hours of the 2 done: predicted"):
        assert said in shown
    (submission,) = (results / "f_grpo" / "cluster").glob("2*")
    assert json.loads((submission / "meta.json").read_text())["profile"]["partition"] == "low"
    frozen = (submission / "configs" / f"{runs[0].run_id}.yaml").read_text()
    kept = (results / "f_grpo" / runs[0].run_id / "config.yaml").read_text()
    assert yaml.safe_load(frozen) == yaml.safe_load(kept)
