"""Fixtures that several files of this folder share."""

import shutil
from pathlib import Path

import pytest
from local_loop import BONUS
from tiny import TINY

from common.backends.local import train
from common.experiment import load


@pytest.fixture(scope="module")
def finished(pretrained, tmp_path_factory) -> Path:
    """A results folder with a run of six steps; its entropy bonus makes every step move the
    model."""
    root = tmp_path_factory.mktemp("finished") / "results"
    shutil.copytree(pretrained, root)
    train(load([*TINY, BONUS, f"results_dir={root}"], "f_grpo"), progress=False)
    return root


@pytest.fixture
def run(finished, tiny) -> Path:
    """A copy of that run in this test's results folder."""
    path = tiny(BONUS).path
    shutil.copytree(finished / path.parent.name / path.name, path)
    return path
