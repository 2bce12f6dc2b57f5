"""The second laptop testbed: its rows are gathered, told and drawn apart from Countdown's."""

import pandas as pd
import pytest

from common.claims.select import COUNTED
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
                    row = dict.fromkeys(COLUMNS) | {"table": maze.MAZES, "model": "tiny"}
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


def counted(c: dict[str, list[tuple[int, int]]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """natural pass@1 and counts of 64 samples: c[method][seed - 1] are the right ones of two
    problems."""
    counts = pd.DataFrame(
        [
            [maze.MAZES, "tiny", method, "natural", seed, 8, f"p{i}", 64, right]
            for method, seeds in c.items()
            for seed, problems in enumerate(seeds, 1)
            for i, right in enumerate(problems)
        ],
        columns=[*COUNTED, "problem_id", "n", "c"],
    )
    means = counts.groupby([*COUNTED], as_index=False)["c"].mean()
    shown = means.assign(metric="pass@1", k=1, unit="percent", value=means["c"] / 0.64)
    return shown.reindex(columns=COLUMNS), counts


def test_differences_are_of_the_seeds_that_both_have_and_need_three():
    rows, counts = counted(
        {
            "GRPO": [(32, 32), (32, 16), (16, 16), (0, 0)],
            "late": [(48, 32), (48, 16), (32, 16)],
            "two": [(64, 64), (64, 64)],
        }
    )
    found = maze.differences(rows, counts, {"late": "GRPO", "two": "GRPO", "none": "GRPO"})
    (line,) = found.itertuples()
    assert (line.method, line.against, line.column) == ("late", "GRPO", "natural pass@1")
    assert (line.seeds, line.difference) == (3, 12.5)  # p0 gains 16 of 64 in each seed, p1 nothing
    assert line.low < 12.5 < line.high
    text = maze.differences_as_text(found)
    assert f"| late minus GRPO | 3 | 12.5 [{line.low:.3g}, {line.high:.3g}] |  |" in text


@pytest.mark.sweep
def test_tables_and_figures_come_from_what_was_gathered_alone(tmp_path):
    write_csv(tmp_path / "f_grpo" / maze.MAZES / "metrics.csv.gz", rows())
    maze.draw(tmp_path, "cov_grpo", "CW-GRPO", {})  # nothing was run: nothing is made
    assert not (tmp_path / "cov_grpo").exists()
    maze.draw(tmp_path, "f_grpo", "F-GRPO", {"GRPO": "#0072B2"})
    assert maze.page(tmp_path, "f_grpo").read_text().startswith("# F-GRPO: mazes with loops")
    drawn = {path.name for path in (tmp_path / "f_grpo" / "figures").glob("*.png")}
    assert drawn == {
        f"laptop_maze_{name}.png" for name in ("training", "matched", "passk", "methods")
    }
    assert not (tmp_path / "f_grpo" / "laptop").exists()
