"""`rlvr figures`: what it draws, and what it refuses."""

import shutil

import pytest
from refuses import refuses

from common.comparison import figures
from common.config.files import ROOT

STORED = ROOT / "results" / "reference"


def test_figures_say_where_they_are_and_refuse_a_folder_without_results(tmp_path, capsys):
    with refuses("results_dir", tmp_path):
        figures.main(["paper=f_grpo", f"results_dir={tmp_path}"])
    shutil.copytree(STORED / "f_grpo" / "simulation", tmp_path / "f_grpo" / "simulation")
    (tmp_path / "f_grpo" / "simulation" / "elsewhere.png").touch()  # as in papers/pretrained
    figures.main(["paper=f_grpo", f"results_dir={tmp_path}"])
    pictures = len(list((tmp_path / "f_grpo").rglob("*.png")))
    assert pictures > 1
    assert f"{pictures} below {tmp_path / 'f_grpo'}" in capsys.readouterr().out


@pytest.mark.parametrize("paper", ["no_paper", "no paper"])
def test_a_paper_that_is_none_is_refused(paper, tmp_path):
    with refuses("paper", paper):
        figures.main([f"paper={paper}", f"results_dir={tmp_path}"])
