"""A real SLURM for the tests of this folder, and what they do with it: submit, wait, look.

Skipped with a reason where it cannot be started; SLURM_TESTS=require makes that a failure.
"""

import shutil
import time
from dataclasses import replace

import pytest
from lab import Lab, running, sh
from tiny import TINY


@pytest.fixture(scope="session")
def slurm():
    with running() as folder:
        yield folder


@pytest.fixture
def lab(slurm, results, tiny):
    """The cluster with a results folder of this test's own; leaves the queue empty."""
    yield Lab(slurm, results, tiny)
    ids = sorted(set(sh("squeue", "-h", "-o", "%A").split()))
    if ids:
        sh("scancel", "--full", *ids)
        end = time.monotonic() + 30
        while sh("squeue", "-h") and time.monotonic() < end:
            time.sleep(0.2)


@pytest.fixture
def one(tiny):
    return tiny("seed=1")


@pytest.fixture
def big(tiny):
    """A 7 B model in the shape of F-GRPO's Table 5."""
    shape = ["sampling.prompts=256", "sampling.group_size=8", "sampling.max_tokens=3000"]
    shape += ["optim.mini_batches=4", "optim.micro_batch=8", "optim.steps=100", "eval.n=256"]
    shape += ["eval.max_tokens=3000", "eval.every=50"]
    x = tiny(*shape)
    model = replace(x.model, name="qwen", path="Qwen/Qwen2.5-7B", pretrain=None)
    return replace(x, backend="verl", model=model, data=replace(x.data, name="math"))


@pytest.fixture(scope="session")
def whole(slurm, pretrained, tmp_path_factory):
    """(lab, runs, seed -> content) of runs that the cluster was never asked to interrupt."""
    from common.experiment import load

    root = tmp_path_factory.mktemp("whole") / "results"
    shutil.copytree(pretrained, root)
    lab = Lab(slurm, root, lambda *o: load([*TINY, f"results_dir={root}", *o], "f_grpo"))
    runs = lab.runs(1, 2)
    lab.submit(runs)
    lab.settled()
    found = {run.seed: lab.content(run) for run in runs}
    assert all("model/model.safetensors" in files for files in found.values())
    return lab, runs, found
