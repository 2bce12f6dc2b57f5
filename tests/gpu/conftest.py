"""The local backend on a GPU, `python -m pytest tests/gpu`: the true one where there is one, else a
pretended one (tests/support/fakecuda), which takes a process of its own (tests/test_gpu.py)."""

import fakecuda
import pytest
import torch

PRETENDED = not torch.cuda.is_available()
MISSING = fakecuda.build.missing() if PRETENDED else None
if PRETENDED and MISSING is None:
    fakecuda.install(gb=4)


def pytest_collection_modifyitems(items):
    for item in items:
        if MISSING is not None:
            item.add_marker(pytest.mark.skip(reason=MISSING))
        elif not PRETENDED and "pretended" in item.fixturenames:
            item.add_marker(pytest.mark.skip(reason="says something about the pretended GPU alone"))


@pytest.fixture
def pretended():
    """The pretended GPU with 4 GB, nothing of which is counted yet."""
    fakecuda.set_memory(4)
    fakecuda.synchronisations()
    yield fakecuda
    fakecuda.set_memory(4)
