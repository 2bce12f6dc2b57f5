"""Verifier of Python programs against unit tests, run in `common.verifiers.code.sandbox`.

The semantics are LiveCodeBench's checker's; docs/verifiers.md says where they differ. Each test has
a fresh process, and the first that fails is the last to run. The reference is JSON, {"tests":
[{"input", "output"}], "test_type", "fn_name", "time_limit"}. Expected outputs stay in this process,
which compares them with what the program wrote.
"""

import hashlib
import json
import re
import textwrap
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from itertools import zip_longest

from common.errors import UserError, require
from common.types import Outcome, Verdict
from common.verifiers.code import rows, sandbox

LARGEST_EXAMPLE = 65_536  # the most characters of tests for which `example` makes a program
# Indentation with list markers, other text, the fence and its tag: "- ```python", "```{.py}"
FENCE = re.compile(
    r"(\s*+(?:(?:[-*+]|\d{1,3}[.)])\s+)*+)([^`~]*+)(`{3,}+|~{3,}+)[\s{.\[]*+(\w*+)[^`]*+"
)
PYTHON = re.compile(r"c?python\d*|py(?:py)?\d?", re.IGNORECASE)
SESSION = re.compile(r"(?:\s+|#[^\n]*)*+(?:>>>|In \[\d|\$ )")  # a prompt, after comments
# A text without any fence is taken for a program if one of its lines can only be code.
STATEMENT = re.compile(
    r"^[ \t]*+(?:import \w|from [\w.]++ import |(?:async )?def \w|class \w++[:(]|@\w|raise\b|"
    r"(?:for|while|if|with|try|match)\b[^\n]*:|[\w.]++\(|\w[\w.\[\], ]*+[-+*/%&|^<>]{0,3}=[^=])",
    re.MULTILINE,
)


def verify(
    response: str,
    reference: str,
    *,
    memory_gb: float = 1.0,
    total_time: float = 90.0,
    opened: bool = False,
    strict: bool = False,
) -> Verdict:
    """Return the verdict on the program in `response` (`extract`): "correct" where every test
    passes, "timeout" past a test's time limit or `total_time` seconds for all tests, "unparsed"
    without a program, "error" where the sandbox failed, else "wrong"; `reason` names the test.

    `memory_gb` limits the address space of each process, and the memory of all processes of a test
    together, in addition to five files in memory and /tmp of 64 MiB each. `opened`: the prompt ends
    in <think>, and a response that never closes it has no program. `strict`: the program has to be
    in a fence after a closed thought. `parsed` is a hash of the program. Raises UserError for a bad
    reference, or where there is no bubblewrap.
    """
    require(memory_gb >= 0.25, "memory_gb", memory_gb, "must be at least 0.25 GiB")
    require(total_time > 0, "total_time", total_time, "must be above 0 seconds")
    tests, function, limit = _load(reference)
    program = extract(response, opened, strict)
    if program is None:
        where = " behind a closed thought" if strict else ""
        return Verdict("unparsed", 0.0, reason=f"no closed python code fence{where}")
    parsed = hashlib.sha256(program.strip().encode("utf-8", "replace")).hexdigest()[:16]
    left = total_time
    for number, (text, expected) in enumerate(tests, 1):
        where = f"test {number} of {len(tests)}: "
        if left <= 0:
            return _verdict("timeout", parsed, f"{where}{total_time:g} s for all tests are over")
        seconds = min(limit, left)
        result = sandbox.run(
            program, text, seconds=seconds, memory=int(memory_gb * 2**30), function=function
        )
        left -= result.seconds
        fault = _fault(result, seconds, memory_gb)
        if fault is None and function is None:
            fault = _different_lines(result.output, expected)
        elif fault is None:
            fault = _different_value(result.value, expected)
        if fault is not None:
            outcomes: dict[str, Outcome] = {"timeout": "timeout", "sandbox": "error"}
            return _verdict(outcomes.get(result.status, "wrong"), parsed, where + fault)
    return Verdict("correct", 1.0, parsed)


def _verdict(outcome: Outcome, parsed: str, reason: str) -> Verdict:
    return Verdict(outcome, 0.0, parsed, reason[:300])


def _fault(result: sandbox.Result, seconds: float, memory_gb: float) -> str | None:
    if result.status == "exited" and result.code == 0:
        return None
    last = result.errors.strip().rpartition("\n")[2][:150]
    said = {
        "exited": f"exit status {result.code}, {last!r}",
        "killed": f"ended by signal {result.code}, {last!r}",
        "timeout": f"not done after {seconds:.3g} s",
        "memory": f"more than {memory_gb:g} GiB",
        "processes": f"more than {sandbox.PROCESSES} processes",
        "output": f"more than {sandbox.OUTPUT >> 20} MiB of output",
    }
    return said.get(result.status, f"the sandbox failed: {result.errors[-200:]!r}")


def _different_lines(output: str, expected: str) -> str | None:
    ours, gold = output.strip(), expected.strip().split("\n")
    for number, (a, b) in enumerate(zip_longest(ours.split("\n", len(gold)), gold), 1):
        if a is None or b is None:
            lines = ours.count("\n") + 1
            return f"{lines} lines of output, not {len(gold)}"
        if a.strip() != b.strip() and not _same_decimals(a, b):
            return f"line {number}: {a.strip()[:80]!r}, not {b.strip()[:80]!r}"
    return None


def _same_decimals(a: str, b: str) -> bool:
    gold = b.split()
    ours = a.split(None, len(gold))  # a long line is not taken apart
    if len(ours) != len(gold):
        return False
    try:
        return [Decimal(x) for x in ours] == [Decimal(x) for x in gold]
    except InvalidOperation:  # no number, or a signalling NaN
        return False


def _different_value(value: str, expected: str) -> str | None:
    if len(value) > 16 * len(expected) + 2**20:  # no spelling of the same value
        return f"{len(value)} characters of output, not {len(expected)}"
    try:
        ours, gold = (json.loads(text, parse_int=Decimal) for text in (value, expected))
        if ours == gold:  # a Decimal equals its int; Python refuses to read ints of 4,300 digits
            return None
    except (ValueError, RecursionError):
        return f"{value[:80]!r} cannot be compared"
    return f"{value[:80]!r}, not {expected.strip()[:80]!r}"


def extract(response: str, opened: bool = False, strict: bool = False) -> str | None:
    """Return the program: the last closed fence after </think> that is tagged as Python; else the
    last one without a tag, if possible one that looks like code; the whole text if it has no fence
    and looks like code. A session (">>> main()") is no program, and a fence in a list loses its
    indentation. Return None without a program or if the thinking never ends; with `strict`, also
    without a thought or a fence."""
    thought, ended, text = response.rpartition("</think>")
    if not ended and (opened or strict or "<think>" in text):
        return None
    if strict and not (opened or "<think>" in thought):
        return None
    programs: dict[int, str] = {}  # the last one by rank: 0 no tag, 1 and looks like code, 2 Python
    fence, indent, seen, rank, lines = "", 0, False, -1, []
    for line in text.splitlines(keepends=True):
        rest = line.strip().removesuffix("</answer>")
        if fence and rest.startswith(fence) and not rest.strip(fence[0]):
            program = "".join(lines)
            if program.lstrip("\r\n")[:1] in (" ", "\t"):
                program = textwrap.dedent(program)
            if rank == 0 and STATEMENT.search(program):
                rank = 1
            if rank >= 0 and not SESSION.match(program) and (program.strip() or not programs):
                programs[rank] = program
            fence = ""
        elif fence:
            margin = len(line) - len(line.lstrip(" \t"))
            lines.append(line[min(margin, indent) :])
        elif opening := FENCE.fullmatch(line):
            place, before, ticks, tag = opening.groups()
            rank = 2 if PYTHON.fullmatch(tag) else -1 if tag else 0
            if rank == 2 or not before:  # a sentence may speak of a fence
                fence, indent, seen, lines = ticks, len(place), True, []
    if not seen and not strict and STATEMENT.search(text):
        return text
    return programs[max(programs)] if programs else None


@lru_cache(maxsize=16)
def _load(reference: str) -> tuple[list[tuple[str, str]], str | None, float]:
    """Return (input, expected output) pairs, the function's name or None, and the seconds for each
    test. A functional test's input becomes one JSON list of its arguments."""
    try:
        fields = json.loads(reference)
        tests = [(test["input"], test["output"]) for test in fields["tests"]]
        function = fields["fn_name"] if fields["test_type"] == "functional" else None
        limit = float(fields["time_limit"])
        if not all(isinstance(text, str) for test in tests for text in test):
            raise TypeError("tests are not texts")
        if function is not None:
            tests = [(_arguments(text), output) for text, output in tests]
            for _, output in tests:
                json.loads(output, parse_int=Decimal)
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"reference={reference[:80]!r}: not one of common.verifiers.code.reference, {error!r}"
        ) from None
    require(bool(tests), "reference", reference[:80], "has no tests: drop the row")
    require(limit > 0, "time_limit", limit, "must be above 0 seconds")
    named = fields["test_type"] != "functional" or bool(function and isinstance(function, str))
    require(named, "fn_name", fields["fn_name"], "a functional test needs the function's name")
    return tests, function, limit


def _arguments(text: str) -> str:
    return json.dumps([json.loads(line) for line in text.strip("\n").split("\n")])


def reference(row: dict) -> str:
    """Return the reference of a row (see rows.py). Raises UserError for missing or bad tests."""
    text = rows.reference(row)
    try:
        _load(text)
    except UserError as error:
        raise UserError(f"row {rows.name(row)}: {error}") from None
    return text


def response(row: dict) -> str:
    """Return the response of a case row: `response`, or `code` in a fence longer than any in it."""
    if row.get("code") is None:
        return row["response"]
    longest = max(map(len, re.findall(r"[`~]+", row["code"])), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}python\n{row['code']}\n{fence}\n"


def example(reference: str) -> str | None:
    """Return a program that knows the tests by heart, and so fails on another problem's. None where
    the tests are long or contradict each other."""
    tests, function, _ = _load(reference)
    if sum(map(len, (text for test in tests for text in test))) > LARGEST_EXAMPLE:
        return None
    table = dict(tests)
    if any(table[text] != output for text, output in tests):
        return None
    if function is None:
        body = f"import sys\nprint({table!r}[sys.stdin.buffer.read().decode()])"
    else:
        body = f"import json\nT = {table!r}\ndef {function}(*values):\n"
        body += "    return json.loads(T[json.dumps(list(values))])"
    return f"```python\n{body}\n```"


prepare = sandbox.require_bwrap  # called before compute is spent
