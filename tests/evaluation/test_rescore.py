import pandas as pd
import pytest
from refuses import refuses

from common.comparison import difference
from common.evaluation.rescore import main as rescore
from common.evaluation.store import stored
from common.models import load
from common.results.collect import verify


def test_scoring_again_needs_no_model_and_says_what_changed(finished, lenient, monkeypatch, capsys):
    monkeypatch.setattr(load, "load_model", None)
    target = f"eval.verifier._target_={lenient}"
    run = rescore([f"run={finished}", target, "workers=1"])
    assert run != finished
    assert verify(run) == verify(finished) == []
    before, after = stored(finished), stored(run)
    assert not any("response" in pd.read_json(file, lines=True) for file in run.glob("samples/*"))
    texts = pd.concat(pd.read_json(file, lines=True) for file in sorted(finished.glob("samples/*")))
    key = ["problem_id", "sample"]
    assert after[key].equals(before[key])
    right = texts["response"].str.endswith("}").reset_index(drop=True)
    assert (after["outcome"] == right.map({True: "correct", False: "wrong"})).all()
    differ = int((after["outcome"] != before["outcome"]).sum())
    assert differ > 5
    out = capsys.readouterr().out
    assert f"{differ} of 48 " in out
    assert f"wrong -> correct: {((before['outcome'] == 'wrong') & right).sum()}" in out
    table = pd.read_csv(run / "changes.csv")
    assert len(table) == differ
    assert (table["before"] != table["after"]).all()
    assert pd.read_csv(run / "counts.csv")["c"].sum() == right.sum()
    assert lenient in (run / "config.yaml").read_text()
    assert rescore([f"run={finished}", target]) == run  # found
    other = rescore([f"run={finished}", target, "eval.verifier.ending=x"])
    assert other != run
    assert pd.read_csv(other / "counts.csv")["c"].sum() == 0
    with refuses("run", run):
        rescore([f"run={run}"])
    difference.main([str(finished), str(run)])
    said = capsys.readouterr().out
    assert f"{differ} of 48 verdicts differ" in said
    assert "samples     8 and 8 a problem, the same\n" in said


def test_scoring_again_the_same_way_changes_nothing(finished):
    run = rescore([f"run={finished}"])
    assert pd.read_csv(run / "changes.csv").empty
    assert (run / "counts.csv").read_bytes() == (finished / "counts.csv").read_bytes()


@pytest.mark.parametrize(
    "word",
    [
        *("eval.verifier.convention=boxed", "eval.prompts.size=3", "eval.verifier.ending=["),
        "run=nowhere",
    ],
)
def test_scoring_again_refuses(finished, word):
    with refuses(*word.split("=")):
        rescore([f"run={finished}", word])
