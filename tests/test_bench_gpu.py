import pandas as pd
import pytest
from late import Late

from common.errors import UserError

gpu = Late("bench.gpu")


def test_without_a_gpu_it_ends_before_any_compute(monkeypatch, tmp_path):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(UserError, match=r"bench\.gpu"):
        gpu.main([f"results_dir={tmp_path}"])
    assert not list(tmp_path.iterdir())


@pytest.mark.trains
def test_the_smoke_size_runs_every_part_on_a_cpu(tmp_path):
    gpu.measured(gpu.SMOKE, tmp_path, "smoke")
    assert (tmp_path / "smoke.json").exists()
    rows = pd.read_csv(tmp_path / "smoke.csv")
    assert [name.split(",")[0] for name in rows.name] == ["rollout", "training step"]
    assert (rows[["ours", "ratio"]] > 0).all(axis=None)
