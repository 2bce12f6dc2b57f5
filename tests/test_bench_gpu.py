"""`python -m bench.gpu`: without a GPU it says so before any work; its path runs on a CPU."""

import pandas as pd
import pytest
import torch
from refuses import refuses

from bench import gpu
from common.errors import UserError


@pytest.fixture
def call(tmp_path):
    """call(*words) runs the command, results below tmp_path."""

    def run(*words: str) -> None:
        gpu.main([f"results_dir={tmp_path}", *words])

    return run


def test_without_a_gpu_it_ends_before_any_compute(call, monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match=r"bench\.gpu: wants one CUDA GPU"):
        call()
    assert not list(tmp_path.iterdir())


def test_a_word_that_is_neither_true_nor_false_is_refused(call):
    with refuses("smoke", "yes"):
        call("smoke=yes")


@pytest.mark.trains
def test_the_smoke_size_runs_every_part_on_a_cpu(call, tmp_path):
    call("smoke=true")
    assert sorted(path.name for path in (tmp_path / "bench").iterdir()) == [
        "gpu_smoke.csv",
        "gpu_smoke.json",
    ]
    rows = pd.read_csv(tmp_path / "bench" / "gpu_smoke.csv")
    assert [name.split(",")[0] for name in rows.name] == ["rollout", "training step"]
    assert (rows.ours > 0).all()
    assert (rows.ratio > 0).all()
