"""Verdicts on a file of responses, one JSON object a line on standard input.

    rlvr verify verifier=NAME [option=value ...] < cases.jsonl > verdicts.jsonl

NAME: math, choice, ifeval, synlogic, code, format, countdown, maze.

Each row has an `id`, a `response` (or `code`), and what the verifier compares with: `gold` or
`answer` and the fields of its data set (olympiadbench: is_multiple_answer, unit, error; choice:
options; ifeval: problem or prompt, instruction_id_list, kwargs; synlogic: data_source, metadata;
code: tests, test_type, fn_name). Rows of `kind` answer_pair or unit_test may hold a bare answer as
the response.

One row is written for each that is read, in order: id, outcome, reward, parsed, reason. The outcome
is correct, wrong, unparsed (no answer was found), timeout or error, with a reason, for a row that
cannot be scored or a line that is not JSON. Empty lines are skipped. A log of inspect (`.eval`) may
take the place of the lines: its samples are judged anew.

Rows of one problem_id (or id) are the samples of a problem. pass@k, with 95 % intervals over the
problems, is printed to standard error where all problems have as many samples. The exit status is 1
if all rows fail to be scored.

  fields.X=NAME    the field of a row that holds X, such as fields.response=output fields.answer=gts
  counts=FILE      writes benchmark, problem_id, n, c: a CSV that `rlvr import` reads
  problems=FILE    JSONL with the fields that the rows lack, found by problem_id or id
  workers=2        processes
  deadline=S       seconds a row, then its outcome is timeout (math 3, code 120, others 10)
  memory_gb=4      address space of a worker

Any other option is the verifier's own, such as convention=boxed for math: see docs/verifiers.md.
"""

import io
import json
import sys
from collections import Counter
from operator import itemgetter
from pathlib import Path
from types import ModuleType
from zipfile import BadZipFile, ZipFile

import pandas as pd

from common.config.compose import value
from common.config.resolve import module, resolve
from common.config.words import pairs, split
from common.errors import UserError, one_of, require
from common.metrics.report import from_counts
from common.results.files import read_jsonl, write_csv
from common.types import Verdict
from common.verifiers.guard import prepare
from common.verifiers.pool import Pool

NAMES = ("math", "choice", "ifeval", "synlogic", "code", "format", "countdown", "maze")
FAULT = "why this row cannot be judged"
FIELD, FILES = "fields.", ("problems", "counts")
DEADLINES = {"math": 3.0, "code": 120.0}  # seconds; others 10


def main(words: list[str]) -> None:
    asked, rest = split(words, {"verifier": ""})
    name = asked["verifier"]
    given = pairs(rest)
    one_of("verifier", name, NAMES)
    options: dict = {"workers": 2, "deadline": DEADLINES.get(name, 10.0), "memory_gb": 4.0}
    options |= {
        k: text if k in FILES or k.startswith(FIELD) else value(k, text)
        for k, text in given.items()
    }
    problems, target = options.pop("problems", None), options.pop("counts", None)
    fields = {key: options.pop(key) for key in [*options] if key.startswith(FIELD)}
    settings = {key: options.pop(key) for key in ("workers", "deadline", "memory_gb")}
    node = {"_target_": f"common.verifiers.{name}.verify", **options}
    resolve(node, "verifier")
    prepare(node)
    with Pool(node, **settings) as pool:
        pool.lenient = True
        cases = completed(renamed(read(sys.stdin.buffer.read()), fields), problems)
        verdicts = verdicts_of(cases, module(node), pool)
    for verdict in verdicts:
        if verdict.reason.partition("=")[0] in options:  # an option is at fault, not a row
            raise UserError(verdict.reason)
    for case, verdict in zip(cases, verdicts, strict=True):
        print(json.dumps({"id": case.get("id"), **vars(verdict)}))
    outcomes = Counter(verdict.outcome for verdict in verdicts)
    print(", ".join(f"{key} {count}" for key, count in outcomes.most_common()), file=sys.stderr)
    counts = counted(cases, verdicts, name)
    if target is not None:
        write_csv(Path(target), counts)
    print(*pass_at_ks(counts), sep="\n", file=sys.stderr)
    if set(outcomes) == {"error"}:
        sys.exit(1)


def renamed(cases: list[dict], fields: dict[str, str]) -> list[dict]:
    names = {key.removeprefix(FIELD): name for key, name in fields.items()}
    return [case | {x: case[name] for x, name in names.items() if name in case} for case in cases]


def counted(cases: list[dict], verdicts: list[Verdict], benchmark: str) -> pd.DataFrame:
    """Return benchmark, problem_id, n, c of each problem, without rows that could not be scored."""
    right: dict[str, list[bool]] = {}
    for case, verdict in zip(cases, verdicts, strict=True):
        problem = case.get("problem_id", case.get("id"))
        if problem is not None and verdict.outcome != "error":
            right.setdefault(str(problem), []).append(verdict.outcome == "correct")
    rows = [(benchmark, problem, len(all_), sum(all_)) for problem, all_ in right.items()]
    return pd.DataFrame(rows, columns=["benchmark", "problem_id", "n", "c"])


def pass_at_ks(counts: pd.DataFrame) -> list[str]:
    """Return a line for pass@1, pass@2, pass@4, ... if all problems have as many samples."""
    if counts["n"].nunique() != 1:
        return []
    n = int(counts["n"].iloc[0])
    rows = from_counts(counts, [2**i for i in range(n.bit_length())]).to_dict("records")
    rows = [row for row in rows if row["metric"].startswith("pass@")]
    size = f", {len(counts)} problem(s), {n} sample(s) each"
    interval = "" if len(counts) == 1 else " [{low:.1f}, {high:.1f}]"
    shape = "{metric} {value:.1f}" + interval + size
    return [shape.format(**row) for row in rows]


def read(data: bytes) -> list[dict]:
    """Return the rows of JSON lines or of a log of inspect; a line of another kind has a FAULT."""
    if data.startswith(b"PK"):
        return _samples(data)
    rows = []
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            if text := line.decode("utf-8-sig").strip():
                row = json.loads(text)
                rows.append(row if isinstance(row, dict) else {FAULT: f"line {number}: no object"})
        except (ValueError, RecursionError) as error:
            rows.append({FAULT: f"line {number}: cannot be read ({error})"})
    return rows


def _samples(log: bytes) -> list[dict]:
    """Return the samples of a log of inspect as rows. Raises UserError for another archive."""
    rows = []
    try:
        with ZipFile(io.BytesIO(log)) as parts:
            for name in sorted(one for one in parts.namelist() if one.startswith("samples/")):
                sample = json.loads(parts.read(name))
                target = sample["target"]
                row = dict(sample.get("metadata") or {}, id=sample["id"])
                row["answer"] = target[0] if isinstance(target, list) else target
                row |= {
                    "response": sample["output"]["completion"],
                    "options": sample.get("choices"),
                }
                if sample.get("error"):
                    row[FAULT] = "the sample ended in an error"
                rows.append(row)
    except (BadZipFile, NotImplementedError, KeyError, ValueError) as error:
        raise UserError(f"standard input: cannot be read as a log of inspect ({error})") from error
    require(bool(rows), "standard input", "", "is an archive, but has no samples of inspect")
    return rows


def verdicts_of(cases: list[dict], verifier: ModuleType, pool: Pool) -> list[Verdict]:
    """Return the verdict of every case row, in order; "error" where it cannot be scored."""
    pairs, refused = {}, {}
    response = getattr(verifier, "response", itemgetter("response"))
    for number, case in enumerate(cases):
        if "gold" in case:
            case = case | {"answer": case["gold"]}
        try:
            if FAULT in case:
                raise UserError(case[FAULT])
            text, reference = response(case), verifier.reference(case)
            if not isinstance(text, str):
                raise UserError(f"its response is {type(text).__name__}; it must be a string")
            pairs[number] = text, reference
        except KeyError as error:
            said = f"the row has no field {error}; it has {', '.join(case)}"
            refused[number] = Verdict("error", 0.0, reason=said[:300])
        except (UserError, AttributeError, TypeError, ValueError) as error:
            refused[number] = Verdict("error", 0.0, reason=str(error)[:300])
    scored = refused | dict(zip(pairs, pool.map(list(pairs.values())), strict=True))
    return [scored[number] for number in range(len(cases))]


def completed(cases: list[dict], problems: str | None) -> list[dict]:
    """Return the cases, completed from the problem of the same id in the file, or with a FAULT."""
    if problems is None:
        return cases
    known = {row["id"]: row for row in read_jsonl(Path(problems))}
    whole = []
    for case in cases:
        key = case.get("problem_id", case.get("id"))
        if key not in known and FAULT not in case:
            case = case | {FAULT: f"{problems}: has no problem id={key!r}, which it refers to"}
        given = {field: v for field, v in case.items() if v is not None}
        whole.append(known.get(key, {}) | given)
    return whole
