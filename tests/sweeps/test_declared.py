"""The queue of a declared study, and what the repository keeps of it."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from refuses import refuses, refuses_file
from safetensors.torch import load_file, save_file
from tiny import TINY

from common.claims.select import PER_PROBLEM
from common.comparison.gather import gather
from common.models import store
from common.models.load import load_model
from common.models.store import folder
from common.results.files import sha256_of
from common.results.kept import COUNTED, files, lines_of, unpacked
from common.results.run import Run
from common.sweeps import declared
from common.sweeps.chosen import with_method
from common.sweeps.plan import Scale, Sweep, experiments, scales_of
from common.sweeps.reproduce import done
from common.sweeps.reproduce import train as train_run

SMALL = [word for word in TINY if "pretrain.seed" not in word]
SMALL += [
    "paper=confirmatory",
    *(f"data.benchmarks.{name}.size=3" for name in ("natural", "rare", "dev_natural", "dev_rare")),
]
SMALL += ["model.pretrain.demonstrations=256", "eval.batch=512", "eval.rare_nll_samples=0"]
SMALL += ["eval.n=64", "eval.k=[1,64]", "eval.curve_n=8", "eval.also_at=[1]", "eval.full_at=[4]"]
ROWS = {"A": ["grpo"], "B": ["iac"]}


def study(root: Path, *seeds: int):
    """A study of two rows in two parts, as small as possible."""
    base = [Sweep("base", ["base"], [*seeds], SMALL, part="A")]
    rest = [Sweep("lr 1e-5", rows, [*seeds], SMALL, part=part) for part, rows in ROWS.items()]
    config = scales_of("study", f"results_dir={root}")
    return replace(config, scales={"small": Scale({}, base + rest)}, scale="small")


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """Trains a run in this process; once: a run with the same base model is copied."""
    home = tmp_path_factory.mktemp("trained")

    def once(x):
        load_model(x.model, Path(x.results_dir), "cpu")  # made if it is missing
        base = Path(folder(x.model, Path(x.results_dir)))
        before = home / sha256_of(base / "model.safetensors") / x.run_id
        if not before.exists():
            train_run(x)
            shutil.copytree(x.path, before)
        shutil.copytree(before, x.path, dirs_exist_ok=True)

    return once


@pytest.fixture
def trained(monkeypatch, tmp_path, train):
    """The runs that the queue has trained, in order. The repository's results are an empty
    folder."""
    names = []

    def one_by_one(runs, workers):
        assert workers == os.cpu_count()
        for x in runs:
            if not done(x):
                train(x)
                names.append(x.run_id.rpartition("-")[0])

    monkeypatch.setattr(declared, "train_all", one_by_one)
    for module in (declared, store):
        monkeypatch.setattr(module, "REFERENCE", tmp_path / "reference")
    monkeypatch.setattr(os, "nice", lambda by: names.append(f"nice {by}"))
    return names


def other_base(of: Path, root: Path) -> None:
    """The base models of a results folder with a weight changed, as another machine makes them."""
    shutil.copytree(of / "models", root / "models")
    for path in (root / "models").glob("*/model.safetensors"):
        weights = load_file(path)
        next(iter(weights.values())).flatten()[0] += 1e-3
        save_file(weights, path, metadata={"format": "pt"})


@pytest.mark.trains
def test_a_second_clone_goes_on_where_the_kept_runs_end(trained, train, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    first = study(here, 10, 11)
    train(declared.parts(first)["A"][0])  # the base model of seed 10
    assert [path.name for path in declared.keep(first)] == ["A-s10.csv.gz"]
    assert declared.keep(first) == []  # nothing is new
    declared.queue(study(there, 10, 11))
    rest = ["grpo-s10", "base-s11", "grpo-s11", "iac-s10", "iac-s11"]
    assert trained == ["nice 19", *rest]
    assert len([*(there / "models").iterdir()]) == 1  # that of seed 11
    before = (tmp_path / "reference/confirmatory/A-s10.csv.gz").read_bytes()
    kept = declared.keep(study(there, 10, 11))
    names = ["A-s10-2.csv.gz", "A-s11.csv.gz", "B-s10.csv.gz", "B-s11.csv.gz"]
    assert [path.name for path in kept] == names
    assert (tmp_path / "reference/confirmatory/A-s10.csv.gz").read_bytes() == before
    bases = [tmp_path / "reference", there, here]
    assert [len([*(home / "models").iterdir()]) for home in bases] == [2, 1, 1]
    assert "A 4 of 4, B 2 of 2; the rest takes about 0.0 hours" in declared.progress(first)
    trained.clear()
    declared.queue(study(tmp_path / "third", 10, 11))
    assert trained == ["nice 19"]  # all is kept


@pytest.mark.trains
def test_a_seed_with_another_base_model_starts_again(trained, train, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    runs = declared.parts(study(here, 10, 11))["A"][:3]  # both rows of seed 10, one of seed 11
    for x in runs:
        train(x)
    declared.keep(study(here, 10, 11))
    other_base(here, there)
    declared.queue(study(there, 10))
    assert trained == ["nice 19", "base-s10", "grpo-s10", "iac-s10"]
    home = tmp_path / "reference" / "confirmatory"
    before = (home / "A-s10.csv.gz").read_bytes()
    declared.keep(study(there, 10))
    assert (home / "A-s10.csv.gz").read_bytes() == before  # an entry stands beside what is kept
    kept = pd.concat(map(lines_of, files(home, 10))).groupby("base")["method"].agg(set)
    weights = [Path(folder(runs[0].model, root)) / "model.safetensors" for root in (here, there)]
    ours, theirs = (kept[sha256_of(path)] for path in weights)
    assert (ours, theirs) == ({"base", "GRPO"}, {"base", "GRPO", "IAC"})
    assert declared.keep(study(there, 10)) == []


def test_a_half_copied_base_model_is_not_taken(monkeypatch, tmp_path):
    monkeypatch.setattr(store, "REFERENCE", tmp_path / "reference")
    model = declared.parts(study(tmp_path, 10))["A"][0].model
    kept = tmp_path / "reference" / "models" / store.identity(model)
    kept.mkdir(parents=True)
    assert folder(model, tmp_path) == str(tmp_path / "models" / kept.name)
    (kept / "DONE").touch()
    assert folder(model, tmp_path) == str(kept)


def test_no_run_waits_for_a_base_model_that_is_there(monkeypatch, tmp_path):
    tasks = []
    monkeypatch.setattr("common.sweeps.reproduce.run_all", lambda some, workers: tasks.append(some))
    monkeypatch.setattr(declared, "REFERENCE", tmp_path / "reference")
    monkeypatch.setattr(os, "nice", lambda by: None)
    config = study(tmp_path, 10, 11)
    base, grpo, other, rest = declared.parts(config)["A"]
    Run(tmp_path, base.paper, base.run_id, {"optim": {"steps": 0}}).finish()
    declared.queue(config)
    waits = {task.key: task.needs for task in tasks[0]}
    assert waits == {grpo.run_id: (), other.run_id: (), rest.run_id: (other.run_id,)}


@pytest.mark.trains
def test_kept_runs_give_the_rows_and_counts_of_their_folders(trained, tmp_path):
    config = study(tmp_path / "here", 10)
    declared.queue(config)
    declared.keep(config)
    home = tmp_path / "reference" / "confirmatory"
    rows, counts = unpacked(home, pd.concat(map(lines_of, files(home)), ignore_index=True))
    own = gather(tmp_path / "here", "confirmatory").scopes["laptop"]
    key = [*PER_PROBLEM[:7]]
    same = [
        x.reindex(columns=PER_PROBLEM).sort_values(key, ignore_index=True)
        for x in (counts, own.counts)
    ]
    pd.testing.assert_frame_equal(*same, check_dtype=False)
    assert set(counts["step"]) == {0, 1, 3, 4, 6}
    assert set(counts.loc[counts["step"].isin([0, 4, 6]), "n"]) == {64}
    assert set(counts.loc[counts["step"].isin([1, 3]), "n"]) == {8}
    names = ["run_id", "step", "benchmark", "metric", "value"]
    drawn = own.rows[~own.rows["metric"].str.startswith(COUNTED)]
    same = [x[names].sort_values(names[:4], ignore_index=True) for x in (rows, drawn)]
    pd.testing.assert_frame_equal(*same)
    assert {"token_entropy", "kl_from_start", "active_groups"} <= set(rows["metric"])


@pytest.mark.trains
def test_a_method_of_ones_own_is_compared_with_what_is_kept(trained, tmp_path):
    declared.queue(study(tmp_path / "here", 10))
    config = study(tmp_path / "there", 10)
    base, grpo, iac = [x for runs in declared.parts(config).values() for x in runs]
    short = replace(grpo, optim=replace(grpo.optim, steps=4))
    assert not declared.is_kept(short)
    declared.keep(study(tmp_path / "here", 10))
    assert all(map(declared.is_kept, (base, short, iac)))
    counts = declared.kept_counts([base, short])
    assert set(counts["method"]) == {"base", "GRPO"}
    assert set(counts["step"]) == {0, 1, 3, 4}  # the kept run has 6 steps
    other_base(tmp_path / "reference", tmp_path / "there")
    assert not declared.is_kept(short)
    assert declared.kept_counts([base, short]).empty


@pytest.mark.trains
def test_runs_on_other_problems_are_not_kept_together(trained, train, tmp_path):
    first = study(tmp_path / "here", 10)
    train(declared.parts(first)["A"][0])
    declared.keep(first)
    other = [
        replace(one, overrides=[*one.overrides, "data.benchmarks.rare.size=7"])
        for one in first.sweeps
    ]
    second = replace(study(tmp_path / "there", 11), scales={"small": Scale({}, other)})
    train(declared.parts(second)["A"][0])
    with refuses(str(tmp_path / "reference/confirmatory/problems.csv"), "problems"):
        declared.keep(second)


def test_parts_run_seed_by_seed_and_the_base_model_first():
    config = scales_of("study", "scale=confirmatory")
    parts = declared.parts(config)
    assert list(parts) == ["A", "D", "B", "C"]
    seeds = {name: [x.seed for x in runs] for name, runs in parts.items()}
    assert all(found == sorted(found) for found in seeds.values())
    counts = {name: {found.count(seed) for seed in found} for name, found in seeds.items()}
    assert counts == {"A": {8}, "D": {8}, "B": {10}, "C": {62}}
    assert {name: (min(x), max(x)) for name, x in seeds.items()} == {
        "A": (10, 18), "D": (10, 18), "B": (10, 18), "C": (10, 14),
    }  # fmt: skip
    assert all(runs[0].optim.steps == 0 for runs in (parts["A"], parts["D"]))
    assert len({x.run_id for runs in parts.values() for x in runs}) == 544


def test_only_a_declared_study_is_kept():
    with refuses("scale", "countdown"):
        declared.main(["scale=countdown"])


def test_a_damaged_run_is_not_kept(trained, tmp_path, monkeypatch):
    config = study(tmp_path / "here", 10)
    x = declared.parts(config)["A"][0]
    Run(tmp_path / "here", x.paper, x.run_id, {"optim": {"steps": 0}}).finish()
    (tmp_path / "here" / x.paper / x.run_id / "config.yaml").write_text("changed: 1\n")
    monkeypatch.setattr(declared, "_base", lambda x: "0")
    with refuses_file(tmp_path / "here" / x.paper / x.run_id / "config.yaml"):
        declared.keep(config)


def test_a_method_of_ones_own_runs_next_to_the_studys_own_runs(tmp_path):
    """GRPO at both rates and the base models are the confirmatory study's, so kept ones count."""
    (tmp_path / "mine.yaml").write_text("defaults: [ips_grpo, _self_]\nname: mine\n")
    config = with_method(scales_of("study", "scale=own"), str(tmp_path / "mine.yaml"))
    found = {(x.table, x.label, x.seed): x for x in experiments(config)}
    assert {seed for _, _, seed in found} == {12, 13, 14, 15, 16}
    assert {(table, label) for table, label, _ in found} == {
        *(("base", "base"), ("lr 3e-6", "GRPO"), ("lr 1e-5", "GRPO"), ("lr 1e-5", "mine"))
    }
    mine = found["lr 1e-5", "mine", 12]
    assert (mine.name, mine.optim.steps) == ("mine", 1200)
    assert mine.method.advantage["_target_"].endswith("inverse_probability")
    declared_runs = {x.run_id for x in experiments(scales_of("study", "scale=confirmatory"))}
    assert {x.run_id for x in found.values() if x.label != "mine"} <= declared_runs
    assert mine.run_id not in declared_runs
