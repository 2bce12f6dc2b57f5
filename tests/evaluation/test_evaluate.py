import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml
from evaluations import SMALL, made, samples_of
from interrupted import Stopped, interrupted
from processes import FORK
from refuses import refuses, refuses_file

from common.errors import UserError
from common.evaluation import command, engines
from common.evaluation import run as store
from common.evaluation.run import evaluate, evaluate_all
from common.evaluation.samples import COLUMNS
from common.evaluation.store import problems
from common.results.collect import verify
from common.results.columns import COLUMNS as RESULT_COLUMNS
from common.results.files import read_csv, read_jsonl
from common.verifiers import countdown


def test_a_response_is_judged_and_kept_up_to_a_stop(finished, results):
    run = evaluate(made(results, 'stop=["+","} "]'))
    assert run.name != finished.name
    before, after = (pd.DataFrame(samples_of(one)) for one in (finished, run))
    cut = before["response"].str.contains("+", regex=False)
    assert 5 < cut.sum() < len(cut)
    assert after["response"].tolist() == [one.partition("+")[0] for one in before["response"]]
    assert (after["stopped"] == before["stopped"] | cut).all()
    assert (after["outcome"][cut] != "correct").all()
    assert after["ids"].tolist() == before["ids"].tolist()
    with refuses("stop.0", ""):
        made(results, 'stop=[""]')


def test_a_run_keeps_samples_counts_metrics_and_how_it_sampled(finished):
    assert finished.parent.name == "evaluations"
    assert finished.name.startswith("test-qwen2-countdown_natural-")
    assert verify(finished) == []
    samples = samples_of(finished)
    rows = pd.DataFrame(samples)
    assert list(rows.columns) == COLUMNS
    assert len(list((finished / "samples").iterdir())) == 6  # a problem a chunk
    problems = read_jsonl(finished / "problems.jsonl.gz")
    assert rows.groupby("problem_id")["sample"].apply(list).to_dict() == {
        problem["id"]: list(range(8)) for problem in problems
    }
    references = {problem["id"]: problem["reference"] for problem in problems}
    for row in samples:
        verdict = countdown.verify(row["response"], references[row["problem_id"]])
        assert (row["outcome"], row["parsed"]) == (verdict.outcome, verdict.parsed)
    assert {row["parsed"] is None for row in samples} == {True, False}
    assert rows["response"].nunique() > 20
    counts = pd.read_csv(finished / "counts.csv").set_index("problem_id")
    right = (rows["outcome"] == "correct").groupby(rows["problem_id"]).sum()
    assert counts["c"].to_dict() == right.to_dict()
    assert counts["n"].tolist() == [8] * 6
    metrics = read_csv(finished / "metrics.csv")
    assert list(metrics.columns) == [*RESULT_COLUMNS, "low", "high"]
    value = metrics.set_index("metric")["value"]
    assert value["pass@1"] == pytest.approx(100 * right.sum() / 48)
    assert value["pass@8"] == pytest.approx(100 * (right > 0).mean())
    assert value["truncated"] == pytest.approx(100 * (~rows["stopped"]).mean())
    assert {"avg@8", "answer_entropy", "token_entropy"} <= set(value.index)
    config = yaml.safe_load((finished / "config.yaml").read_text())
    wanted = {"engine": "local", "n": 8, "temperature": 1.0, "top_p": 1.0, "max_tokens": 20}
    assert wanted.items() <= config["sampling"].items()
    assert config["eval"]["prompts"]["template"] == "bare"
    assert config["eval"]["verifier"] == {"_target_": "common.verifiers.countdown.verify"}
    meta = json.loads((finished / "meta.json").read_text())
    assert {"torch", "transformers"} <= set(meta["packages"])


def test_a_finished_run_is_found_and_not_repeated(finished, monkeypatch):
    def refuse(*_):
        raise AssertionError("a finished run needs neither problems nor a model")

    monkeypatch.setattr(engines, "local_model", refuse)
    monkeypatch.setattr(store, "problems", refuse)
    x = made(finished.parent.parent)
    assert evaluate(x) == finished
    assert evaluate(replace(x, workers=2, memory_gb=1.0)) == finished  # no part in the numbers
    for change in ({"seed": 1}, {"temperature": 0.9}, {"n": 9}):
        with pytest.raises(AssertionError):
            evaluate(replace(x, **change))


def test_the_command_says_where_its_numbers_are_and_how_to_score_them_again(finished, capsys):
    command.main([*SMALL, f"results_dir={finished.parent.parent}"])
    out, said = capsys.readouterr()
    assert out.strip() == str(finished)
    assert f"rlvr rescore run={finished}" in said


def killed(root: Path) -> None:
    x = made(root)

    def on_chunk():
        if len([*x.path.glob("samples/*.gz")]) == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    evaluate(x, on_chunk)


@pytest.mark.process
def test_a_killed_run_goes_on_where_it_was(finished, tmp_path, capsys):
    (tmp_path / "models").symlink_to(finished.parent.parent / "models")
    process = FORK.Process(target=killed, args=(tmp_path,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    run = tmp_path / "evaluations" / finished.name
    kept = {file: file.stat().st_mtime_ns for file in run.glob("samples/*.gz")}
    assert len(kept) == 2
    assert not (run / "DONE").exists()
    assert evaluate(made(tmp_path)) == run
    assert "resumes after" in capsys.readouterr().err
    assert {file: file.stat().st_mtime_ns for file in kept} == kept
    assert verify(run) == []
    assert hashes(run) == hashes(finished)  # as if nothing had happened
    assert len(hashes(run)) == 6 + 4


def test_benchmarks_of_one_model_go_on_where_they_were_with_one_load(results, monkeypatch):
    """The second of three is interrupted: the first is found, the second goes on in its middle."""
    names = ("countdown_natural", "countdown_rare", "countdown_natural")
    xs = [made(results, f"eval={name}", "n=4") for name in names[:2]]
    xs.append(made(results, f"eval={names[2]}", "n=4", "seed=7"))
    loads, drawn = [], []
    load, draw = engines.local_model, engines.drawn
    monkeypatch.setattr(engines, "local_model", lambda x: loads.append(x.model) or load(x))
    monkeypatch.setattr(engines, "drawn", lambda e, x, *more: drawn.append(x) or draw(e, x, *more))

    def stop():
        if len(drawn) == 4:  # two problems a chunk: three chunks of the first, one of the second
            raise Stopped

    interrupted(evaluate_all, xs, stop)
    assert [(x.path / "DONE").exists() for x in xs] == [True, False, False]
    assert len(loads) == 1
    first = (xs[0].path / "DONE").stat().st_mtime_ns
    assert evaluate_all(xs) == [x.path for x in xs]
    assert [x.path for x in drawn[4:]] == [xs[1].path] * 2 + [xs[2].path] * 3
    assert len(loads) == 2  # one each time
    assert (xs[0].path / "DONE").stat().st_mtime_ns == first
    assert [verify(x.path) for x in xs] == [[]] * 3
    evaluate_all([made(results, "n=4", "seed=8"), made(results, "n=4", "threads=2", "seed=9")])
    assert len(loads) == 4  # loaded with other settings


def hashes(run: Path) -> dict:
    marked = json.loads((run / "DONE").read_text())
    return {name: value for name, value in marked.items() if name != "meta.json"}


def test_every_verifier_is_asked_before_an_engine_starts(results, monkeypatch):
    """Of the second benchmark too: without bubblewrap its programs cannot be judged."""

    def refuse(*_, **__):
        raise UserError("bwrap is not installed")

    monkeypatch.setattr("common.verifiers.code.sandbox.run", refuse)
    monkeypatch.setattr(store, "_sample", lambda *_: pytest.fail("an engine starts"))
    first = made(results, "n=2", "seed=8")
    code = {"_target_": "common.verifiers.code.verify"}
    second = replace(first, eval=replace(first.eval, name="code", verifier=code))
    with pytest.raises(UserError, match="bwrap"):
        evaluate_all([first, second])


def test_a_benchmark_that_changed_is_not_mixed(finished, tmp_path, monkeypatch):
    (tmp_path / "models").symlink_to(finished.parent.parent / "models")
    x = made(tmp_path)

    def stop(*_):
        raise Stopped

    monkeypatch.setattr(engines, "local_model", stop)
    interrupted(evaluate, x)
    prompts = problems(x.eval.prompts)
    monkeypatch.setattr(store, "problems", lambda _: prompts[::-1])
    with refuses_file(x.path / "problems.jsonl.gz"):
        evaluate(x)


@pytest.mark.parametrize(
    "override",
    [
        *("n=0", "temperature=-1", "limit=0", "engine=other"),
        "eval.verifier._target_=common.verifiers.countdown.no",
    ],
)
def test_a_bad_value_is_refused(tmp_path, override):
    with refuses(*override.split("=")):
        evaluate(made(tmp_path, override))
    with refuses("n", 8):
        evaluate(made(tmp_path, "temperature=0"))
    with refuses("split", "none"):
        evaluate(made(tmp_path, "eval.prompts.split=none"))
    assert not (tmp_path / "evaluations").exists()


def test_a_few_problems_the_likeliest_answer_and_a_nucleus(results, capsys):
    """Each with a folder of its own; the log-probabilities are named after what they are of."""
    whole = made(results)
    few = made(results, "limit=2", "temperature=0", "n=1", "max_tokens=3")
    assert whole.identity()["limit"] is None
    assert few.identity()["limit"] == 2
    folder = evaluate(few)
    first = [problem.id for problem in problems(few.eval.prompts)[:2]]
    assert pd.read_csv(folder / "counts.csv")["problem_id"].tolist() == first
    scored = [(row["log_prob"], row["raw_log_prob"] < 0) for row in samples_of(folder)]
    assert set(scored) == {(None, True)}
    said = capsys.readouterr().err
    assert "max_tokens=3" in said
    nucleus = evaluate(made(results, "limit=2", "top_p=0.5"))
    assert pd.read_csv(nucleus / "counts.csv")["n"].tolist() == [8, 8]
    assert "warning" not in capsys.readouterr().err
