"""What `rlvr runs` lists of a results folder."""

import json

import pandas as pd
import pytest
from refuses import refuses

from common.report.runs import main, runs
from common.results.files import sha256_of, write
from common.results.run import lock

ROWS = (
    "benchmark,metric,step,value\nb,pass@1,3,10\nb,pass@1,6,25\nb,pass@2,6,40\nc,pass@1,6,50.04\n"
)


@pytest.fixture
def results(tmp_path):
    for name in ("begun", "halfway", "done"):
        write(tmp_path / "fade" / name / "config.yaml", "optim: {steps: 6}\n")
    log = "".join(json.dumps({"step": step, "reward": step / 10}) + "\n" for step in (1, 2, 3))
    write(tmp_path / "fade" / "halfway" / "metrics.jsonl", log + '{"step": 4')  # cut off by a kill
    write(tmp_path / "fade" / "done" / "metrics.csv", ROWS)
    write(tmp_path / "fade" / "done" / "DONE", "{}")
    write(tmp_path / "fade" / "drawn" / "config.yaml", "n: 4\n")  # an evaluation
    write(tmp_path / "fade" / "figures" / "curve.csv", "x\n")
    return tmp_path


def test_every_run_is_listed_with_how_far_it_is_and_its_accuracy(results, capsys):
    assert runs(results) == [
        ("fade/begun", "stopped, step 0 of 6", ""),
        ("fade/done", "done", "b 25.0, c 50.0"),
        ("fade/drawn", "stopped, unfinished", ""),
        ("fade/halfway", "stopped, step 3 of 6", ""),
    ]
    with open(results / "fade" / "halfway" / ".lock", "w") as file:
        assert lock(file, seconds=0)  # a process writes it
        assert runs(results)[3] == ("fade/halfway", "step 3 of 6", "")
    assert runs(results)[3][1].startswith("stopped")
    main([f"results_dir={results}"])
    assert capsys.readouterr().out.splitlines()[2].split() == [
        "fade/done",
        "done",
        *["b", "25.0,", "c", "50.0"],
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("metrics.csv", b""),
        ("metrics.csv", ROWS.replace("25", "95").encode()),
        ("metrics.csv", b"\0" * 80),
        ("metrics.csv", b"\xff"),
        ("metrics.csv", ROWS[:60].encode()),
        ("DONE", b'{"metrics'),
        ("config.yaml", None),
        ("config.yaml", b"- 1\n"),
    ],
)
def test_a_damaged_run_is_listed_as_such_and_hides_no_other(results, name, text):
    done, others = results / "fade" / "done", runs(results)[2:]
    hashes = {name: sha256_of(done / name) for name in ("metrics.csv", "config.yaml")}
    write(done / "DONE", json.dumps(hashes))
    write(done / name, text) if text is not None else (done / name).unlink()
    assert runs(results)[1:] == [("fade/done", "damaged", ""), *others]
    write(results / "fade" / "begun" / "config.yaml", "[]")
    assert runs(results)[0] == ("fade/begun", "damaged", "")


def test_the_curves_of_all_runs_are_drawn(results):
    main([f"results_dir={results}", f"curves={results / 'curves'}"])
    drawn = pd.read_csv(results / "curves.csv")
    assert set(zip(drawn["run"], drawn["step"], strict=True)) == {
        ("fade/halfway", step) for step in (1, 2, 3)
    }
    assert drawn["reward"].tolist() == [0.1, 0.2, 0.3]
    assert (results / "curves.png").exists()


def test_a_folder_without_runs_is_refused(tmp_path):
    with refuses("results_dir", tmp_path):
        main([f"results_dir={tmp_path}"])
