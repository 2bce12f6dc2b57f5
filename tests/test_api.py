import subprocess
import sys

import pytest
import torch
from tiny import ROOT

import rlvr_papers
from common import api


def test_the_package_has_the_names_and_loads_torch_only_for_them():
    for name in api.__all__:
        assert getattr(rlvr_papers, name) is getattr(api, name)
    assert set(api.__all__) <= set(dir(rlvr_papers))
    with pytest.raises(ImportError, match="nothing"):
        from rlvr_papers import nothing  # noqa: F401
    program = "import sys, rlvr_papers.__main__; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0


def test_the_example_runs():
    example = "\n".join(api.__doc__.split("\n\n")[2:4])
    log_prob = torch.randn(4, 7, requires_grad=True)
    given = {"torch": torch, "log_prob": log_prob, "old_log_prob": log_prob.detach()}
    given["mask"] = torch.ones(4, 7)
    for line in example.splitlines():
        exec(line.strip(), given)
    assert given["A"].tolist()[0][0] > 0
    assert log_prob.grad.abs().sum() > 0
