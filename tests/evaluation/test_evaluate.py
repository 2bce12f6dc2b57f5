"""The evaluation store: what a run leaves, resuming, scoring again, and importing."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml
from tiny import MODEL, ROOT

from common.config import compose as compose_module
from common.config.compose import compose
from common.config.strict import strict
from common.errors import UserError
from common.evaluation import __main__, dumps
from common.evaluation import config as evaluation
from common.evaluation import run as store
from common.evaluation.config import Evaluate
from common.evaluation.dumps import Dumped, match
from common.evaluation.import_samples import import_samples
from common.evaluation.rescore import rescore
from common.evaluation.run import evaluate
from common.evaluation.samples import COLUMNS, Sampled, metric_rows
from common.evaluation.store import problems, stored
from common.models import load
from common.results.collect import verify
from common.results.columns import COLUMNS as RESULT_COLUMNS
from common.results.files import read_csv, read_jsonl
from common.rollout.local import draw
from common.types import Prompt
from common.verifiers import countdown

SMALL = [*MODEL, "device=cpu", "eval.prompts.size=6", "n=8", "batch=8", "workers=1"]


LENIENT = """
from common.types import Verdict

def verify(response, reference, *, ending="}"):
    right = response.endswith(ending)
    return Verdict("correct" if right else "wrong", float(right), response[-8:])
"""


@pytest.fixture
def lenient(tmp_path, monkeypatch) -> str:
    """A verifier to score again with: right is what ends as asked."""
    (tmp_path / "lenient.py").write_text(LENIENT)
    monkeypatch.syspath_prepend(tmp_path)
    yield "lenient.verify"
    sys.modules.pop("lenient", None)


def made(results: Path, *overrides: str) -> Evaluate:
    words = [*SMALL, f"results_dir={results}", *overrides]
    return strict(Evaluate, compose(compose_module.CONFIGS, words, "evaluate"))


@pytest.fixture(scope="module")
def finished(pretrained, tmp_path_factory) -> Path:
    """A finished run of this module's own; tests read it."""
    root = tmp_path_factory.mktemp("evaluations")
    (root / "models").symlink_to(pretrained / "models")
    return evaluate(made(root))


# ---- a run


def test_a_run_keeps_samples_counts_metrics_and_how_it_sampled(finished):
    assert finished.parent.name == "evaluations"
    assert finished.name.startswith("test-qwen2-countdown_natural-")
    assert verify(finished) == []
    samples = [row for f in sorted((finished / "samples").iterdir()) for row in read_jsonl(f)]
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
    assert {"maj@4", "avg@8", "answer_entropy", "token_entropy"} <= set(value.index)
    config = yaml.safe_load((finished / "config.yaml").read_text())
    wanted = {"engine": "local", "n": 8, "temperature": 1.0, "top_p": 1.0, "max_tokens": 20}
    assert wanted.items() <= config["sampling"].items()
    assert config["eval"]["prompts"]["template"] == "bare"
    assert config["eval"]["verifier"] == {"_target_": "common.verifiers.countdown.verify"}
    meta = json.loads((finished / "meta.json").read_text())
    assert {"torch", "transformers"} <= set(meta["packages"])


def test_every_option_of_a_verifier_is_recorded(lenient):
    node = {"_target_": lenient}
    assert evaluation.options(node) == node | {"ending": "}"}
    assert evaluation.options(node | {"ending": "x"}) == node | {"ending": "x"}
    with pytest.raises(UserError, match=r"eval\.verifier\.begin=1: unknown argument"):
        evaluation.options(node | {"begin": 1})


def test_a_finished_run_is_found_and_not_repeated(finished, monkeypatch):
    def refuse(*_):
        raise AssertionError("a finished run needs neither problems nor a model")

    monkeypatch.setattr(store, "local_engine", refuse)
    monkeypatch.setattr(store, "problems", refuse)
    x = made(finished.parent.parent)
    assert evaluate(x) == finished
    assert evaluate(replace(x, workers=2, memory_gb=1.0)) == finished  # no part in the numbers
    for change in ({"seed": 1}, {"temperature": 0.9}, {"n": 9}):
        with pytest.raises(AssertionError):
            evaluate(replace(x, **change))


def test_the_engine_gives_the_rows_that_are_scored(finished):
    x = made(finished.parent.parent)
    model, tokenizer = load.load_model(x.model, Path(x.results_dir), "cpu")
    prompts = problems(x.eval.prompts)
    drawn = draw(model, tokenizer, prompts[2:3], 8, x, (0, "evaluate", "countdown_natural", 2))
    rows = pd.DataFrame(read_jsonl(finished / "samples" / "0000002.jsonl.gz"))
    names = ["response", "tokens", "log_prob", "stopped"]
    assert sorted(drawn) == sorted(rows[names].itertuples(index=False, name=None))


def test_a_killed_run_goes_on_where_it_was(finished, tmp_path):
    (tmp_path / "models").symlink_to(finished.parent.parent / "models")
    command = [sys.executable, "-m", "common.evaluate", *SMALL, f"results_dir={tmp_path}"]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    run = tmp_path / "evaluations" / finished.name
    deadline = time.monotonic() + 300
    while len(list(run.glob("samples/*.gz"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = {file: file.stat().st_mtime_ns for file in run.glob("samples/*.gz")}
    assert 2 <= len(kept) < 6
    assert not (run / "DONE").exists()
    assert "goes on after" in resumed(tmp_path, run)
    assert {file: file.stat().st_mtime_ns for file in kept} == kept
    assert verify(run) == []
    assert hashes(run) == hashes(finished)  # as if nothing had happened
    assert len(hashes(run)) == 6 + 4


def resumed(results: Path, run: Path) -> str:
    """What the same evaluation says on stderr when it is asked for again."""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        assert evaluate(made(results)) == run
    return said.getvalue()


def hashes(run: Path) -> dict:
    found = json.loads((run / "DONE").read_text())
    return {name: value for name, value in found.items() if name != "meta.json"}


def test_a_benchmark_that_changed_is_not_mixed(finished, tmp_path, monkeypatch):
    (tmp_path / "models").symlink_to(finished.parent.parent / "models")
    x = made(tmp_path)

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "local_engine", stop)
    with pytest.raises(KeyboardInterrupt):
        evaluate(x)
    found = problems(x.eval.prompts)
    monkeypatch.setattr(store, "problems", lambda _: found[::-1])
    # a new process would not hold the lock of the run that was stopped
    monkeypatch.setattr("fcntl.flock", lambda *_: None)
    with pytest.raises(UserError, match="problems have changed"):
        evaluate(x)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("n=0", ["n=0", "at least 1"]),
        ("top_p=0.9", ["top_p=0.9", "top_p=1.0"]),
        ("temperature=0", ["temperature=0", "above 0"]),
        ("eval.verifier._target_=common.verifiers.countdown.no", ["countdown.no"]),
        ("eval.prompts.split=none", ["split=none"]),
        ("engine=other", ["engine"]),
    ],
)
def test_a_bad_value_is_refused(tmp_path, override, words):
    with pytest.raises(UserError) as error:
        evaluate(made(tmp_path, override))
    assert all(word in str(error.value) for word in words), error.value
    assert not (tmp_path / "evaluations").exists()


def test_help_is_light(capsys, monkeypatch):
    program = (
        "import runpy, sys; sys.argv = ['common.evaluate', '--help']\n"
        "try:\n    runpy.run_module('common.evaluate', run_name='__main__', alter_sys=True)\n"
        "except SystemExit as end:\n    assert not end.code\n"
        "print('heavy:', sorted({'torch', 'transformers', 'scipy', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "rescore=RUN_FOLDER" in done.stdout
    assert "countdown_natural" in done.stdout
    assert done.stdout.endswith("heavy: []\n")
    monkeypatch.setattr(sys, "argv", ["common.evaluate", "rescore=nowhere"])
    with pytest.raises(SystemExit) as end:
        __main__.main()
    assert end.value.code == 2
    assert "nowhere is unfinished" in capsys.readouterr().err


def test_metric_rows_leave_out_what_the_samples_lack():
    rows = [("p", i, "", "correct", "a", None, None, None) for i in range(2)]
    got = metric_rows(Sampled("toy", pd.DataFrame(rows, columns=COLUMNS)), [1])
    assert got["metric"].tolist() == ["pass@1", "distinct_correct", "valid"]


# ---- scoring again


def test_scoring_again_needs_no_model_and_says_what_changed(finished, lenient, monkeypatch, capsys):
    monkeypatch.setattr(load, "load_model", None)
    target = f"eval.verifier._target_={lenient}"
    run = rescore([f"rescore={finished}", target, "workers=1"])
    assert run != finished
    assert verify(run) == verify(finished) == []
    before, after = stored(finished, with_response=True), stored(run)
    assert "response" not in after
    key = ["problem_id", "sample"]
    assert after[key].equals(before[key])
    right = before["response"].str.endswith("}")
    assert (after["outcome"] == right.map({True: "correct", False: "wrong"})).all()
    differ = int((after["outcome"] != before["outcome"]).sum())
    assert differ > 5
    out = capsys.readouterr().out
    assert f"{differ} of 48 verdicts changed" in out
    assert f"wrong -> correct: {((before['outcome'] == 'wrong') & right).sum()}" in out
    assert out.count("response ends") == 5
    table = pd.read_csv(run / "changes.csv")
    assert len(table) == differ
    assert (table["before"] != table["after"]).all()
    assert pd.read_csv(run / "counts.csv")["c"].sum() == right.sum()
    assert lenient in (run / "config.yaml").read_text()
    assert rescore([f"rescore={finished}", target]) == run  # found
    other = rescore([f"rescore={finished}", target, "eval.verifier.ending=x"])
    assert other != run
    assert pd.read_csv(other / "counts.csv")["c"].sum() == 0
    with pytest.raises(UserError, match="no sampled run"):
        rescore([f"rescore={run}"])


def test_scoring_again_the_same_way_changes_nothing(finished, capsys):
    run = rescore([f"rescore={finished}"])
    assert "0 of 48 verdicts changed" in capsys.readouterr().out
    assert (run / "counts.csv").read_bytes() == (finished / "counts.csv").read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["eval.verifier.convention=boxed"], "unknown argument"),
        (["eval.prompts.size=3"], "rescore= takes"),
        (["eval.verifier.ending=["], "not a YAML value"),
    ],
)
def test_scoring_again_refuses(finished, words, message):
    with pytest.raises(UserError, match=message):
        rescore([f"rescore={finished}", *words])


# ---- samples of other programs


def write_lines(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def verl_rows(prompts, outputs, step=20):
    """As verl 0.9.1 writes them: the input decoded without special tokens."""
    return [
        {
            "input": f"system\nBe brief.\nuser\n{prompt.text}\nassistant\n",
            "output": output,
            "gts": prompt.reference,
            "score": score,
            "step": step,
            "uid": f"{i}_{j}_0",
        }
        for i, prompt in enumerate(prompts)
        for j, (output, score) in enumerate(outputs)
    ]


def test_import_of_verl_dumps(tmp_path, capsys):
    prompts = problems(made(tmp_path).eval.prompts)
    reference = prompts[0].reference
    right = countdown.example(reference)
    rows = verl_rows(prompts[:1], [(right, 1.0), ("\\boxed{1}", 0.0), (right, 0.0)])
    rows += verl_rows(prompts[1:3], [("\\boxed{1}", 0.0)] * 3)
    rows += verl_rows([Prompt("else", "a riddle", "x")], [("y", 0.0)] * 2)
    write_lines(tmp_path / "20.jsonl", rows)
    words = [*SMALL, f"results_dir={tmp_path}", f"files={tmp_path}/*.jsonl", "label=other/model"]
    run = import_samples(["import=verl", *words])
    said = capsys.readouterr()
    assert "9 samples of 3 of 6 problems" in said.err
    assert "2 samples belong to none" in said.err
    assert "20.jsonl, row 10" in said.err
    assert f"3 problems have no sample and no row: {prompts[3].id}" in said.err
    assert "1 of 9 samples: the dump's score" in said.out  # the second right one had 0
    assert run.name.startswith("other-model-countdown_natural-")
    assert verify(run) == []
    counts = pd.read_csv(run / "counts.csv").set_index("problem_id")
    assert counts["c"].to_dict() == {prompts[0].id: 2, prompts[1].id: 0, prompts[2].id: 0}
    metrics = read_csv(run / "metrics.csv").set_index("metric")
    assert metrics.loc["pass@1", "value"] == pytest.approx(100 * 2 / 9)
    assert {"maj@3", "answer_entropy"} <= set(metrics.index)
    assert not {"truncated", "token_entropy", "response_length"} & set(metrics.index)
    assert import_samples(["import=verl", *words]) == run
    assert "0 of 9 verdicts changed" in (rescore([f"rescore={run}"]), capsys.readouterr().out)[1]


def test_import_refuses(tmp_path):
    prompts = problems(made(tmp_path).eval.prompts)
    words = [*SMALL, f"results_dir={tmp_path}", f"files={tmp_path}/*.jsonl"]

    def refused(rows, kind="verl"):
        write_lines(tmp_path / "20.jsonl", rows)
        with pytest.raises(UserError) as error:
            import_samples([f"import={kind}", *words])
        assert not (tmp_path / "evaluations").exists()
        return str(error.value)

    rows = verl_rows(prompts, [("x", 0.0)])
    assert "2 steps ([20, 30])" in refused(rows + verl_rows(prompts, [("x", 0.0)], step=30))
    assert f"has 1 samples, problem {prompts[0].id} 2" in refused(rows + rows[:1])
    assert "none is of this benchmark" in refused(verl_rows([Prompt("i", "t", "r")], [("x", 0.0)]))
    assert "row 1: no field output" in refused([{"input": "x"}])
    assert "no field doc_id" in refused(rows, "lm_eval")
    assert "import=trl: one of" in refused(rows, "trl")
    words[-1] = f"files={tmp_path}/*.nothing"
    assert "matches no file" in refused(rows)


def lm_eval_row(doc_id, doc, resps, prompt="", kind="strict-match"):
    """As lm-eval 0.4.13 writes them, with the fields that matter here."""
    return {
        "doc_id": doc_id,
        "doc": doc,
        "target": "7",
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": {"until": ["\n"]}}},
        "resps": [resps],
        "filtered_resps": [resps[0]],
        "filter": kind,
        "metrics": ["exact_match"],
        "exact_match": 0.0,
    }


def test_import_of_lm_eval_takes_every_response_once(tmp_path):
    file = write_lines(
        tmp_path / "samples_math.jsonl",
        [
            lm_eval_row(0, {"problem": "What is 3 + 4?"}, ["6", "7", "8"]),
            lm_eval_row(1, {"unique_id": "b"}, ["1", "2", "3"]),
            lm_eval_row(0, {"problem": "What is 3 + 4?"}, ["6", "7", "8"], kind="flexible"),
        ],
    )
    dumped = dumps.lm_eval([file])
    assert [one.response for one in dumped] == ["6", "7", "8", "1", "2", "3"]
    prompts = [Prompt("a", "What is  3 + 4?", "7"), Prompt("b", "Other", "2")]
    groups, alone = match(dumped, prompts)
    assert {owner: len(ones) for owner, ones in groups.items()} == {"a": 3, "b": 3}
    assert not alone
    choices = lm_eval_row(0, {"problem": "x"}, [["-1.5", "True"]])
    with pytest.raises(UserError, match="log-likelihoods"):
        dumps.lm_eval([write_lines(tmp_path / "choices.jsonl", [choices])])


def test_a_sample_belongs_to_the_problem_that_stands_last():
    prompts = [Prompt("a", "1 + 1?", "2"), Prompt("b", "11 + 1?", "12"), Prompt("c", "5?", "5")]

    def owner(*texts, ids=()):
        groups, alone = match([Dumped("w", ids, texts, "r", None)], prompts)
        assert len(groups) + len(alone) == 1
        return next(iter(groups), None)

    assert owner("Q: 5?\nA: 5\nQ: 1 + 1?\nA:") == "a"  # after an example
    assert owner("Q: 1 + 1?\nA: 2\nQ: 5?\nA:") == "c"
    assert owner("Q: 11 + 1?\nA:") == "b"  # not a, which ends there too
    assert owner("<|im_start|>user\n5?<|im_end|>\n") == "c"
    assert owner("Solve 5?", "11 +  1?") == "b"  # an equal text before one that holds it
    assert owner("5?", ids=("a",)) == "a"
    assert owner("unknown") is None
    twice = [*prompts, Prompt("d", "5?", "6")]
    groups, alone = match([Dumped("w", (), ("5?",), "r", None)], twice)
    assert len(alone) == 1
    assert not groups
