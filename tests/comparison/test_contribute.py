"""A real run goes through `rlvr contribute` and back; what was made up or damaged is named."""

import json
import shutil
from dataclasses import replace

import pandas as pd
import pytest
from refuses import refuses, refuses_file
from tiny import TINY

from common.backends.local import train
from common.comparison import checked_run, contribute, contributed
from common.comparison.checked_run import checked
from common.errors import UserError
from common.evaluation.run import evaluate
from common.experiment import load
from common.report import page, readme
from common.results.collect import verify
from common.results.files import read_jsonl, sha256, write_csv, write_jsonl_gz
from common.sweeps.plan import Sweep, evaluations_of
from rlvr_papers.__main__ import call

ROW, TABLE, LABEL = "f_grpo_gamma1", "laptop_strong", "F-GRPO (N=8, gamma=1)"


@pytest.fixture(scope="module")
def whole(pretrained, tmp_path_factory):
    """Two seeds of one row, trained; an evaluation of the first."""
    root = tmp_path_factory.mktemp("whole")
    (root / "models").symlink_to(pretrained / "models")
    words = [*TINY, f"experiment={ROW}", f"results_dir={root}", "optim.steps=3"]
    rows = [load([*words, f"seed={seed}"], "f_grpo") for seed in (1, 2)]
    natural = ["eval=countdown_natural", "eval.prompts.size=6", "max_tokens=20"]
    sweep = Sweep("t", [], [], [], benchmarks={"Natural": natural}, n=8)
    made = [train(x, progress=False) for x in rows]
    return [*made, evaluate(evaluations_of(rows[:1], sweep)[0])]


@pytest.fixture
def runs(whole, tmp_path, monkeypatch):
    """Copies of the trainings, whose configuration a sweep of the paper has."""

    def planned(paper, run_ids):
        words = [*TINY, f"experiment={ROW}", "optim.steps=3", f"table={TABLE}"]
        rows = (load([*words, f"seed={seed}"], paper) for seed in (1, 2))
        return {x.run_id: replace(x, label=LABEL) for x in rows if x.run_id in run_ids}

    monkeypatch.setattr(checked_run, "planned", planned)
    return [shutil.copytree(run, tmp_path / "f_grpo" / run.name) for run in whole][:2]


def seal(run):
    """The marker of a run that was changed, as somebody who makes up a run would write it."""
    names = json.loads((run / "DONE").read_text())
    hashes = {name: sha256((run / name).read_bytes()) for name in names}
    (run / "DONE").write_text(json.dumps(hashes))


def stored(reference, own):
    """A committed row: each own value moved by some points."""
    rows = pd.concat([own.assign(seed=seed, value=own["value"] + seed) for seed in (1, 2, 3)])
    write_csv(reference / "f_grpo" / "laptop" / "metrics.csv.gz", rows)


def test_a_run_goes_there_and_back(runs, tmp_path, capsys):
    into = tmp_path / "contributed"
    call(["contribute", *map(str, runs), "name=A.Person", f"into={into}"])
    folder = into / "f_grpo" / ROW / "A.Person"
    assert f"{folder}\n" in capsys.readouterr().out
    about = json.loads((folder / "contribution.json").read_text())
    assert about["hardware"].startswith("CPU ")
    assert about["hours"] >= 0
    assert about["rescored"] == about["samples"] == 2 * 2 * 6 * 8
    kept = read_jsonl(folder / "samples.jsonl.gz")
    assert {(one["run_id"], one["benchmark"]) for one in kept} == {
        (run.name, benchmark) for run in runs for benchmark in ("natural", "rare")
    }
    counts = pd.read_csv(folder / "counts.csv.gz")
    assert set(counts["table"]) == {TABLE}
    assert set(counts["seed"]) == {1, 2}
    assert str(tmp_path) not in "".join(
        (folder / name).read_text() for name in ("contribution.json", "runs.csv", "metrics.csv")
    )
    own = pd.read_csv(folder / "metrics.csv")
    assert set(own["method"]) == {LABEL}
    stored(tmp_path / "reference", own)
    found, left_out = contributed.compared(into, tmp_path / "reference")
    assert left_out == []
    row = found[(found["benchmark"] == "rare") & (found["metric"] == "pass@8")].iloc[0]
    last = own[(own["benchmark"] == "rare") & (own["metric"] == "pass@8") & (own["step"] == 3)]
    assert row["own"] == pytest.approx(last["value"].mean())
    assert (row["n_own"], row["n_stored"], row["names"]) == (2, 6, 1)
    assert row["stored"] == pytest.approx(row["own"] + 2)
    assert row["verdict"] in ("replicates", "differs")
    assert set(found["metric"]) == {"pass@1", "pass@8"}


def test_two_contributions_of_a_row_show_their_spread(runs, tmp_path):
    into = tmp_path / "contributed"
    for name, run in zip(("one", "two"), runs, strict=True):
        contribute.contribute([run], into, name=name)
    found, _ = contributed.compared(into, tmp_path / "reference")
    pair = found[(found["benchmark"] == "natural") & (found["metric"] == "pass@8")]
    assert list(pair["names"]) == [2, 2]
    assert set(pair["lowest"]) == {pair["own"].min()}
    assert set(pair["highest"]) == {pair["own"].max()}
    assert set(pair["verdict"]) == {""}  # no committed row
    text = contributed.markdown(found)
    assert f"{pair['own'].min():.1f} to {pair['own'].max():.1f}" in text
    written = readme.contributed_rows(into, tmp_path / "reference")
    assert text in written
    assert readme.contributed_rows(tmp_path / "none", tmp_path / "reference") == ""
    html, _ = page.render([], [], [], tmp_path, contributed.lines(found))
    assert 'id="others"' in html
    assert f"{pair['own'].min():.1f} to {pair['own'].max():.1f}" in html
    assert 'id="others"' not in page.render([], [], [], tmp_path)[0]
    with refuses("name", "one"):
        contribute.contribute([runs[1]], into, name="one")
    damaged = into / "f_grpo" / ROW / "two" / "metrics.csv"
    damaged.write_text(damaged.read_text().replace("natural", "unnatural"))
    found, left_out = contributed.compared(into, tmp_path / "reference")
    assert set(found["name"]) == {"one"}
    assert str(damaged.parent) in left_out[0]


def more_right(run):
    """Made up: every wrong response to rare problems counts as right."""
    path = run / "samples" / "rare.jsonl.gz"
    write_jsonl_gz(path, [row | {"outcome": "correct"} for row in read_jsonl(path)])
    return "eval"


def all_of_it(run):
    """Made up: as above, with counts and metrics that follow from it."""
    more_right(run)
    rows = pd.read_csv(run / "metrics.csv")
    at = (rows["benchmark"] == "rare") & (rows["step"] == 3)
    rows.loc[at & rows["metric"].str.match("pass@"), "value"] = 100.0
    rows = rows[~at | rows["metric"].str.match("pass@")]
    rows.to_csv(run / "metrics.csv", index=False)
    counts = pd.read_csv(run / "eval" / "step-00003-counts.csv")
    counts.loc[counts["benchmark"] == "rare", "c"] = 8
    counts.to_csv(run / "eval" / "step-00003-counts.csv", index=False)
    return "outcome"


def better(run):
    path = run / "metrics.csv"
    rows = pd.read_csv(path)
    rows.loc[rows["metric"] == "pass@1", "value"] += 1
    rows.to_csv(path, index=False)
    return "metrics.csv"


def fewer(run):
    path = run / "samples" / "natural.jsonl.gz"
    write_jsonl_gz(path, read_jsonl(path)[:-1])
    return "samples a problem"


def another(run):
    """Made up: the folder of seed 2 says that it is seed 1, whose configuration a sweep has."""
    path = run / "config.yaml"
    path.write_text(path.read_text().replace("\nseed: 2\n", "\nseed: 1\n"))
    return "config.yaml is that of another run"


def nameless(run):
    meta = json.loads((run / "meta.json").read_text())
    (run / "meta.json").write_text(json.dumps(meta | {"packages": {}}))
    return "packages"


def stepless(run):
    path = run / "metrics.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    return "metrics.jsonl"


@pytest.mark.parametrize(
    "made_up", [more_right, all_of_it, better, fewer, another, nameless, stepless]
)
def test_a_made_up_run_is_refused_by_name(runs, tmp_path, made_up):
    run, into = runs[1], tmp_path / "contributed"
    named = made_up(run)
    for sealed in (False, True):  # a changed file is seen by its hash
        if sealed:
            seal(run)
            assert verify(run) == []
        with pytest.raises(UserError, match=named if sealed else "was changed") as said:
            contribute.contribute([run], into, name="x")
        assert str(run) in str(said.value)
    assert not into.exists()


def test_an_evaluation_goes_with_its_training(runs, whole, tmp_path):
    run, into = tmp_path / "f_grpo" / whole[2].name, tmp_path / "contributed"
    (folder,) = contribute.contribute([runs[0], run], into, name="x")
    assert folder == into / "f_grpo" / ROW / "x"
    rows = pd.read_csv(folder / "metrics.csv")
    assert set(rows["benchmark"]) == {"natural", "rare", "Natural"}
    assert set(rows.loc[rows["benchmark"] == "Natural", "run_id"]) == {run.name}
    path = next((run / "samples").glob("*"))
    write_jsonl_gz(path, [row | {"outcome": "correct"} for row in read_jsonl(path)])
    seal(run)
    with refuses_file(run / "eval"):
        checked(run)
    (run / "config.yaml").write_text("label: x\neval: {}\n")
    seal(run)
    with refuses("run", run):
        checked(run)


def test_an_unfinished_run_one_of_no_row_and_a_seed_twice_are_refused(runs, tmp_path, monkeypatch):
    with refuses("seed", "[1]"):
        contribute.contribute([runs[0], runs[0]], tmp_path / "into", name="x")
    (runs[0] / "notes.txt").write_text("of the user's own")  # no file of the run: left alone
    with refuses("name", "../x"):
        call(["contribute", str(runs[0]), "name=../x"])
    meta = json.loads((runs[0] / "meta.json").read_text())
    del meta["gpus"]  # of a run before runs said it
    (runs[0] / "meta.json").write_text(json.dumps(meta))
    seal(runs[0])
    with refuses("hardware", ""):
        contribute.contribute([runs[0]], tmp_path / "into", name="x")
    monkeypatch.setattr(checked_run, "planned", lambda paper, ids: {})
    with refuses("run", runs[0]):
        checked(runs[0])
    (runs[0] / "DONE").unlink()
    with refuses_file(runs[0]):
        checked(runs[0])
