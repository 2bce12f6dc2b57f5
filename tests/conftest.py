"""Shared by all tests: one thread, no network, and one tiny language model, made once."""

import gc
import os

os.environ["OMP_NUM_THREADS"] = "1"  # read when torch is first imported
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

import fcntl
import multiprocessing
import shutil
from pathlib import Path

import processes
import pytest
from tiny import TINY

gc.set_threshold(50_000, 50, 50)  # collecting garbage would take a quarter of all imports' time
os.fsync = lambda _: None  # it guards against a failure of the machine, and a busy disk is slow
NEEDS = {"pretrained": "trains", "slurm": "slurm"}  # a fixture, and the marker of who asks for it


def pytest_collection_modifyitems(items):
    """What is certain is marked here; the rest stands at the top of a test or of its file."""
    for item in items:
        for fixture, marker in NEEDS.items():
            if fixture in item.fixturenames:
                item.add_marker(marker)
        if "cluster" in item.path.relative_to(Path(__file__).parent).parts:
            item.add_marker("verl")


@pytest.fixture(scope="session")
def pretrained(tmp_path_factory) -> Path:
    """A results folder with nothing in it but the tiny model; shared by all pytest workers."""
    from common.experiment import load
    from common.models import load as load_module

    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    # a pytest that a test starts finds it there too
    root = Path(os.environ.setdefault("PRETRAINED", str(base / "pretrained")))
    with open(root.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        load_module.load_model(load([*TINY, f"results_dir={root}"], "f_grpo").model, root, "cpu")
    return root


@pytest.fixture
def results(pretrained, tmp_path) -> Path:
    """A results folder of this test's own that already holds the tiny model."""
    root = tmp_path / "results"
    shutil.copytree(pretrained, root)
    return root


@pytest.fixture
def tiny(results):
    """tiny(*overrides) -> Experiment on the tiny model, in this test's results folder."""
    from common.experiment import load

    def make(*overrides: str):
        return load([*TINY, f"results_dir={results}", *overrides], "f_grpo")

    return make


@pytest.fixture
def forked(monkeypatch):
    """What is spawned comes from a server that has imported its modules."""
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: processes.FORK)


@pytest.fixture
def float64(monkeypatch):
    """float64(model) makes a model that computes in float64 throughout, so that nothing hides
    behind rounding: the product rounds logits to float32, transformers' RMSNorm its input."""
    import torch

    def convert(model):
        monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
        for parent in list(model.modules()):
            for name, child in parent.named_children():
                if hasattr(child, "variance_epsilon"):
                    norm = torch.nn.RMSNorm(child.weight.shape, child.variance_epsilon)
                    norm.weight = child.weight
                    setattr(parent, name, norm)
        return model.double()

    return convert
