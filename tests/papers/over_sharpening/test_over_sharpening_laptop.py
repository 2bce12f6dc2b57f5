"""Over-sharpening's laptop runs, made up: verdicts and figures."""

import gzip

import numpy as np
import pandas as pd
import pytest
from made_up_runs import made_up_counts, made_up_run

from common.comparison import compare
from common.comparison.gather import gather
from common.comparison.spec import spec_of
from papers.over_sharpening import figures, laptop

SPEC = spec_of("over_sharpening")

# ---- laptop runs, made up


def finished_run(root, method: str, seed: int, step: int, right: dict[str, float]):
    rng = np.random.default_rng([seed, step, *map(ord, method)])
    counts = made_up_counts(right, lambda share: rng.binomial(64, share, 16), problems=16, n=64)
    name = f"{method.lower().replace('+', '_')}-s{seed}"
    about = dict(table="laptop_strong", model="tiny", method=method, seed=seed)
    log = [{"step": 1, "entropy": 0.5}]
    config = {"seed": seed}
    made_up_run(
        root, "over_sharpening", name, about, {step: counts}, [1, 8, 64], config=config, log=log
    )


@pytest.mark.sweep
def test_laptop_runs_are_judged_and_drawn(tmp_path, capsys):
    finished_run(tmp_path, "base", 1, 0, {"natural": 0.1, "rare": 0.02})
    for seed in (1, 2, 3):
        finished_run(tmp_path, "GRPO", seed, 200, {"natural": 0.2, "rare": 0.01})
        finished_run(tmp_path, "IAC", seed, 200, {"natural": 0.6, "rare": 0.2})
        finished_run(tmp_path, "DAPO", seed, 200, {"natural": 0.6, "rare": 0.01})
        finished_run(tmp_path, "DAPO+IAC", seed, 200, {"natural": 0.2, "rare": 0.01})
    compare.compare(SPEC, tmp_path)
    capsys.readouterr()
    verdicts = pd.read_csv(tmp_path / "over_sharpening" / "claims.csv").set_index("id")["laptop"]
    assert verdicts["iac_grpo_avg"] == verdicts["iac_grpo_pass"] == "holds"
    assert verdicts["iac_matched"] == "inconclusive"  # passed before the only checkpoint: refused
    assert verdicts["iac_peak_pass"] == verdicts["iac_peak_avg"] == "holds"
    assert verdicts["dapo_iac"] == "fails"
    assert verdicts["iac_others_avg"] == "not run"
    laptop.measure(tmp_path, gather(tmp_path, "over_sharpening").scopes["laptop"])
    figures.draw(tmp_path)
    drawn = tmp_path / "over_sharpening" / "figures"
    assert (drawn / "laptop_strong_entropy.png").stat().st_size > 5000
    assert not (drawn / "laptop_strong_alpha.png").exists()  # one alpha only
    entropy = laptop.read(tmp_path, "laptop_strong")
    assert set(entropy["method"]) == {"GRPO", "IAC", "DAPO", "DAPO+IAC"}
    counts = (tmp_path / "over_sharpening" / "laptop" / "counts.csv.gz").read_bytes()
    assert gzip.decompress(counts).startswith(b"table,model,method")
