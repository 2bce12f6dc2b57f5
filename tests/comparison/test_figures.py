"""`rlvr figures`: what it draws, and what it refuses; figures of cluster rows as data."""

import shutil
import subprocess
import sys

import pytest
from made_up_runs import MATH, cluster_run
from refuses import refuses

from common.comparison import figures
from common.comparison.published import labels, published
from common.comparison.spec import spec_of
from common.config.compose import compose
from common.config.files import ROOT, papers
from common.config.resolve import import_target
from common.config.strict import strict
from common.sweeps.plan import Reproduce

STORED = ROOT / "results" / "reference"


def test_figures_say_where_they_are_and_refuse_a_folder_without_results(tmp_path, capsys):
    with refuses("results_dir", tmp_path):
        figures.main(["paper=f_grpo", f"results_dir={tmp_path}"])
    shutil.copytree(STORED / "f_grpo" / "simulation", tmp_path / "f_grpo" / "simulation")
    figures.main(["paper=f_grpo", f"results_dir={tmp_path}"])
    pictures = len(list((tmp_path / "f_grpo").rglob("*.png")))
    assert pictures == 1  # Fig. 4
    assert f"{pictures} below {tmp_path / 'f_grpo'}" in capsys.readouterr().out


@pytest.mark.parametrize("paper", ["no_paper", "no paper"])
def test_a_paper_that_is_none_is_refused(paper, tmp_path):
    with refuses("paper", paper):
        figures.main([f"paper={paper}", f"results_dir={tmp_path}"])


@pytest.mark.parametrize("paper", papers())
def test_figures_of_cluster_rows_are_of_methods_and_tables_that_there_are(paper):
    spec, home = spec_of(paper), ROOT / "papers" / paper
    printed = published(home / "published")
    scales = strict(Reproduce, compose(paper, [], "reproduce")).scales.values()
    swept = {sweep.table for scale in scales for sweep in scale.sweeps}
    for plot in spec.figures.values():
        assert set(plot.methods) <= labels(home) | set(printed["method"])
        assert set(plot.tables) <= (set(printed["table"]) if plot.cells else swept)
        assert plot.start in {"", *labels(home)}
        for panel in plot.cells:
            assert panel.benchmark in set(printed["benchmark"])
    assert all(callable(import_target(one, "own_figures")) for one in spec.own_figures.values())


def test_a_comparison_that_draws_nothing_does_without_matplotlib(tmp_path):
    cluster_run(tmp_path, "GRPO", 1, dict.fromkeys(MATH, 0.37))
    program = (
        "import sys\n"
        "from common.comparison import compare\n"
        "load = compare.load\n"
        "compare.load = lambda path: load(path)[:5]  # a comparison takes the time of its claims\n"
        f"compare.main(['paper=f_grpo', 'results_dir={tmp_path}'])\n"
        "print('matplotlib' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "is not drawn" in (tmp_path / "f_grpo" / "comparison.md").read_text()
    assert done.stdout.endswith("False\n")
