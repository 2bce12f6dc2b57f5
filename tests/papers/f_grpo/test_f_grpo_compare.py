from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from made_up_runs import made_up_counts, made_up_run

from common.comparison import compare
from common.comparison.spec import spec_of
from common.experiment import load

SPEC = spec_of("f_grpo")
pytestmark = pytest.mark.sweep


def finished_run(root, row: str, seed: int, right: dict[int, dict[str, float]]):
    """A finished run of a row of the study, of 40 problems a benchmark; `right`: by step how many
    of 64 samples are right on average."""
    table = ["table=base"] if row == "base" else []
    x = load([f"experiment={row}", f"seed={seed}", *table], "study")
    rng = np.random.default_rng([seed, *map(ord, row)])
    counts = {
        step: made_up_counts(
            means, lambda c: rng.binomial(64, c / 64, 40), problems=40, n=64, ids="{i} = {i}"
        )
        for step, means in right.items()
    }
    about = {"table": x.table, "model": x.model.name, "method": x.label, "seed": seed}
    made_up_run(root, "study", x.run_id, about, counts, [1, 64], config=asdict(x))


def shown(root, rare: dict[str, float], first: float = 11) -> pd.DataFrame:
    """The verdicts on four seeds of rows that are alike on natural prompts and have these numbers
    of right samples on rare ones at the end; `first`: on natural ones at the first checkpoint."""
    for seed in (1, 2, 3, 4):
        finished_run(root, "base", seed, {0: {"natural": 10, "rare": 3}})
        for row, end in rare.items():
            steps = {120: {"natural": first, "rare": 3}, 1200: {"natural": 30, "rare": end}}
            finished_run(root, row, seed, steps)
    compare.compare(SPEC, root)
    return pd.read_csv(root / "f_grpo" / "claims.csv", keep_default_na=False).set_index("id")


def test_verdicts_of_runs_that_agree_with_the_paper(tmp_path):
    verdicts = shown(tmp_path, {"grpo": 0.3, "f_grpo": 3.0})
    assert verdicts["laptop"]["focal_grpo"] == "holds"
    assert verdicts["laptop"]["focal_grpo_matched"] == "holds"
    assert verdicts["laptop"]["focal_cispo"] == "not run"
    assert verdicts["published"]["focal_grpo"] == "holds"
    assert set(verdicts["cluster"]) <= {"not run", "not claimed here"}
    cells = pd.read_csv(tmp_path / "f_grpo" / "comparison.csv")
    focal = cells[(cells["scope"] == "laptop") & (cells["method"] == "F-GRPO (gamma=0.5)")]
    assert (focal["n_seeds"] == 4).all()
    assert set(focal["benchmark"]) == {"natural", "rare"}
