"""References of the code verifier, made from the rows of data sets of programming problems."""

import base64
import binascii
import json
import pickletools
import re
import zlib

from common.errors import UserError

TIME_LIMIT = 6.0  # seconds for a test, as in LiveCodeBench
LARGEST = 1 << 30  # bytes that a row's compressed tests may unpack to


def reference(row: dict) -> str:
    """Return the reference of a row as JSON. Its tests may have any of these forms:

    tests, test_type, fn_name                       the shared data, and rows made by hand
    public_test_cases, private_test_cases, metadata LiveCodeBench on the hub
    public_tests, private_tests, generated_tests    CodeContests
    input_output                                    TACO and APPS (fn_name makes them functional)

    A row with `tests` may have its `time_limit`. CodeContests' limits were set for C++, so they
    count only above 6 s. Raises UserError where a row has no tests, or they cannot be read.
    """
    where = name(row)
    function, limit = row.get("fn_name"), TIME_LIMIT
    kind = row.get("test_type")
    try:
        if row.get("tests"):
            tests = row["tests"]
            limit = row.get("time_limit") or limit
            if kind == "functional":
                function = function or _starter(row.get("starter_code"))
        elif row.get("public_test_cases"):
            tests = json.loads(row["public_test_cases"]) + _private(row.get("private_test_cases"))
            function = json.loads(row.get("metadata") or "{}").get("func_name") or _starter(
                row.get("starter_code")
            )
            kind = tests[0].get("testtype") if tests else None
        elif "public_tests" in row:
            groups = [row.get(f"{g}_tests") for g in ("public", "private", "generated")]
            tests = [test for group in groups if group for test in _zipped(group)]
            set_for = row.get("time_limit") or {}
            if isinstance(set_for, dict):
                cpp = (set_for.get("seconds") or 0) + (set_for.get("nanos") or 0) / 1e9
                limit = max(limit, cpp)
        elif row.get("input_output"):
            tests, function = _taco(row["input_output"])
        else:
            tests = []
        tests = [{"input": test["input"], "output": test["output"]} for test in tests]
        limit = float(limit)
    except (ValueError, KeyError, TypeError, AttributeError, zlib.error) as error:
        raise UserError(f"row {where}: its tests cannot be read: {error!r}") from None
    if not tests:
        raise UserError(f"row {where}: tests is empty: a program cannot be judged; drop the row")
    kind = kind or ("functional" if function else "stdin")
    fields = {
        "tests": tests,
        "test_type": kind,
        "fn_name": function if kind == "functional" else None,
        "time_limit": limit,
    }
    return json.dumps(fields, sort_keys=True)


def name(row: dict) -> str:
    return str(row.get("id") or row.get("question_id") or row.get("name") or "?")


def _zipped(group: dict) -> list[dict]:
    names = ("inputs", "outputs") if "inputs" in group else ("input", "output")
    pairs = zip(group[names[0]], group[names[1]], strict=True)
    return [{"input": given, "output": output} for given, output in pairs]


def _starter(code: str | None) -> str | None:
    """Return the name of the first method in LeetCode's starter code, or None."""
    names = re.findall(r"^\s+def (\w+)\(self", code or "", re.MULTILINE)
    return names[0] if names else None


def _taco(text: str | dict) -> tuple[list[dict], str | None]:
    """Return the tests and the function name in the input_output of TACO and APPS. Standard input
    and output may be lists of lines. Functional outputs wrapped in lists of one are unwrapped if
    all are."""
    fields = json.loads(text) if isinstance(text, str) else text
    tests, function = _zipped(fields), fields.get("fn_name")
    outputs = [test["output"] for test in tests]
    if function and all(isinstance(output, list) and len(output) == 1 for output in outputs):
        outputs = [output[0] for output in outputs]
    for test, output in zip(tests, outputs, strict=True):
        if function:
            test["input"] = "\n".join(json.dumps(argument) for argument in test["input"])
            test["output"] = json.dumps(output)
        else:
            for side in ("input", "output"):
                if isinstance(test[side], list):
                    test[side] = "\n".join(str(line) for line in test[side])
    return tests, function


def _private(text: str | None) -> list[dict]:
    """Return LiveCodeBench's private tests from JSON, or from base64 of zlib of a pickle of one
    JSON string.

    The pickle is never loaded: its opcodes are listed, which runs nothing, and only one string and
    the marks around it are accepted.
    """
    if not text:
        return []
    if text.lstrip().startswith("["):
        return json.loads(text)
    unpacker = zlib.decompressobj()
    try:
        packed = unpacker.decompress(base64.b64decode(text, validate=True), LARGEST)
    except binascii.Error as error:
        raise ValueError(f"private_test_cases is neither JSON nor base64: {error}") from None
    if unpacker.unconsumed_tail:
        raise ValueError(f"private_test_cases unpacks to more than {LARGEST} bytes")
    around = {"PROTO", "FRAME", "MEMOIZE", "BINPUT", "LONG_BINPUT", "PUT", "STOP"}
    texts = []
    for operation, argument, _ in pickletools.genops(packed):
        if "UNICODE" in operation.name:
            texts.append(argument)
        elif operation.name not in around:
            raise ValueError(f"private_test_cases holds the pickle operation {operation.name}")
    if len(texts) != 1:
        raise ValueError(f"private_test_cases holds {len(texts)} strings, not 1")
    return json.loads(texts[0])
