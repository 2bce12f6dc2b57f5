"""The tests of tests/gpu in processes of their own. A true GPU is used where there is one, else a
pretended one, which must be there before the first backward pass."""

import subprocess
import sys

import pytest
from late import Late
from tiny import ROOT

DAY = "tests/gpu/test_day.py"


@pytest.mark.process
@pytest.mark.parametrize("which", ["day", "others"])
def test_on_a_gpu(which, pretrained):
    words = (DAY,) if which == "day" else Late("bench.gpu_day").SUITES["tests/gpu"]
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    if " passed" not in done.stdout:
        pytest.skip(done.stdout.strip().splitlines()[-2])
