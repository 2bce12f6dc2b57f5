"""Samples of other programs: verl's dumps and lm-eval's."""

import json
from pathlib import Path

import pandas as pd
import pytest
from evaluations import SMALL, made
from refuses import refuses, refuses_file

from common.errors import UserError
from common.evaluation.import_samples import import_samples
from common.evaluation.logs import log
from common.evaluation.match import match
from common.evaluation.rescore import rescore
from common.evaluation.side import Problem, Sample
from common.evaluation.store import problems, stored
from common.results.collect import verify
from common.results.files import read_csv
from common.types import Prompt
from common.verifiers import countdown


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
    run = import_samples(words)
    said = capsys.readouterr()
    assert "9 samples of 3 of 6 problems" in said.err
    assert "a riddle" in said.err  # what belongs to no problem
    assert prompts[3].id in said.err  # a problem without samples
    assert "1 of 9 samples" in said.out  # the second right one had 0
    assert run.name.startswith("other-model-countdown_natural-")
    assert verify(run) == []
    counts = pd.read_csv(run / "counts.csv").set_index("problem_id")
    assert counts["c"].to_dict() == {prompts[0].id: 2, prompts[1].id: 0, prompts[2].id: 0}
    metrics = read_csv(run / "metrics.csv").set_index("metric")
    assert metrics.loc["pass@1", "value"] == pytest.approx(100 * 2 / 9)
    assert {"maj@3", "answer_entropy"} <= set(metrics.index)
    assert not {"truncated", "token_entropy", "response_length"} & set(metrics.index)
    assert import_samples(words) == run
    again = rescore([f"run={run}"])
    assert pd.read_csv(again / "changes.csv").empty
    for one in (run, again):  # no whole score
        benchmarks = set(read_csv(one / "metrics.csv")["benchmark"])
        assert benchmarks == {"countdown_natural (3 of 6 problems)"}


def test_import_of_another_log_and_of_one_score_of_several(tmp_path):
    prompts = problems(made(tmp_path).eval.prompts)[:2]
    rows = [
        {"step": 3, "prompt": f"Q: {prompt.text}", "completion": text, "short": 1.0, "right": score}
        for prompt in prompts
        for text, score in ((countdown.example(prompt.reference), 0.0), ("no", 0.0))
    ]
    pd.DataFrame(rows).to_parquet(tmp_path / "completions_3.parquet")
    words = [*SMALL, f"results_dir={tmp_path}", f"files={tmp_path}/*.parquet"]
    with refuses("score", "None"):
        import_samples(words)
    run = import_samples([*words, "score=right"])
    assert run.name.startswith("trl-countdown_natural-")
    samples = stored(run)
    assert samples["outcome"].tolist() == ["correct", "unparsed"] * 2
    assert samples["score"].tolist() == [0.0] * 4
    assert import_samples([*words, "score=short"]) != run


def test_import_refuses(tmp_path):
    prompts = problems(made(tmp_path).eval.prompts)
    words = [*SMALL, f"results_dir={tmp_path}", f"files={tmp_path}/*.jsonl"]

    def refused(rows):
        write_lines(tmp_path / "20.jsonl", rows)
        with pytest.raises(UserError) as error:
            import_samples(words)
        assert not (tmp_path / "evaluations").exists()
        return str(error.value)

    rows = verl_rows(prompts, [("x", 0.0)])
    assert "2 steps ([20, 30])" in refused(rows + verl_rows(prompts, [("x", 0.0)], step=30))
    assert f"has 1 samples, problem {prompts[0].id} 2" in refused(rows + rows[:1])
    assert "none is of this benchmark" in refused(verl_rows([Prompt("i", "t", "r")], [("x", 0.0)]))
    assert "20.jsonl, row 3: no field output" in refused([*rows[:2], {"input": "x"}])
    assert "20.jsonl" in refused([{"input": "x"}])
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
    found = log([file], None, every=True).problems
    assert [one.response for problem in found for one in problem.samples] == [
        "6",
        "7",
        "8",
        "1",
        "2",
        "3",
    ]
    prompts = [Prompt("a", "What is  3 + 4?", "7"), Prompt("b", "Other", "2")]
    groups, alone = match(list(found), prompts)
    assert {owner: len(ones) for owner, ones in groups.items()} == {"a": 3, "b": 3}
    assert not alone
    choices = lm_eval_row(0, {"problem": "x"}, [["-1.5", "True"]])
    with refuses_file(tmp_path / "choices.jsonl"):
        log([write_lines(tmp_path / "choices.jsonl", [choices])], None, every=True)


def logged(texts, ids=()) -> Problem:
    return Problem("w", texts, None, (Sample(1.0, "correct", response="r"),), ids)


def test_a_sample_belongs_to_the_problem_that_stands_last():
    prompts = [Prompt("a", "1 + 1?", "2"), Prompt("b", "11 + 1?", "12"), Prompt("c", "5?", "5")]

    def owner(*texts, ids=()):
        groups, alone = match([logged(texts, ids)], prompts)
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
    groups, alone = match([logged(("5?",))], twice)
    assert len(alone) == 1
    assert not groups
