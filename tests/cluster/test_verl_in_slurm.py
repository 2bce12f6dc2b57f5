"""The whole chain as a cluster runs it: an array of real verl trainings on a real SLURM, one of
them told to stop in its second step, then the evaluations and the comparison that wait for them."""

import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
import yaml
from runs import PRETRAIN, SMALL, of_this_run

sys.path.append(str(Path(__file__).parents[1] / "slurm"))

from lab import Lab, running, sh

from common.experiment import load
from common.results.collect import verify
from common.results.files import read_csv, read_jsonl
from common.sweeps.plan import Sweep, evaluations_of

pytestmark = pytest.mark.skipif(
    find_spec("verl") is None, reason="verl is not installed here: make test-cluster runs these"
)
# two that differ in everything a row is told apart by: a start of verl is dear
METHODS, STEPS = (("grpo", 1), ("f_grpo", 2)), 4
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
def sweep(cluster, tmp_path_factory):
    """(lab, the runs, the first of which was told to stop and went on, seconds, the checkpoints
    that its second start kept)."""
    root = tmp_path_factory.mktemp("sweep") / "results"

    def tiny(*words: str):
        return load([*SMALL, *PRETRAIN, *QUICK, f"results_dir={root}", *words], Lab.paper)

    lab = Lab(cluster, root, tiny)
    runs = [tiny(f"method={name}", f"seed={seed}") for name, seed in METHODS]
    words = {"Natural": ["eval=countdown_natural", "eval.prompts.size=2"]}
    wanted = evaluations_of(runs, Sweep("t", [], [], [], benchmarks=words, n=8))
    # one at a time: a start of verl takes 7 GB, and a requeued job waits for two minutes anyway;
    # 0.6 of the lead is what the step and its checkpoint may take
    limits = dict(time_min=60, memory_gb=8, array_parallelism=1, signal_lead_s=600)
    limits |= dict(cpus_per_node=6)  # what verl reserves
    began = time.monotonic()
    lab.submit(runs, wanted, **limits)
    curve = root / lab.paper / runs[0].run_id / "metrics.jsonl"
    begun = lambda: curve.exists() and curve.read_text().count("\n") >= 1  # noqa: E731
    lab.wait(lambda: begun() or not sh("squeue", "-h"), PATIENCE)
    assert begun(), lab.show()  # else a job before it has failed, and nothing is left in the queue
    # as before a time limit; the job requeues itself, and SLURM lets it wait for two minutes
    sh("scancel", "--signal=USR2", lab.job(runs[0]))
    lab.wait(lambda: len(lab.attempts(runs[0])) == 2, PATIENCE)  # it has saved, and waits
    checkpoints = root / lab.paper / runs[0].run_id / "work" / "checkpoints"
    old = [checkpoints / f"global_step_{step}" for step in range(101, 106)]  # of earlier starts
    for folder in old:
        (folder / "actor").mkdir(parents=True)
    gone = lambda: not any(map(Path.exists, old))  # noqa: E731
    lab.wait(lambda: gone() or not sh("squeue", "-h"), PATIENCE)
    kept = sorted(path.name for path in checkpoints.glob("global_step_*"))
    lab.settled(PATIENCE)
    return lab, runs, time.monotonic() - began, kept


def test_every_job_is_done_and_ends_in_the_metrics(sweep):
    lab, runs, seconds, _ = sweep
    cells = lab.statuses().values()
    assert {cell.state for cell in cells} == {"done"}, lab.show()
    kinds = sorted(cell.kind for cell in cells)
    assert kinds == ["compare", *["evaluate"] * 2, "model", *["train"] * 2]
    rows = read_csv(lab.root / lab.paper / "laptop" / "metrics.csv.gz")
    rows = rows[rows.metric == "pass@1"]
    for benchmark, n in (("natural", 4), ("Natural", 8)):  # verl's validation; the evaluation jobs
        last = rows[(rows.benchmark == benchmark) & (rows.step == STEPS)]
        assert set(last.n_samples) == {n}
        pairs = sorted((row.method, row.seed) for row in last.itertuples())
        assert pairs == sorted((x.label, x.seed) for x in runs)
    assert (lab.root / lab.paper / "comparison.csv").read_text().count("\n") > 10
    print(f"2 trainings, 1 of them twice, 2 evaluations, comparison: {seconds:.0f} s")


def test_every_training_was_verls(sweep):
    lab, runs, *_ = sweep
    for run in runs:
        folder = lab.root / lab.paper / run.run_id
        assert verify(folder) == []
        verls = yaml.safe_load((folder / "verl.yaml").read_text())
        assert verls["algorithm"]["method"]["function"] == run.method.advantage["_target_"]
        curve = pd.DataFrame(read_jsonl(folder / "metrics.jsonl"))
        assert curve.step.tolist() == [1, 2, 3, 4]
        # vLLM sampled with the weights that were trained
        assert curve.rollout_difference.max() < 1e-5
    assert of_this_run(lab.root) == []


def test_the_one_that_was_told_to_stop_saved_its_step_and_went_on_from_there(sweep):
    lab, runs, _, kept = sweep
    first, stopped, second, ended = lab.attempts(runs[0])
    assert first["step"] == 0
    assert stopped["how"] == "stopped: USR2: time limit or preemption"  # and in time
    assert 2 <= second["step"] <= STEPS  # no periodic checkpoint was due
    assert kept == [f"global_step_{second['step']}"]  # of six
    assert ended["how"] == "done"
    for run in runs[1:]:
        assert [row.get("step") for row in lab.attempts(run)] == [0, None]
