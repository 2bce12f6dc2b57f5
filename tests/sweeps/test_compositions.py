"""The one matrix: every experiment, scale and part of every paper composes and fits. The papers'
own tests look at what only they say."""

import pytest
from compositions import EXPERIMENTS, PAPERS, SCALES, composed, experiment, runs
from tiny import ROOT

from common.config.compose import compose
from common.sweeps.plan import STUDY


@pytest.mark.parametrize(("paper", "name"), EXPERIMENTS)
def test_every_experiment_composes_and_fits(paper, name):
    x = experiment(name, paper)
    testbed = name.partition("/")[0]
    folder = f"study_{testbed}" if testbed in ("maze", "ladder") else paper
    assert (x.paper, x.name) == (folder, name.rpartition("/")[2])  # the run folder is the file's
    assert x.sampling.prompts % x.optim.mini_batches == 0
    assert max(x.eval.k) <= x.eval.n
    assert x.label != "???"


@pytest.mark.sweep
def test_rows_can_be_told_apart():
    rows = [experiment(name, paper) for paper, name in EXPERIMENTS]
    assert len(rows) >= 130
    label, name, run_id = (
        lambda x: (x.paper, x.model.name, x.label),
        lambda x: (x.paper, x.name),
        lambda x: x.run_id,
    )
    for what in (label, name, run_id):
        assert len({what(x) for x in rows}) == len(rows)
    laptop = [x for x, (_, name) in zip(rows, EXPERIMENTS, strict=True) if "/" not in name]
    assert len({(x.paper, x.label) for x in laptop}) == len(laptop)  # whatever the model's name


@pytest.mark.sweep
@pytest.mark.parametrize(("paper", "scale"), SCALES)
def test_every_scale_names_runs_that_exist_and_differ(paper, scale):
    found = runs(paper, scale)
    # the model that the others start from; nothing is claimed of the tiny jobs
    assert any(x.optim.steps == 0 for x in found) or scale == "jobs_smoke"
    names = [x.run_id for x in found]
    assert len(set(names)) == len(names)
    of_study = scale in ("smoke", "laptop", "full")
    testbed = scale.partition("_")[0]
    folder = f"study_{testbed}" if testbed in ("maze", "ladder") else STUDY if of_study else paper
    both = {scale, f"{scale}_maze"}  # one scale for both testbeds
    assert {x.paper for x in found} == (both if scale == "confirmatory" else {folder})


@pytest.mark.parametrize("paper", PAPERS)
def test_every_part_of_every_scale_composes(paper):
    for planned in compose(paper, [], "reproduce")["scales"].values():
        for part, words in planned["parts"].items():
            if not (ROOT / "papers" / paper / "configs" / f"{part}.yaml").exists():
                continue  # it takes the results folder
            node = compose(paper, [*words], part)
            if "experiment" in node:  # its own overrides are of this
                x = composed((f"experiment={node['experiment']}", *node["overrides"]), paper)
                assert x.paper == paper
