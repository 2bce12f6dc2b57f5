"""What the tests of this folder do with a cluster: submit, wait, look."""

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

import one_machine
import pytest
from tiny import ROOT

from common.evaluation.config import Evaluate
from common.results.collect import verify
from common.sweeps.plan import Sweep, evaluations_of
from common.sweeps.profiles import load_profile
from slurm import dry_run, status
from slurm.attempts import attempts, progress
from slurm.submit import submit
from slurm.tables import Chosen

PATIENCE = 900  # seconds: the machine may be busy
STEPS = 24  # of a run: a test holds its sixteenth (hold.py)

# What an evaluation samples, as the words of `rlvr evaluate`.
SETS = {"Natural": ["eval=countdown_natural"], "Rare": ["eval=countdown_rare"]}
SWEEP = Sweep("t", [], [], [], benchmarks=SETS)
MATH = {"MATH500": ["eval=math500"]}


@contextmanager
def running():
    """The folder of a running cluster; SLURM_CONF names it for this process and its children."""
    reason = one_machine.missing()
    if reason:
        (pytest.fail if os.environ.get("SLURM_TESTS") == "require" else pytest.skip)(reason)
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    folder.chmod(0o755)
    before = dict(os.environ)
    try:
        conf = one_machine.start(folder)
        os.environ |= {"SLURM_CONF": str(conf), "PATH": one_machine.PATH}
        os.environ["PYTHONPATH"] = str(ROOT / "tests" / "support")  # of jobs: hold.py
        yield folder
    finally:
        one_machine.stop(folder)
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder)


class Lab:
    """One results folder and the test cluster."""

    paper = "f_grpo"

    def __init__(self, folder: Path, root: Path, tiny):
        self.folder, self.root, self.tiny = folder, root, tiny
        self.profile = load_profile("test")

    def runs(self, *seeds: int, overrides: tuple[str, ...] = ()) -> list:
        """Runs whose every step moves the model, and that a test may hold (hold.py). All start from
        the model that is there."""
        longer = [f"optim.steps={STEPS}", f"eval.every={STEPS // 2}", "method.entropy_coef=0.01"]
        longer += ["checkpoint_every=10", "eval.rare_nll_samples=0"]
        longer += ["method.controller={_target_:hold.wait,seed:${seed}}", *overrides]
        return [self.tiny(*longer, f"seed={seed}") for seed in seeds]

    def evaluations(self, runs: list, **changes) -> list[Evaluate]:
        """Two small ones of each run, called as a paper's table would."""
        small = ["eval.prompts.size=6", "batch=16"]
        words = {name: [*given, *small] for name, given in SETS.items()}
        return evaluations_of(runs, Sweep("t", [], [], [], benchmarks=words, n=8, **changes))

    def submit(self, runs: list, evaluated=(), measures=(), gates=(), **changes) -> list[str]:
        """Submit; returns what was said."""
        profile = replace(self.profile, **changes)
        where = {"paper": self.paper, "profile": profile, "root": self.root}
        with redirect_stdout(StringIO()) as said:
            submit(Chosen(runs, evaluated, {}, measures, gates), **where)
        return said.getvalue().splitlines()

    def statuses(self) -> dict:
        return {one.key: one for one in status.statuses(self.root, self.paper)}

    def show(self) -> str:
        return status.show(self.root, self.paper)

    def wait(self, condition, seconds: float = PATIENCE, every: float = 0.3):
        """Until condition() holds; fails with the status, which is what a user would look at."""
        end = time.monotonic() + seconds
        while not (met := condition()):
            if time.monotonic() > end:
                pytest.fail(f"waited {seconds} s\n{self.show()}\n{sh('squeue', '-l')}")
            time.sleep(every)
        return met

    def settled(self, seconds: float = PATIENCE) -> dict:
        """Wait until nothing is queued; returns the statuses."""
        self.wait(lambda: sh("squeue", "-h") == "", seconds)
        return self.statuses()

    def step(self, run) -> int:
        return progress(self.root / self.paper / run.run_id, "train")

    def training(self, run, at_least: int = 15) -> None:
        """Wait until a run has passed a checkpoint."""
        self.wait(lambda: self.step(run) >= at_least)

    def hasten(self, count: int = 1) -> None:
        """Wait until `count` jobs are requeued, and start these: SLURM lets them wait for two
        minutes, and refuses a start in the second of the requeue."""

        def requeued() -> list[str]:
            words = [x.split() for x in sh("squeue", "-h", "--array", "-o", "%i %r").splitlines()]
            return [job for job, reason in words if reason == "BeginTime"]

        self.wait(lambda: len(requeued()) >= count)
        for job in requeued():
            sh("scontrol", "update", f"JobId={job}", "StartTime=now+3")

    def attempts(self, run) -> list[dict]:
        found = [attempts(p) for p in sorted(self.root.glob(f"*/cluster/*/runs/{run.run_id}"))]
        return [row for rows in found for row in rows]

    def job(self, run) -> str:
        return self.statuses()[run.run_id].job_id

    def content(self, run) -> dict[str, bytes]:
        """Every file of a finished run but those that tell when and where it ran."""
        folder = self.root / self.paper / run.run_id
        assert verify(folder) == []
        files = {str(f.relative_to(folder)): f for f in folder.rglob("*") if f.is_file()}
        where = ("meta.json", "DONE", ".lock", "config.yaml")
        return {name: file.read_bytes() for name, file in files.items() if name not in where}


def dry(jobs: list, profile, root: Path, paper: str = "f_grpo") -> list[str]:
    """The lines of a dry run."""
    with redirect_stdout(StringIO()) as said:
        dry_run.show(jobs, paper=paper, profile=profile, root=root)
    return said.getvalue().splitlines()


def sh(*command: str) -> str:
    """What a command prints. A question is asked again where a busy controller does not answer."""
    tries = 20 if command[0] in ("squeue", "sinfo") else 1
    for left in reversed(range(tries)):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode == 0 or not left:
            break
        time.sleep(1)
    assert done.returncode == 0, f"{command}: {done.returncode}, {done.stdout} {done.stderr}"
    return done.stdout.strip()
