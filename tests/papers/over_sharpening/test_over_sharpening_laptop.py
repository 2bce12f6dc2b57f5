"""Over-sharpening's laptop runs, made up: verdicts and figures."""

import gzip

import numpy as np
import pandas as pd
import pytest

from common.comparison import compare
from common.config.compose import compose
from common.config.strict import strict
from common.metrics.passk import report
from common.results.columns import COLUMNS
from common.results.files import write_csv
from common.results.run import Run
from papers.over_sharpening import figures, laptop
from papers.over_sharpening.compare import (
    SPEC,
)
from papers.over_sharpening.toy import tables
from papers.over_sharpening.toy.config import Toy

# ---- laptop runs, made up


def made_up_run(root, method: str, seed: int, step: int, right: dict[str, float]):
    rng = np.random.default_rng([seed, step, *map(ord, method)])
    counts = pd.concat(
        [
            pd.DataFrame(
                {"benchmark": name, "problem_id": [str(i) for i in range(16)], "n": 64}
                | {"c": rng.binomial(64, share, 16), "distinct": 1}
            )
            for name, share in right.items()
        ]
    )
    name = f"{method.lower().replace('+', '_')}-s{seed}"
    run = Run(root, "over_sharpening", name, {"seed": seed})
    own = dict(table="laptop_strong", model="tiny", method=method, seed=seed, step=step)
    frame = report(counts, [1, 8, 64]).assign(**own, run_id=run.run_id)
    write_csv(run.path / "metrics.csv", frame[COLUMNS])
    write_csv(run.path / "eval" / f"step-{step:05d}-counts.csv", counts)
    (run.path / "metrics.jsonl").write_text('{"step": 1, "entropy": 0.5}\n')
    run.finish()


@pytest.mark.sweep
def test_laptop_runs_are_judged_and_drawn(tmp_path, capsys):
    made_up_run(tmp_path, "base", 1, 0, {"natural": 0.1, "rare": 0.02})
    for seed in (1, 2, 3):
        made_up_run(tmp_path, "GRPO", seed, 200, {"natural": 0.2, "rare": 0.01})
        made_up_run(tmp_path, "IAC", seed, 200, {"natural": 0.6, "rare": 0.2})
        made_up_run(tmp_path, "DAPO", seed, 200, {"natural": 0.6, "rare": 0.01})
        made_up_run(tmp_path, "DAPO+IAC", seed, 200, {"natural": 0.2, "rare": 0.01})
    compare.compare(SPEC, tmp_path, "csv")
    capsys.readouterr()
    found = pd.read_csv(tmp_path / "over_sharpening" / "claims.csv").set_index("id")["laptop"]
    assert found["iac_grpo_avg"] == found["iac_grpo_pass"] == found["iac_matched"] == "holds"
    assert found["iac_boot_pass"] == found["iac_peak_avg"] == "holds"
    assert found["dapo_iac_avg"] == "fails"
    assert found["iac_rloo_avg"] == "not run"
    laptop.gather(tmp_path)
    figures.draw(tmp_path)
    drawn = tmp_path / "over_sharpening" / "figures"
    assert (drawn / "laptop_strong_entropy.png").stat().st_size > 5000
    assert not (drawn / "laptop_strong_alpha.png").exists()  # one alpha only
    entropy = pd.read_csv(drawn / "laptop_strong_entropy.csv")
    assert set(entropy["method"]) == {"GRPO", "IAC", "DAPO", "DAPO+IAC"}
    counts = (tmp_path / "over_sharpening" / "laptop" / "counts.csv.gz").read_bytes()
    assert gzip.decompress(counts).startswith(b"table,model,method")


@pytest.mark.sweep
def test_toy_figures_hold_what_is_drawn(tmp_path):
    small = ["seeds=3", "steps=20", "every=10", "lr=[0.3,1.0]", "G=[4,8]", "traces=2"]
    config = strict(Toy, compose("over_sharpening", [*small, f"results_dir={tmp_path}"], "toy"))
    folder = tables.run(config)
    figures.draw(tmp_path)
    drawn = tmp_path / "over_sharpening" / "figures"
    names = {f"toy_fig{i}.png" for i in range(1, 6)} | {
        "toy_collapse.png",
        "toy_learning_rates.png",
    }
    assert names <= {path.name for path in drawn.glob("*.png")}
    table = pd.read_csv(drawn / "toy_collapse.csv")
    setting = "estimator == 'raw' and optimizer == 'momentum' and G == 4 and alpha == mu == 0"
    own = table.query(setting)
    final = pd.read_csv(folder / "final.csv").query(f"{setting} and lr == 1")
    share = 100 * (final[["p_cat", "p_persian"]].max(axis=1) >= 0.99).mean()
    assert own["collapsed"].item() == pytest.approx(share)
