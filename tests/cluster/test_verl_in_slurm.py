"""verl on a real SLURM: a training that is told to stop in its second step, saves it and requeues
itself, and an evaluation and the comparison next to it. That a saved training goes on is in
test_verl_run.py; what arrays of several runs do is in tests/slurm, with the local backend."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
import yaml
from runs import PRETRAIN, SMALL, of_this_run

sys.path.append(str(Path(__file__).parents[1] / "slurm"))

from lab import Lab, running, sh

from common.backends.verl import backend
from common.experiment import load
from common.results.files import read_csv, read_jsonl
from common.sweeps.plan import Sweep, evaluations_of

pytestmark = pytest.mark.skipif(
    find_spec("verl") is None, reason="verl is not installed here: make test-cluster runs these"
)
STEPS = 4
PATIENCE = 3600  # seconds for all of it; a start of verl takes two minutes of a core
QUICK = [
    f"optim.steps={STEPS}",
    "sampling.prompts=2",
    # vLLM reports another temperature than it draws at, and the trainer has the one reported
    "sampling.temperature=0.7",
    "sampling.log_prob_temperature=1",
    "data.benchmarks.natural.size=2",
    "~data.benchmarks.rare",
    f"eval.every={STEPS}",
    "checkpoint_every=100",  # none but the one that is asked for
    "eval.n=4",
    "eval.k=[1,4]",
]


@pytest.fixture(scope="module")
def cluster():
    with running() as folder:
        yield folder


@pytest.fixture(scope="module")
def sweep(one_start, cluster, tmp_path_factory):
    """(lab, the run that was stopped)."""
    root = tmp_path_factory.mktemp("sweep") / "results"

    def tiny(*words: str):
        return load([*SMALL, *PRETRAIN, *QUICK, f"results_dir={root}", *words], Lab.paper)

    lab = Lab(cluster, root, tiny)
    run, base = tiny("method=f_grpo", "seed=2"), tiny("optim.steps=0", "label=base", "seed=2")
    words = {"Natural": ["eval=countdown_natural", "eval.prompts.size=2"]}
    wanted = evaluations_of([base], Sweep("t", [], [], [], benchmarks=words, n=8))
    # 0.6 of the lead is what the step and its checkpoint may take
    limits = dict(time_min=60, memory_gb=8, signal_lead_s=600, cpus_per_node=6)  # as verl reserves
    lab.submit([run, base], wanted, **limits)
    curve = root / lab.paper / run.run_id / "metrics.jsonl"
    begun = lambda: curve.exists() and curve.read_text().count("\n") >= 1  # noqa: E731
    lab.wait(lambda: begun() or not sh("squeue", "-h"), PATIENCE)
    assert begun(), lab.show()  # else a job before it has failed, and nothing is left in the queue
    # as before a time limit; the job requeues itself, and SLURM lets it wait for two minutes
    sh("scancel", "--signal=USR2", lab.job(run))
    lab.wait(lambda: sh("squeue", "-h", "-j", lab.job(run), "-o", "%r") == "BeginTime", PATIENCE)
    sh("scancel", lab.job(run))
    lab.settled(PATIENCE)
    return lab, run


def test_the_other_jobs_are_done_and_end_in_the_metrics(sweep):
    lab, _ = sweep
    states = {(cell.kind, cell.state) for cell in lab.statuses().values()}
    ended = {(kind, "done") for kind in ("compare", "evaluate", "model")}
    assert states == {*ended, ("train", "cancelled")}, lab.show()
    rows = read_csv(lab.root / lab.paper / "laptop" / "metrics.csv.gz")
    rows = rows[rows.metric == "pass@1"]
    assert [(row.method, row.benchmark, row.n_samples) for row in rows.itertuples()] == [
        ("base", "Natural", 8)
    ]
    assert (lab.root / lab.paper / "comparison.csv").read_text().count("\n") > 10


def test_the_training_was_verls(sweep):
    lab, run = sweep
    folder = lab.root / lab.paper / run.run_id
    verls = yaml.safe_load((folder / "verl.yaml").read_text())
    assert verls["algorithm"]["method"]["function"] == run.method.advantage["_target_"]
    curve = pd.DataFrame(read_jsonl(folder / "metrics.jsonl"))
    assert curve.step.tolist() == list(range(1, len(curve) + 1))
    # vLLM sampled with the weights that were trained
    assert curve.rollout_difference.max() < 1e-5
    assert of_this_run(lab.root) == []


def test_it_was_told_to_stop_and_saved_its_step(sweep):
    lab, run = sweep
    first, stopped = lab.attempts(run)
    assert first["step"] == 0
    assert stopped["how"] == "stopped: USR2: time limit or preemption"  # and in time
    work = lab.root / lab.paper / run.run_id / "work"
    saved = backend.checkpointed(work)
    assert 2 <= saved <= STEPS  # no periodic checkpoint was due
    assert [path.name for path in (work / "checkpoints").glob("global_step_*")] == [
        f"global_step_{saved}"
    ]
