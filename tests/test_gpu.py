"""The tests of tests/gpu in a process of their own. A true GPU is used where there is one, else a
pretended one, which must be there before the first backward pass."""

import subprocess
import sys

import pytest
from tiny import ROOT


@pytest.mark.process
def test_on_a_gpu(pretrained):
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", "tests/gpu"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    if " passed" not in done.stdout:
        pytest.skip(done.stdout.strip().splitlines()[-2])
