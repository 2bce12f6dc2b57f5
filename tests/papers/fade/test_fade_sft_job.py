"""The SLURM job of FADE's supervised fine-tuning: its script, its hours, what is refused before."""

import json
import os
import subprocess
from dataclasses import replace

import pytest
from refuses import refuses

from common.config.schema import Model
from common.errors import UserError
from common.experiment import load
from common.sweeps.profiles import load_profile
from papers.fade.sft import train


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of its own with two prepared sets of 2 billion characters each."""
    monkeypatch.chdir(tmp_path)
    for folder in train.files():
        folder.mkdir(parents=True)
        (folder / "part-00000.parquet").write_bytes(b"")
        counts = folder.with_name(f"{folder.name}.counts")
        counts.mkdir()
        (counts / "00000.json").write_text(json.dumps({"kept": 1, "characters": 2_000_000_000}))
        (counts / "asked.json").write_text("{}")
    return tmp_path


def test_the_dry_run_prints_hours_and_a_script_that_bash_takes(here):
    said = []
    train.submit(load_profile("h100-2x8"), True, say=said.append)
    # 4e9 / 4 tokens x 8 x 7.62e9 / (16 x 989e12 x 0.23) s, and 4e9 / 3 at 0.14
    assert said[0] == "1.3e+09 tokens at most, 4.65 to 10.2 hours on 16 h100"
    assert "#SBATCH --nodes=2\n" in said[1]
    assert "#SBATCH --signal=B:USR1@900\n" in said[1]
    assert "-m papers.fade.sft node gpus=8 &" in said[1]
    assert not (here / "results/fade/sft/log").exists()
    done = subprocess.run(["bash", "-n"], input=said[1], text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("code", [0, 3])
def test_the_script_requeues_on_the_signal_and_ends_with_its_work(here, code):
    """With stand-ins for SLURM's two commands; srun is the work, and the signal comes within it."""
    profile = replace(load_profile("h100-1x8"), container=None)
    text = train.script(profile, here).replace(f"cd {train.ROOT}", f"cd {here}")
    for name, body in (
        ("scontrol", 'echo "$@" >> said'),
        ("srun", f"kill -USR1 $PPID; sleep 0.3; exit {code}"),
    ):
        (here / name).write_text(f"#!/bin/bash\n{body}\n")
        (here / name).chmod(0o755)
    path = {"PATH": f"{here}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "a"}
    done = subprocess.run(["bash"], input=text, text=True, env=os.environ | path)
    assert done.returncode == code
    assert (here / "said").read_text() == "show hostnames a\nrequeue 7\n"


def test_what_is_refused_before_it_is_submitted(here):
    with pytest.raises(UserError, match="needs executor: slurm"):
        train.submit(load_profile("local"), True)
    part = train.files()[1] / "part-00000.parquet"
    part.unlink()
    with refuses("data"):
        train.submit(load_profile("h100-1x8"), True)
    part.write_bytes(b"")
    train.MODEL.mkdir(parents=True)
    with pytest.raises(UserError, match="is there already; delete it"):
        train.submit(load_profile("h100-1x8"), True)


def test_the_7b_rows_start_from_what_it_makes():
    x = load(["experiment=cluster/qwen7b_grpo"], "fade")
    assert isinstance(x.model, Model)
    assert x.model.path == str(train.MODEL)
