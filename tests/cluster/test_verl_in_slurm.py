"""The whole chain as a cluster runs it: a real verl training on a real SLURM, told to stop in its
second step and started again, then the evaluation and the comparison that wait for it. What arrays
of several runs do is in tests/slurm, with the local backend."""

import sys
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
    """(lab, the run, the checkpoints that its second start kept)."""
    root = tmp_path_factory.mktemp("sweep") / "results"

    def tiny(*words: str):
        return load([*SMALL, *PRETRAIN, *QUICK, f"results_dir={root}", *words], Lab.paper)

    lab = Lab(cluster, root, tiny)
    run = tiny("method=f_grpo", "seed=2")
    words = {"Natural": ["eval=countdown_natural", "eval.prompts.size=2"]}
    wanted = evaluations_of([run], Sweep("t", [], [], [], benchmarks=words, n=8))
    # 0.6 of the lead is what the step and its checkpoint may take
    limits = dict(time_min=60, memory_gb=8, signal_lead_s=600, cpus_per_node=6)  # as verl reserves
    lab.submit([run], wanted, **limits)
    curve = root / lab.paper / run.run_id / "metrics.jsonl"
    begun = lambda: curve.exists() and curve.read_text().count("\n") >= 1  # noqa: E731
    lab.wait(lambda: begun() or not sh("squeue", "-h"), PATIENCE)
    assert begun(), lab.show()  # else a job before it has failed, and nothing is left in the queue
    # as before a time limit; the job requeues itself, and SLURM lets it wait for two minutes
    sh("scancel", "--signal=USR2", lab.job(run))
    lab.wait(lambda: len(lab.attempts(run)) == 2, PATIENCE)  # it has saved, and waits
    checkpoints = root / lab.paper / run.run_id / "work" / "checkpoints"
    old = [checkpoints / f"global_step_{step}" for step in range(101, 106)]  # of earlier starts
    for folder in old:
        (folder / "actor").mkdir(parents=True)
    lab.hasten()
    gone = lambda: not any(map(Path.exists, old))  # noqa: E731
    lab.wait(lambda: gone() or not sh("squeue", "-h"), PATIENCE)
    kept = sorted(path.name for path in checkpoints.glob("global_step_*"))
    lab.settled(PATIENCE)
    return lab, run, kept


def test_every_job_is_done_and_ends_in_the_metrics(sweep):
    lab, run, _ = sweep
    cells = lab.statuses().values()
    assert {cell.state for cell in cells} == {"done"}, lab.show()
    kinds = sorted(cell.kind for cell in cells)
    assert kinds == ["compare", "evaluate", "model", "train"]
    rows = read_csv(lab.root / lab.paper / "laptop" / "metrics.csv.gz")
    rows = rows[rows.metric == "pass@1"]
    for benchmark, n in (("natural", 4), ("Natural", 8)):  # verl's validation; the evaluation jobs
        last = rows[(rows.benchmark == benchmark) & (rows.step == STEPS)]
        assert set(last.n_samples) == {n}
        assert [(row.method, row.seed) for row in last.itertuples()] == [(run.label, run.seed)]
    assert (lab.root / lab.paper / "comparison.csv").read_text().count("\n") > 10


def test_the_training_was_verls(sweep):
    lab, run, _ = sweep
    folder = lab.root / lab.paper / run.run_id
    assert verify(folder) == []
    verls = yaml.safe_load((folder / "verl.yaml").read_text())
    assert verls["algorithm"]["method"]["function"] == run.method.advantage["_target_"]
    curve = pd.DataFrame(read_jsonl(folder / "metrics.jsonl"))
    assert curve.step.tolist() == [1, 2, 3, 4]
    # vLLM sampled with the weights that were trained
    assert curve.rollout_difference.max() < 1e-5
    assert of_this_run(lab.root) == []


def test_it_was_told_to_stop_saved_its_step_and_went_on_from_there(sweep):
    lab, run, kept = sweep
    first, stopped, second, ended = lab.attempts(run)
    assert first["step"] == 0
    assert stopped["how"] == "stopped: USR2: time limit or preemption"  # and in time
    assert 2 <= second["step"] <= STEPS  # no periodic checkpoint was due
    assert kept == [f"global_step_{second['step']}"]  # of six
    assert ended["how"] == "done"
