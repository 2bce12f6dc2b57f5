"""verl on CPU, in this process: the CPU platform, our plugin, one process group of one.

CLUSTER_TESTS=cuda, on a node with a GPU, runs what is not written for the CPU's float32 there: the
engine of test_verl_on_cuda.py and the whole run of test_verl_run.py. Else GPUs are hidden.
"""

import atexit
import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

DEVICE = os.environ.get("CLUSTER_TESTS", "cpu")  # as in runs.py, which imports too much for here
ON_GPUS = ("test_verl_on_cuda.py", "test_verl_run.py")


def pytest_configure():
    if DEVICE not in ("cpu", "cuda"):
        raise pytest.UsageError(f"CLUSTER_TESTS={DEVICE}: use cpu or cuda")


def pytest_collection_modifyitems(items):
    for item in items:
        here = item.path.parent == Path(__file__).parent
        if DEVICE == "cuda" and here and item.path.name not in ON_GPUS:
            item.add_marker(pytest.mark.skip(reason="CLUSTER_TESTS=cuda: for the CPU"))


if find_spec("verl"):  # where it is missing the tests are skipped, and others share this process
    # vLLM's sockets, Ray's sessions, verl's locks and compiled kernels, which none of them removes;
    # what tests write stays where pytest keeps it
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    if WORKER := os.environ.get("PYTEST_XDIST_WORKER"):  # below the first one's: Ray's sockets
        tempfile.tempdir = str(Path(tempfile.gettempdir(), WORKER))  # want a short path
        Path(tempfile.tempdir).mkdir(exist_ok=True)
    else:
        tempfile.tempdir = tempfile.mkdtemp(prefix="rlvr-")
    os.environ["TMPDIR"] = tempfile.tempdir
    atexit.register(shutil.rmtree, tempfile.tempdir, ignore_errors=True)
if find_spec("verl") and DEVICE == "cpu":
    import verl_cpu

    support = str(Path(__file__).parents[1] / "support")
    os.environ.update(
        verl_cpu.ENVIRONMENT,
        RLVR_STAND_IN="verl_cpu",
        VERL_USE_EXTERNAL_MODULES=",".join([*verl_cpu.MODULES, "common.backends.verl.plugin"]),
        PYTHONPATH=os.pathsep.join(filter(None, [support, os.environ.get("PYTHONPATH")])),
        CUDA_VISIBLE_DEVICES="",
        RANK="0",
        WORLD_SIZE="1",
        LOCAL_RANK="0",
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT="29577",
    )
