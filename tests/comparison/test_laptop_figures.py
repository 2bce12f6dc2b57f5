"""Figures of laptop runs show the numbers that claims are decided on."""

import shutil

import numpy as np
import pandas as pd
import pytest
from refuses import refuses

from common.claims.judge import LAST
from common.claims.select import select, tidy
from common.comparison import gather, laptop_figures
from common.comparison.laptop_figures import late, over_seeds
from common.config.files import ROOT
from common.results.files import write_csv

STORED = ROOT / "results" / "reference"


@pytest.mark.parametrize(
    ("benchmark", "metric"),
    [("natural", "pass@1"), ("rare", "pass@64"), ("natural", "distinct_correct")],
)
def test_a_run_is_shown_as_it_is_read(benchmark, metric):
    """distinct_correct of the last checkpoint alone has 256 samples, so that it is read alone."""
    rows = pd.read_csv(STORED / "fade" / "laptop" / "metrics.csv.gz")
    where = {"table": "laptop_strong", "method": "FADE", "benchmark": benchmark, "metric": metric}
    read = select("test", where, tidy(rows), None, last=LAST)
    shown = late(rows).query(" and ".join(f"`{key}` == '{value}'" for key, value in where.items()))
    assert shown.sort_values("seed")["value"].to_numpy() == pytest.approx(read.values)
    one = rows[rows["run_id"] == shown["run_id"].iloc[0]]
    steps = one[(one["benchmark"] == benchmark) & (one["metric"] == metric)].set_index("step")
    steps = steps["value"].sort_index()
    expected = steps.iloc[-1] if metric == "distinct_correct" else steps.iloc[-LAST:].mean()
    assert shown["value"].iloc[0] == pytest.approx(expected)


def test_figures_say_where_they_are_and_refuse_a_folder_without_results(tmp_path, capsys):
    with refuses("results_dir", tmp_path):
        laptop_figures.main(["paper=f_grpo", f"results_dir={tmp_path}"])
    shutil.copytree(STORED / "f_grpo" / "simulation", tmp_path / "f_grpo" / "simulation")
    laptop_figures.main(["paper=f_grpo", f"results_dir={tmp_path}"])
    folder = tmp_path / "f_grpo" / "figures"
    pictures = len(list(folder.glob("*.png")))
    assert pictures > 0
    assert f"{pictures} in {folder}" in capsys.readouterr().out


def test_a_curve_starts_at_the_base_models_of_its_own_seeds():
    def row(method, seed, step, value):
        names = {"method": method, "benchmark": "rare", "metric": "pass@64"}
        return names | {"seed": seed, "step": step, "value": value}

    bases = [row("base", 1, 0, 10.0), row("base", 6, 0, 30.0)]
    rows = pd.DataFrame([*bases, row("a", 6, 50, 5.0), row("b", 9, 50, 5.0)])
    curves = {name: over_seeds(rows, name, "rare", "pass@64", "step") for name in ("a", "b")}
    assert curves["a"]["mean"].tolist() == [30.0, 5.0]
    assert curves["b"]["mean"].tolist() == [20.0, 5.0]  # no base model of seed 9: that of all
    assert np.isnan(curves["a"]["sem"][0])


@pytest.mark.parametrize("paper", ["f_grpo", "cov_grpo", "two_stage", "over_sharpening", "fade"])
def test_a_single_run_of_another_method_is_no_figure(paper, tmp_path):
    """As `rlvr train paper=f_grpo method=fade` leaves one, in a table of its own."""
    rows, _ = gather.read(STORED, paper, gather.LAPTOP)
    one = rows[(rows["method"] != "base") & rows["seed"].eq(rows["seed"].iloc[0])]
    one = one[one["run_id"] == one["run_id"].iloc[0]].assign(table="laptop", method="mine")
    base = rows[rows["method"] == "base"]
    folder = tmp_path / paper / gather.LAPTOP
    write_csv(folder / "metrics.csv.gz", pd.concat([base, one]))
    shutil.copy(STORED / paper / gather.LAPTOP / "counts.csv.gz", folder)
    laptop_figures.draw_paper(paper, tmp_path)
    assert not list((tmp_path / paper).glob("figures/laptop_[!m]*"))
