"""The one matrix: every row, scale and part of every paper composes and fits. tests/cluster has
what verl makes of the rows, and the papers' own tests look at what only they say."""

from inspect import signature
from pathlib import Path

import pytest
from compositions import EXPERIMENTS, PAPERS, SCALES, asked, composed, experiment, runs
from tiny import ROOT

from common.backends.verl import config as verl
from common.config.compose import compose
from common.config.files import read
from common.config.resolve import import_target
from common.config.words import pairs
from common.sweeps.assumptions import assumptions
from common.sweeps.plan import STUDY

CLUSTER = [(paper, name) for paper, name in EXPERIMENTS if name.startswith("cluster/")]
PLACE = verl.Place("cuda", 1, 8, None, Path("work"), "model")
IFEVAL = "common.verifiers.ifeval.verify"
NEEDED = ("lm_eval", "langdetect", "immutabledict", "nltk")  # of `lm-eval[ifeval]`


@pytest.mark.parametrize(("paper", "name"), EXPERIMENTS)
def test_every_row_composes_and_fits(paper, name):
    x = experiment(name, paper)
    testbed = name.partition("/")[0]
    folder = f"study_{testbed}" if testbed in ("maze", "ladder") else paper
    assert (x.paper, x.name) == (folder, name.rpartition("/")[2])  # the run folder is the file's


@pytest.mark.sweep
@pytest.mark.parametrize(("paper", "name"), CLUSTER)
def test_a_row_would_not_end_only_on_the_cluster(paper, name):
    """Mistakes that no smaller run meets: a context that is overrun, a store that is too small."""
    x, a = experiment(name, paper), assumptions()
    context, longest = a.models[x.model.path].context, a.prompts(x.data.name).longest
    keys = verl.settings(x, PLACE, longest, context, {})
    # vLLM reads no more tokens than the model
    asked_for = keys["data.max_prompt_length"] + max(x.sampling.max_tokens, x.eval.max_tokens)
    assert keys["actor_rollout_ref.rollout.max_model_len"] == min(asked_for, context)
    assert keys["data.max_prompt_length"] < context
    # verl's store has no cap on samples, and the row saves by the clock
    assert keys["transfer_queue.backend.SimpleStorage.total_storage_size"] is None
    assert keys["trainer.save_freq"] is None


def test_the_package_that_ifeval_needs_is_pinned_on_the_cluster():
    """F-GRPO's IFEval needs packages that no other verifier needs; slurm/preflight.py refuses an
    evaluation without them (tests/slurm/test_cost.py)."""
    files = [read(file) for file in (ROOT / "configs" / "eval").glob("*.yaml")]
    assert [one["verifier"]["_target_"] for one in files].count(IFEVAL) == 1
    for file in ROOT.glob("constraints-cluster-*.txt"):
        pinned = {line.partition("==")[0] for line in file.read_text().splitlines()}
        assert {*NEEDED} <= pinned


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
    folders = {
        "confirmatory": {"confirmatory", "confirmatory_maze"},  # one scale for both testbeds
        "own": {"confirmatory"},  # its GRPO is that of the confirmatory study
    }
    assert {x.paper for x in found} == folders.get(scale, {folder})
    # smoke results are kept apart
    assert {x.results_dir for x in found} == {
        "results/smoke" if scale.endswith("smoke") else "results"
    }
    if of_study and paper != STUDY:
        assert {x.scope for x in found} == {"laptop"}


@pytest.mark.parametrize("paper", PAPERS)
def test_every_part_is_a_function_that_some_scale_runs(paper):
    config = asked(paper)
    for name, part in config.parts.items():
        function = import_target(part.run, name)
        stated = [s.parts[name] for s in config.scales.values() if name in s.parts]
        assert stated, name
        for words in stated:  # as `compute` calls it
            if not (ROOT / "papers" / paper / "configs" / f"{name}.yaml").exists():
                signature(function).bind(Path(), **pairs(words))
                continue
            node = compose(paper, [*words], name)
            if "experiment" in node:  # its own overrides are of this
                x = composed((f"experiment={node['experiment']}", *node["overrides"]), paper)
                assert x.paper == paper
