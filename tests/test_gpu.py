"""The tests of tests/gpu, each file in a process of its own: a true GPU is used where there is one,
elsewhere a pretended one, which must be there before the first backward pass."""

import subprocess
import sys

import pytest
from tiny import ROOT

FILES = sorted(path.name for path in (ROOT / "tests" / "gpu").glob("test_*.py"))


@pytest.mark.process
@pytest.mark.parametrize("name", FILES)
def test_on_a_gpu(name):
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, f"tests/gpu/{name}"], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    if " passed" not in done.stdout:
        pytest.skip(done.stdout.strip().splitlines()[-2])
