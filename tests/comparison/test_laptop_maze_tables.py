"""The second laptop testbed: its rows are gathered, told and drawn apart from Countdown's."""

import pandas as pd
import pytest

from common.comparison import maze
from common.results.columns import COLUMNS
from common.results.files import write_csv

METHODS = {"base": (20.0,), "GRPO": (40.0, 50.0), "late": (30.0, 31.0)}


def rows() -> pd.DataFrame:
    found = []
    for method, values in METHODS.items():
        for seed, value in enumerate(values, 1):
            for step in (0,) if method == "base" else (4, 8):
                for benchmark, metric in maze.SHOWN.values():
                    row = dict.fromkeys(COLUMNS) | {"table": maze.SCOPE, "model": "tiny"}
                    row |= {"method": method, "benchmark": benchmark, "metric": metric}
                    k = int(metric.split("@")[1]) if "@" in metric else None
                    row |= {"k": k, "unit": "percent", "seed": seed, "step": step}
                    row |= {"value": value + (step == 4), "run_id": f"{method}-s{seed}"}
                    row |= {"n_problems": 50, "n_samples": 64}
                    found.append(row)
    return pd.DataFrame(found)[COLUMNS]


def test_the_table_has_the_last_step_with_its_seeds_the_base_model_first():
    shown = maze.table(rows().sort_values("method", ascending=False))
    assert list(shown["method"].unique()) == ["base", "late", "GRPO"]
    cells = shown.set_index(["method", "column"])
    grpo = cells.loc["GRPO", "natural pass@1"]
    assert (grpo["mean"], grpo["stderr"], grpo["seeds"]) == (45, 5, 2)
    text = maze.as_text(shown)
    assert "| GRPO | 2 | 45 ± 5 |" in text
    assert "| base | 1 | 20 |" in text  # one seed: no error is made up
    assert [line.split(" |")[0] for line in text.splitlines()[2:]] == ["| base", "| late", "| GRPO"]


@pytest.mark.sweep
def test_tables_and_figures_come_from_what_was_gathered_alone(tmp_path):
    write_csv(tmp_path / "f_grpo" / maze.SCOPE / "metrics.csv", rows())
    assert maze.draw(tmp_path, "cov_grpo", "CW-GRPO", {}) == ""  # nothing was run: nothing is made
    assert not (tmp_path / "cov_grpo").exists()
    text = maze.draw(tmp_path, "f_grpo", "F-GRPO", {"GRPO": "#0072B2"})
    assert text == (tmp_path / "f_grpo" / maze.SCOPE / "table.md").read_text()
    drawn = {path.name for path in (tmp_path / "f_grpo" / "figures").glob("*.png")}
    assert drawn == {
        f"laptop_maze_{name}.png" for name in ("training", "matched", "passk", "methods")
    }
    assert not (tmp_path / "f_grpo" / "laptop").exists()
