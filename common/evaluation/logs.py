"""The one reader of other programs' logs, with what their own grader said of each sample.

`rlvr explain-gap` compares what it reads, and `rlvr import` scores it again.

verl       0.9.1   `<step>.jsonl` of validation_data_dir and rollout_data_dir: input, output, score,
                   and what the reward function added (acc, pred). No settings, no lengths.
TRL        1.16    `completions_<step>.parquet` of log_completions: prompt, completion, one column
                   per reward function. These are training samples, without settings.
lm-eval    0.4.13  `samples_<task>_<date>.jsonl` of --log_samples: its score is that of the first
                   response, by one filter (its issue 3351). `every=True` reads all responses, whose
                   scores are then not known. Log-likelihoods have no responses and are refused.
lighteval  0.11    `details_<task>_<date>.parquet` of --save-details: doc, model_response, metric.
inspect    0.3     `.eval` (a zip file) or `.json`: input, messages, output, scores, limits.

If a log has several scores, `score` must name one of them.
"""

from __future__ import annotations

import json
import math
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from common.errors import UserError, require
from common.evaluation.side import Problem, Sample, Side
from common.results.files import read_jsonl

KINDS = ("verl", "trl", "lm_eval", "lighteval", "inspect")
ID_FIELDS = ("id", "unique_id", "problem_id", "key", "task_id")
TEXT_FIELDS = ("problem", "question", "Problem", "Question", "prompt")
LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # inspect's correct, partial, incorrect, none
NOTHING = "[invalid]"  # what lm-eval's filters write where they read no answer
# columns of TRL's files that are no reward
TRL_OWN = {"step", "prompt", "completion", "advantage", "images", "image"}


def log(files: list[Path], score: str | None, *, every: bool = False) -> Side:
    """Return the evaluation that a log's files hold. Raises UserError for a file of no known
    program."""
    file = files[0]
    path = str(file) if len(files) == 1 else f"{file} and {len(files) - 1} more"
    if file.suffix == ".eval" or file.suffix == ".json":
        require(len(files) == 1, "log", path, "give one log of inspect")
        return _inspect(file, score)
    if file.suffix == ".parquet":
        rows = _parquet(files)
        if {"doc", "model_response", "metric"} <= rows[0].keys():
            return _side("lighteval", path, [_lighteval(row, score, path) for row in rows])
        require("completion" in rows[0], "log", path, "neither TRL's nor lighteval's columns")
        return _side("trl", path, _grouped(_trl(rows, score, path)), exact=False)
    rows = _rows(files)
    require(bool(rows), "log", path, "holds no row")
    if {"input", "output", "score"} <= rows[0].keys():
        _need(rows, ("input", "output", "score"))
        return _side("verl", path, _grouped(_verl(rows, score, path)), exact=False)
    if {"doc_id", "doc", "resps", "filter"} <= rows[0].keys():
        _need(rows, ("doc_id", "doc", "resps", "filter"))
        if every:
            return _side("lm_eval", path, _lm_eval_responses(rows, path))
        return _lm_eval(rows, score, path)
    raise UserError(f"{path}: neither verl's dump nor lm-eval's samples; see docs/evaluating.md")


def _rows(files: list[Path]) -> list[dict]:
    rows = []
    for file in files:
        for line, row in enumerate(read_jsonl(file), 1):
            require(isinstance(row, dict), "log", f"{file}, row {line}", "must be an object")
            rows.append(row | {"file": str(file), "line": line})
    return rows


def _side(kind: str, path: str, problems: list[Problem], **known: Any) -> Side:
    return Side(path=path, kind=kind, problems=tuple(problems), **known)


def _grouped(problems: list[Problem]) -> list[Problem]:
    """Merge problems with one sample each: those with the same name become one problem."""
    groups: dict[str, list[Problem]] = {}
    for problem in problems:
        groups.setdefault(problem.name, []).append(problem)
    return [
        Problem(
            name=name,
            ids=rows[0].ids,
            texts=rows[0].texts,
            prompt=rows[0].prompt,
            samples=tuple(sample for row in rows for sample in row.samples),
        )
        for name, rows in groups.items()
    ]


def _verl(rows: list[dict], score: str | None, path: str) -> list[Problem]:
    """Return the problems of verl's rows. A sample is right if its `acc`, where the reward function
    gave one, or else its `score` is above 0; the argument `score` names another field."""
    _one_step({row.get("step") for row in rows}, path)
    problems = []
    for row in rows:
        name = score or ("acc" if "acc" in row else "score")
        require(name in row, "score", name, f"{path} has no such field")
        sample = _sample(float(row[name]) > 0, str(row["output"]), _text(row.get("pred")))
        ids = (str(row["problem_id"]),) if "problem_id" in row else ()
        text = str(row["input"])
        problems.append(Problem(ids[0] if ids else text, (text,), text, (sample,), ids))
    return problems


def _trl(rows: list[dict], score: str | None, path: str) -> list[Problem]:
    _one_step({row.get("step") for row in rows}, path)
    number = {n for n, v in rows[0].items() if n not in TRL_OWN and isinstance(v, int | float)}
    name = _chosen(number, score, path)
    problems = []
    for row in rows:
        text = _messages(row["prompt"])
        sample = _sample(float(row[name]) > 0, _messages(row["completion"], role=False))
        problems.append(Problem(text, (text,), text, (sample,)))
    return problems


def _lm_eval(rows: list[dict], score: str | None, path: str) -> Side:
    chosen = _chosen({row["filter"] for row in rows}, score, path)
    require(
        not chosen.startswith(("maj", "pass")),
        "score",
        chosen,
        "a vote or the best of several responses, which no single response explains",
    )
    problems, settings, limit = [], {}, None
    for row in rows:
        if row["filter"] != chosen:
            continue
        response = _responses(row, path)[0]
        given = row.get("arguments", {}).get("gen_args_0", {})
        how = given.get("arg_1") or {}
        settings, limit = _lm_eval_settings(how if isinstance(how, dict) else {})
        metric = (row.get("metrics") or ["exact_match"])[0]
        require(metric in row, "log", path, f"a row has no {metric}")
        read = row.get("filtered_resps")
        read = _text(read[0] if isinstance(read, list) and read else read)
        sample = _sample(float(row[metric]) > 0, response, read)
        if read == NOTHING:
            sample = sample._replace(outcome="unparsed", parsed=None)
        problems.append(_lm_eval_problem(row, (sample,)))
    return _side("lm_eval", path, problems, settings=settings, max_tokens=limit)


def _lm_eval_responses(rows: list[dict], path: str) -> list[Problem]:
    """Return all responses of each problem, from one of its rows: the rows of its other filters
    hold the same responses."""
    first: dict[tuple, dict] = {}
    for row in rows:
        first.setdefault((row["file"], row["doc_id"]), row)
    problems = []
    for row in first.values():
        unknown = [Sample(math.nan, "unknown", response=text) for text in _responses(row, path)]
        problem = _lm_eval_problem(row, tuple(unknown))
        problems.append(replace(problem, texts=(*problem.texts, problem.prompt or "")))
    return problems


def _responses(row: dict, path: str) -> list[str]:
    responses = [response for request in row["resps"] for response in request]
    if not all(isinstance(response, str) for response in responses):
        raise UserError(f"{path}: holds log-likelihoods, not responses; no text can be judged")
    return responses


def _lm_eval_problem(row: dict, samples: tuple[Sample, ...]) -> Problem:
    doc = row["doc"] if isinstance(row["doc"], dict) else {}
    prompt = str(row.get("arguments", {}).get("gen_args_0", {}).get("arg_0", ""))
    texts = tuple(doc[name] for name in TEXT_FIELDS if isinstance(doc.get(name), str))
    return Problem(
        name=f"{row['file']}:{row['doc_id']}",
        ids=tuple(str(doc[name]) for name in ID_FIELDS if name in doc),
        texts=texts or (prompt,),
        prompt=prompt,
        samples=samples,
    )


def _lm_eval_settings(how: dict) -> tuple[dict, int | None]:
    """Return (settings, token limit) of `generation_kwargs`; do_sample=false is temperature 0."""
    settings = {
        name: how[name] for name in ("temperature", "top_p", "top_k", "min_p") if name in how
    }
    if how.get("do_sample") is False:
        settings["temperature"] = 0
    if "until" in how:
        settings["stop"] = how["until"]
    return settings, how.get("max_gen_toks") or how.get("max_tokens")


def _lighteval(row: dict, score: str | None, path: str) -> Problem:
    doc, response = row["doc"], row["model_response"]
    if not isinstance(doc, dict) or not isinstance(response, dict):
        raise UserError(f"{path}: doc and model_response are no structures; save the details again")
    texts = _list(response.get("text"))
    require(bool(texts), "log", path, "holds log-likelihoods, not responses; none can be judged")
    metrics = {name: value for name, value in row["metric"].items() if value is not None}
    name = _chosen(metrics.keys(), score, path)
    if len(texts) > 1 and not name.startswith("avg@"):
        raise UserError(
            f"{path}: {len(texts)} responses a problem, and {name} is one score of all of them; "
            "give score=avg@n, or a log with one response"
        )
    tokens = [len(one) for one in _list(response.get("output_tokens"))]
    right = float(metrics[name])
    return Problem(
        name=f"{doc.get('task_name', '')}:{doc['id']}",
        ids=(str(doc["id"]),),
        texts=(doc.get("original_query") or doc["query"],),
        prompt=_messages(response["input"]) if response.get("input") is not None else None,
        samples=tuple(
            Sample(
                right,
                _outcome(right),
                response=text,
                tokens=tokens[i] if len(tokens) == len(texts) else None,
            )
            for i, text in enumerate(texts)
        ),
    )


def _inspect(file: Path, score: str | None) -> Side:
    head, samples = _inspect_parts(file)
    require(head.get("status", "success") == "success", "log", file, f"is {head.get('status')}")
    spec, plan = head["eval"], head.get("plan") or {}
    how = (spec.get("model_generate_config") or {}) | (plan.get("config") or {})
    names = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k"}
    settings = {ours: how[theirs] for theirs, ours in names.items() if how.get(theirs) is not None}
    if how.get("stop_seqs"):
        settings["stop"] = how["stop_seqs"]
    problems = []
    for row in sorted(samples, key=lambda row: row.get("epoch", 1)):
        if row.get("error") or not row.get("scores"):
            raise UserError(f"{file}: sample {row['id']} has no score; run it to its end first")
        one = row["scores"][_chosen(row["scores"].keys(), score, str(file))]
        value = one["value"]
        right = LETTERS.get(value, value) if isinstance(value, str) else value
        if not isinstance(right, int | float):
            raise UserError(f"{file}: the score {value!r} of sample {row['id']} is no number")
        problems.append(_inspect_problem(row, float(right), _text(one.get("answer"))))
    return _side(
        "inspect",
        str(file),
        _grouped(problems),
        model=spec.get("model"),
        settings=settings,
        max_tokens=how.get("max_tokens"),
        exact=False,
    )


def _inspect_problem(row: dict, right: float, answer: str | None) -> Problem:
    attached, output = row.get("attachments") or {}, row["output"]
    choice = (output.get("choices") or [{}])[0]
    asked = []
    for message in row.get("messages") or []:
        if message["role"] == "assistant":
            break
        asked.append(message)
    text = _messages(row["input"], role=False, attached=attached)
    response = output.get("completion") or choice.get("message", {}).get("content", "")
    reason = choice.get("stop_reason")
    sample = Sample(
        right,
        _outcome(right),
        answer,
        _messages(response, role=False, attached=attached),
        (output.get("usage") or {}).get("output_tokens"),
        None if reason in (None, "unknown") else reason not in ("max_tokens", "model_length"),
    )
    prompt = _messages(asked, attached=attached) if asked else None
    return Problem(str(row["id"]), (text,), prompt, (sample,), (str(row["id"]),))


def _inspect_parts(file: Path) -> tuple[dict, list[dict]]:
    """Return what the log says about the whole evaluation, and its samples."""
    try:
        if file.suffix == ".json":
            whole = json.loads(file.read_text())
            require("eval" in whole, "log", file, "is no log of inspect")
            return whole, whole.get("samples") or []
        with zipfile.ZipFile(file) as parts:
            names = parts.namelist()
            head = "header.json" if "header.json" in names else "start.json"
            own = [name for name in names if name.startswith("samples/")]
            return json.loads(parts.read(head)), [json.loads(parts.read(name)) for name in own]
    except (OSError, ValueError, KeyError, NotImplementedError, zipfile.BadZipFile) as error:
        raise UserError(f"{file}: cannot be read as a log of inspect ({error})") from error


def _parquet(files: list[Path]) -> list[dict]:
    import pandas as pd

    try:
        rows = pd.concat([pd.read_parquet(file) for file in files]).to_dict("records")
    except (OSError, ValueError) as error:
        raise UserError(f"{files[0]}: cannot be read ({error})") from error
    require(bool(rows), "log", files[0], "holds no row")
    return rows


def _chosen(names, score: str | None, path: str) -> str:
    """Return the score that is meant. Raises UserError if there are several and none is named, or
    if the named one is unknown."""
    known = sorted(names)
    if score is None:
        require(
            len(known) == 1, "score", None, f"{path} has {known}; name one with a.score, b.score"
        )
        return known[0]
    require(score in known, "score", score, f"{path} has {known}")
    return score


def _one_step(steps: set, path: str) -> None:
    found = f"holds {len(steps)} steps ({sorted(steps, key=str)[:5]})"
    require(len(steps) == 1, "log", path, f"{found}; give one checkpoint's file")


def _need(rows: list[dict], names: tuple[str, ...]) -> None:
    for row in rows:
        missing = [name for name in names if name not in row]
        if missing:
            raise UserError(f"{row['file']}, row {row['line']}: no field {missing[0]}")


def _list(value: Any) -> list:
    """Return a list of `value`, [] for None: pandas has arrays for the lists of a parquet file."""
    return [] if value is None else list(value)


def _sample(right: bool, response: str, parsed: str | None = None) -> Sample:
    return Sample(float(right), _outcome(right), parsed, response)


def _outcome(right: float) -> str:
    return {1.0: "correct", 0.0: "wrong"}.get(float(right), "part")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _messages(value: Any, *, role: bool = True, attached: dict | None = None) -> str:
    """Return a text as it is, and chat messages as text: each role's name and what it says, one per
    line."""
    if isinstance(value, str):
        return (attached or {}).get(value.removeprefix("attachment://"), value)
    parts = []
    for message in value:
        said = message.get("content", message.get("text", ""))
        if not isinstance(said, str):
            said = "".join(part.get("text") or "" for part in said)
        said = (attached or {}).get(said.removeprefix("attachment://"), said)
        parts += [message["role"], said] if role else [said]
    return "\n".join(parts)
