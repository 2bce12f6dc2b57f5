"""Why two scores differ: folders with one known cause each, logs of other programs, errors."""

import json
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from evaluations import made
from gaps import PROBLEMS, N, folder, here, prompts, question, responses
from refuses import refuses, refuses_file

from common.evaluation.gap import command, text
from common.evaluation.gap import explain as explain_module
from common.evaluation.gap.explain import Options, explain
from common.evaluation.gap.match import matched
from common.evaluation.rescore import rescore
from common.evaluation.run import evaluate
from common.evaluation.side import Problem, Sample, Side
from common.results.files import read_csv

ASKED = prompts(range(PROBLEMS))
SAME = responses(ASKED, lambda gold, j: f"\\boxed{{{gold}}}" if j else "\\boxed{1000}")


@pytest.fixture(autouse=True)
def _in_this_process(request, monkeypatch):
    if "pretrained" not in request.fixturenames:
        monkeypatch.setattr(explain_module, "judging", here)


def gap_of(a, b, **options):
    """The gap, whose parts always have to add up to the difference of the stored scores."""
    gap = explain(str(a), str(b), Options(**options))
    assert sum(part.points for part in gap.parts) == pytest.approx(gap.difference, abs=1e-9)
    return gap


def sizes(gap) -> dict[str, float]:
    """The parts that are not zero."""
    return {p.name: round(p.points, 6) for p in gap.parts if abs(p.points) > 1e-9}


def part(gap, name):
    return next(one for one in gap.parts if one.name == name)


@pytest.mark.parametrize(
    ("convention", "wrong", "cause"),
    [
        ("exact", "\\boxed{{{}.0}}", "grader"),  # the same answer, compared as text
        ("boxed", "The answer is {}", "extraction"),  # no box is read
        ("last_number", "\\boxed{{{}}}, checked 3000 times", "extraction"),  # another answer is
    ],
)
def test_a_grader_and_an_extraction(tmp_path, convention, wrong, cause):
    given = responses(ASKED, lambda gold, j: wrong.format(gold) if j == 1 else f"\\boxed{{{gold}}}")
    strict = folder(tmp_path, "strict", ASKED, given, convention=convention)
    loose = folder(tmp_path, "loose", ASKED, given)
    gap = gap_of(strict, loose)
    assert sizes(gap) == {cause: 25.0} == {gap.most.name: gap.difference}
    assert "10 right and 0 wrong" in part(gap, cause).note
    assert len(part(gap, cause).examples) == 3
    assert "A p0 sample 1: " in part(gap, cause).examples[0]
    assert sizes(gap_of(loose, strict)) == {cause: -25.0}
    assert sizes(gap_of(strict, loose, judge="a")) == {cause: 25.0}


def test_a_grader_whose_code_has_changed(tmp_path):
    """The same options, and stored verdicts that the verifier does not give any more."""
    new = folder(tmp_path, "new", ASKED, SAME)
    side = explain_module.load(str(new), None, None)
    old = [replace(p, samples=(Sample(1.0, "correct"), *p.samples[1:])) for p in side.problems]
    old = [
        replace(
            p,
            samples=tuple(
                s._replace(response=t.response) for s, t in zip(p.samples, q.samples, strict=True)
            ),
        )
        for p, q in zip(old, side.problems, strict=True)
    ]
    assert sum(s.right for p in old for s in p.samples) == 40
    loaded = {"old": replace(side, problems=tuple(old)), "new": side}
    explain_module_load, explain_module.load = explain_module.load, lambda name, *_: loaded[name]
    try:
        gap = gap_of("old", "new")
    finally:
        explain_module.load = explain_module_load
    assert gap.most.points == -25 == gap.difference


def test_truncation(tmp_path):
    """Half of the answers come after token 50."""

    def text_of(gold, j):
        return "step " * 20 + f"\\boxed{{{gold}}}"

    long = {
        p.id: [(text_of(p.reference, j), 90 if j < 2 else 40, True) for j in range(N)]
        for p in ASKED
    }
    short = {
        name: [(t[: len(t) * 50 // n], 50, False) if n > 50 else (t, n, True) for t, n, _ in rows]
        for name, rows in long.items()
    }
    a = folder(tmp_path, "short", ASKED, short, max_tokens=50)
    b = folder(tmp_path, "long", ASKED, long, max_tokens=100)
    gap = gap_of(a, b)
    assert sizes(gap) == {"truncation": 50.0}
    note = part(gap, "truncation").note
    assert "A: limit 50, 20 of 40 " in note
    assert "B: limit 100, 0 of 40 " in note
    assert sizes(gap_of(b, a)) == {"truncation": -50.0}
    assert part(gap, "chance").points == 0


def test_the_problem_set(tmp_path):
    """Two problems of A, both right, are not in B; one of B, always wrong, is not in A."""
    easy, hard = prompts([20, 21]), prompts([30])
    right = responses(easy, lambda gold, j: f"\\boxed{{{gold}}}")
    wrong = responses(hard, lambda gold, j: "\\boxed{1000}")
    a = folder(tmp_path, "a", [*ASKED, *easy], SAME | right)
    b = folder(tmp_path, "b", [*ASKED, *hard], SAME | wrong)
    gap = gap_of(a, b)
    assert sizes(gap) == {"problem set": pytest.approx(750 / 11 - (750 + 200) / 12, abs=1e-6)}
    note = part(gap, "problem set").note
    for said in ("10 problems in both", "2 only in A", "100.0", "75.0", "1 only in B"):
        assert said in note


def counted(right: list[int]):
    """So many right answers to each problem."""
    return responses(ASKED, lambda gold, j: f"\\boxed{{{gold if j < right[int(gold)] else 1000}}}")


@pytest.mark.parametrize(
    ("template", "sampling", "cause"),
    [
        ("Think.\nQ: {}\nA:", {}, "template"),
        ("Q: {}\nA:", {"temperature": 0.6}, "sampling settings"),
        ("Q: {}\nA: ", {"top_p": 0.9}, "template + sampling settings"),
        ("Q: {}\nA:", {"seed": 1}, "chance"),
    ],
)
def test_template_temperature_and_chance(tmp_path, template, sampling, cause):
    far = cause != "chance"
    asked = prompts(range(PROBLEMS), template)
    a = folder(tmp_path, "a", ASKED, counted([2, 1, 3, 2, 2, 1, 3, 2, 2, 2]))
    many = [4, 4, 4, 3, 4, 4, 4, 4, 3, 4] if far else [1, 2, 3, 3, 2, 2, 2, 3, 1, 2]
    b = folder(tmp_path, "b", asked, counted(many), **sampling)
    gap = gap_of(a, b)
    assert sizes(gap) == {cause: 45.0 if far else 2.5}
    left = part(gap, cause)
    assert left.low < left.points < left.high
    assert (left.low > 0) is far
    assert ("more than chance" in left.note) is far
    assert bool(gap.unknown) is ("+" in cause)
    if "template" in cause:
        assert "Q: Anna" in left.examples[0]
    if "sampling" in cause:
        assert ("temperature 1.0 and 0.6" if "temperature" in sampling else "top_p") in left.note


def test_prompts_that_differ_for_some_problems_are_a_part_of_their_own(tmp_path):
    asked = [*prompts(range(4), "Think. {}"), *ASKED[4:]]
    better = responses(asked, lambda gold, j: f"\\boxed{{{gold}}}")
    gap = gap_of(
        folder(tmp_path, "a", ASKED, SAME),
        folder(tmp_path, "b", asked, SAME | {p.id: better[p.id] for p in asked[:4]}),
    )
    assert sizes(gap) == {"template": 10.0}
    assert "4 problems" in part(gap, "template").note
    assert "6 problems" in part(gap, "chance").note


def test_everything_at_once_adds_up(tmp_path):
    rng = np.random.default_rng(1)
    asked = prompts(range(3, 14), "Think.\n{}")

    def words(gold, j):
        kinds = [
            f"\\boxed{{{gold}}}",
            f"The answer is {gold}",
            f"\\boxed{{{gold}.0}}",
            "\\boxed{1}",
            "no",
        ]
        return "step " * rng.integers(0, 30) + kinds[rng.integers(5)]

    cut = responses(ASKED, words)
    cut = {name: [(text, 10, False) for text, *_ in rows] for name, rows in cut.items()}
    a = folder(tmp_path, "a", ASKED, cut, convention="exact", max_tokens=10)
    b = folder(tmp_path, "b", asked, responses(asked, words), convention="boxed", temperature=0.5)
    gap = gap_of(a, b)
    assert {
        "problem set",
        "extraction",
        "grader",
        "truncation",
        "template + sampling settings",
    } == sizes(gap).keys()
    swapped = gap_of(b, a)
    assert swapped.difference == pytest.approx(-gap.difference)


@pytest.mark.process
def test_a_rescored_folder_has_the_responses_of_its_source(tmp_path):
    given = responses(ASKED, lambda gold, j: f"The answer is {gold}")
    source = folder(tmp_path, "source", ASKED, given)
    again = rescore([f"run={source}", "eval.verifier.convention=boxed", "workers=1"])
    gap = gap_of(source, again)
    assert sizes(gap) == {"extraction": -100.0}
    assert not gap.unknown


def test_counts_alone_have_a_problem_set_and_one_part_for_the_rest(tmp_path):
    def counts(name, rows):
        path = tmp_path / f"{name}.csv"
        pd.DataFrame(rows, columns=["benchmark", "problem_id", "n", "c"]).to_csv(path, index=False)
        return path

    a = counts("a", [("x", "1", 8, 2), ("x", "2", 8, 4), ("x", "3", 8, 8)])
    b = counts("b", [("x", "1", 4, 2), ("x", "2", 4, 4)])
    gap = gap_of(a, b)
    assert [p.name for p in gap.parts] == ["problem set", "not told apart"]
    assert gap.parts[0].points == pytest.approx(37.5 - 1400 / 24)
    assert gap.parts[1].points == pytest.approx(37.5)
    assert "extraction, grader, truncation, template, sampling settings" in gap.parts[1].note
    assert gap.unknown
    with refuses("benchmark", "None"):
        gap_of(counts("c", [("x", "1", 8, 2), ("y", "1", 8, 2)]), b)
    both = counts("c", [("x", "1", 4, 2), ("y", "1", 4, 2)])
    assert gap_of(both, b, benchmark="x").parts[0].points == pytest.approx(25)


# ---- logs of other programs


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def verl_log(path, given, **more):
    """The input is decoded without special tokens."""
    return lines(
        path,
        [
            {
                "input": f"system\nBe brief.\nuser\n{question(i)}\nassistant\n",
                "output": text,
                "gts": str(i),
                "step": 3,
            }
            | scored
            | more
            for i in range(PROBLEMS)
            for text, scored in given(i)
        ],
    )


def test_a_dump_of_verl_beside_a_folder(tmp_path):
    """verl's own grader takes only a box; problems are matched by what the templates hold."""
    dump = verl_log(
        tmp_path / "3.jsonl",
        lambda i: [
            (f"\\boxed{{{i}}}", {"score": 1.0, "acc": True}),
            (f"The answer is {i}", {"score": 0.1, "acc": False, "pred": None}),
        ],
    )
    given = {
        p.id: [(f"\\boxed{{{p.reference}}}", 20, True), (f"The answer is {p.reference}", 20, True)]
        for p in ASKED
    }
    gap = gap_of(dump, folder(tmp_path, "b", ASKED, given))
    assert "10 problems in both; 0 only in A" in part(gap, "problem set").note
    assert sizes(gap) == {"extraction or grader": 50.0}
    assert [p.name for p in gap.parts][-1] == "not told apart"  # truncation, template, settings
    assert "truncation, template, sampling settings" in gap.parts[-1].note
    told = " ".join(gap.unknown)
    assert "model" in told
    assert "temperature" in told
    system = "<|im_start|>system\nBe brief.<|im_end|>\n"
    chat = prompts(
        range(PROBLEMS), system + "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
    )
    gap = gap_of(dump, folder(tmp_path, "c", chat, given))
    assert gap.parts[-1].name == "truncation + sampling settings"  # the same prompt
    named = verl_log(
        tmp_path / "named.jsonl", lambda i: [(f"\\boxed{{{i}}}.", {"score": 0.0, "pred": f"{i}."})]
    )
    gap = gap_of(named, folder(tmp_path, "d", ASKED, {k: v[:1] for k, v in given.items()}))
    assert sizes(gap) == {"grader": 100.0}  # ours takes the answer that was read there


def lm_eval_log(path):
    """Two filters on the same responses: one wants a box."""
    rows = []
    for i in range(PROBLEMS):
        for name, read, right in (("strict", "[invalid]", 0.0), ("flexible", str(i), 1.0)):
            rows.append(
                {
                    "doc_id": i,
                    "doc": {"question": question(i)},
                    "target": str(i),
                    "arguments": {
                        "gen_args_0": {
                            "arg_0": f"Q: {question(i)}\nA:",
                            "arg_1": {"until": ["Q:"], "do_sample": False, "max_gen_toks": 100},
                        }
                    },
                    "resps": [[f"The answer is {i}"]],
                    "filtered_resps": [read],
                    "filter": name,
                    "metrics": ["exact_match"],
                    "exact_match": right,
                }
            )
    return lines(path, rows)


def test_two_filters_of_lm_eval_are_an_extraction(tmp_path, monkeypatch):
    log = lm_eval_log(tmp_path / "samples_x.jsonl")
    with refuses("score", "None"):
        gap_of(log, log)
    both = {"a_score": "strict", "b_score": "flexible"}
    gap = gap_of(log, log, **both)  # no verifier of ours: it can only be one part
    assert sizes(gap) == {"extraction + grader": 100.0}
    assert "give eval=NAME" in " ".join(gap.unknown)
    monkeypatch.setattr(
        explain_module,
        "_judge_of_benchmark",
        lambda a, pairs, name: (
            "made",
            {"_target_": "common.verifiers.math.verify"},
            [str(i) for i in range(PROBLEMS)],
        ),
    )
    gap = gap_of(log, log, eval="made", **both)
    assert sizes(gap) == {"extraction": 100.0}
    assert "wrong" not in part(gap, "extraction").examples[0]  # lm-eval's "[invalid]" is no answer
    assert "unparsed (no answer)" in part(gap, "extraction").examples[0]
    assert part(gap, "chance").points == 0  # greedy, the same prompts and limit
    folder_b = folder(tmp_path, "b", ASKED, responses(ASKED, lambda gold, j: f"\\boxed{{{gold}}}"))
    gap = gap_of(log, folder_b, a_score="flexible")
    assert gap.difference == 0
    assert "temperature 0 and 1.0; stop ['Q:'] and None" in gap.parts[-1].note


def inspect_log(right="C", model="hf/org/tiny", reason="stop"):
    samples = [
        {
            "id": i + 1,
            "epoch": 1,
            "input": question(i),
            "target": str(i),
            "messages": [
                {"role": "user", "content": f"Solve.\n{question(i)}"},
                {"role": "assistant", "content": "x"},
            ],
            "output": {
                "completion": f"ANSWER: {i}",
                "choices": [{"message": {"content": f"ANSWER: {i}"}, "stop_reason": reason}],
                "usage": {"output_tokens": 7},
            },
            "scores": {"match": {"value": right, "answer": str(i)}},
        }
        for i in range(PROBLEMS)
    ]
    spec = {
        "model": model,
        "model_generate_config": {"temperature": 1.0, "top_p": 1.0},
        "task": "x",
    }
    return {
        "version": 2,
        "status": "success",
        "eval": spec,
        "plan": {"config": {"max_tokens": 100}},
    }, samples


def test_logs_of_inspect(tmp_path):
    head, samples = inspect_log(right="I")
    whole = tmp_path / "log.json"
    whole.write_text(json.dumps(head | {"samples": samples}))
    zipped = tmp_path / "log.eval"
    with zipfile.ZipFile(zipped, "w") as parts:
        parts.writestr("header.json", json.dumps(head))
        for sample in inspect_log()[1]:
            parts.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))
    b = folder(tmp_path, "b", ASKED, responses(ASKED, lambda gold, j: f"\\boxed{{{gold}}}"))
    gap = gap_of(whole, b)
    assert gap.a["model"] == "hf/org/tiny"  # the same as org/tiny
    assert sizes(gap) == {"grader": 100.0}  # inspect read the right answer and called it wrong
    assert gap.parts[-1].name == "template"
    assert sizes(gap_of(zipped, b)) == {}
    cut, samples = inspect_log(reason="max_tokens")
    whole.write_text(json.dumps(cut | {"samples": samples, "status": "error"}))
    with refuses("log", whole):
        gap_of(whole, b)
    zipped.write_bytes(b"no zip")
    with refuses_file(zipped):
        gap_of(zipped, b)


def test_logs_of_lighteval_and_trl(tmp_path):
    b = folder(tmp_path, "b", ASKED, responses(ASKED, lambda gold, j: f"\\boxed{{{gold}}}"))
    details = tmp_path / "details_x.parquet"
    pd.DataFrame(
        [
            {
                "doc": {
                    "query": question(i),
                    "id": str(i),
                    "task_name": "x",
                    "generation_size": 100,
                },
                "model_response": {
                    "input": f"Q: {question(i)}\nA:",
                    "text": [f"\\boxed{{{i}}}"],
                    "output_tokens": [[1, 2]],
                },
                "metric": {"extractive_match": float(i % 2)},
            }
            for i in range(PROBLEMS)
        ]
    ).to_parquet(details)
    gap = gap_of(details, b)
    assert sizes(gap) == {"extraction or grader": 50.0}
    completions = tmp_path / "completions_00005.parquet"
    pd.DataFrame(
        [
            {
                "step": 5,
                "prompt": [{"role": "user", "content": question(i)}],
                "completion": [{"role": "assistant", "content": f"\\boxed{{{i}}}"}],
                "accuracy": float(j),
                "advantage": 0.0,
            }
            for i in range(PROBLEMS)
            for j in range(2)
        ]
    ).to_parquet(completions)
    assert sizes(gap_of(completions, b)) == {"extraction or grader": 50.0}


def test_problems_are_matched_by_id_then_text():
    def side(kind, *problems):
        made = [
            Problem(name, (said,), said, (Sample(1.0, "correct"),), ids)
            for name, said, ids in problems
        ]
        return Side(path=kind, kind=kind, problems=tuple(made))

    def names(a, b):
        return [(x.name, y.name) for x, y in matched(a, b)]

    a = side(
        "a",
        ("x", "user\nWhat is 3 + 4 of these?\nassistant", ("id1",)),
        ("y", "user\nName the largest prime below 9.\nassistant", ()),
        ("z", "user\nNot in the other.\nassistant", ("7",)),
    )
    b = side(
        "b",
        ("one", "anything", ("id1",)),
        ("two", "Name the  largest prime below 9.", ()),
        ("three", "Of another set.", ("7",)),
    )
    assert names(a, b) == [("x", "one"), ("y", "two")]
    short = [("x", "Q: 1 + 1? A:", ()), ("y", "Q: 11 + 1? A:", ())]
    bare = [("one", "1 + 1?", ()), ("two", "11 + 1?", ())]
    assert names(side("a", *short), side("b", *bare)) == [("x", "one"), ("y", "two")]
    twice = side(
        "b", ("two", "largest prime below 9.", ()), ("three", "largest prime below 9.", ())
    )
    assert names(a, twice) == []


# ---- errors and output


def test_what_cannot_be_compared_is_refused(tmp_path):
    a = folder(tmp_path, "a", ASKED, SAME)
    with refuses("same_model"):
        gap_of(a, folder(tmp_path, "other", ASKED, SAME, model="org/other"))
    gap_of(a, tmp_path / "evaluations" / "other", same_model=True)
    far = prompts([50, 51])
    with refuses_file(a):
        gap_of(a, folder(tmp_path, "far", far, responses(far, lambda gold, j: "x")))
    missing = lines(
        tmp_path / "m.jsonl",
        [
            json.loads(x)
            for x in verl_log(tmp_path / "v.jsonl", lambda i: [("x", {"score": 0.0})] * 2)
            .read_text()
            .splitlines()[:-1]
        ],
    )
    with refuses_file(missing):
        gap_of(missing, a)
    (a / "DONE").unlink()
    with refuses("folder"):
        gap_of(a, a)
    with refuses("judge", "c"):
        gap_of(tmp_path / "evaluations" / "other", tmp_path / "evaluations" / "other", judge="c")


def test_different_numbers_of_samples_are_means_of_more(tmp_path):
    a = folder(tmp_path, "a", ASKED, SAME)
    b = folder(tmp_path, "b", ASKED, {name: rows * 2 for name, rows in SAME.items()})
    gap = gap_of(a, b)
    assert sizes(gap) == {}
    assert text.summary(gap)


def test_the_command(tmp_path, capsys):
    given = responses(ASKED, lambda gold, j: f"The answer is {gold}")
    a = folder(tmp_path, "a", ASKED, given, convention="boxed")
    b = folder(tmp_path, "b", ASKED, given)
    command.main([f"a={a}", f"b={b}"])
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= max(80, len(str(a)) + 12)
    assert "B - A +100.00" in shown
    command.main([f"a={a}", f"b={b}", "format=json"])
    told = json.loads(capsys.readouterr().out)
    assert (told["most"], told["difference"], told["a"]["score"]) == ("extraction", 100, 0)
    command.main([f"a={a}", f"b={b}", "format=markdown"])
    assert "| extraction | +100.00 |" in capsys.readouterr().out
    with refuses("format", "xml"):
        command.main([f"a={a}", f"b={b}", "format=xml"])
    with refuses("b", ""):
        command.main([f"a={a}"])
    with refuses("formt", "json"):
        command.main([f"a={a}", f"b={b}", "formt=json"])


@pytest.mark.process
def test_a_real_model_under_two_conventions(finished, lenient, tmp_path):
    """The tiny model, its answers judged by another verifier and drawn at another temperature."""
    loose = rescore([f"run={finished}", f"eval.verifier._target_={lenient}", "workers=1"])
    gap = gap_of(finished, loose, workers=1)
    scores = [
        read_csv(run / "metrics.csv").set_index("metric").loc["pass@1", "value"]
        for run in (finished, loose)
    ]
    assert gap.difference == pytest.approx(scores[1] - scores[0])
    assert sizes(gap).keys() <= {"extraction", "grader", "extraction or grader"}
    assert gap.difference > 0
    cold = evaluate(made(finished.parents[1], "temperature=0.5", "max_tokens=12"))
    gap = gap_of(loose, cold, workers=1)
    assert {"truncation", "sampling settings"} <= {part.name for part in gap.parts}
    assert "limit 12" in part(gap, "truncation").note
    assert "temperature 1.0 and 0.5" in part(gap, "sampling settings").note
