"""A program and its tests for the code verifier, and whether its sandbox works here."""

import pytest

from common.errors import UserError
from common.verifiers.code import sandbox, verifier

TESTS = [("3\n1 2 3\n", "6\n"), ("1\n-5\n", "-5\n")]

SUM = "n = int(input())\nprint(sum(map(int, input().split())))\n"


def cannot() -> str:
    """Why the sandbox cannot work here, "" where it can."""
    try:
        sandbox.require_bwrap()
    except UserError as error:
        return str(error)
    return ""


WHY_NOT = cannot()


def isolated(test):
    """The test runs programs in the sandbox, and is skipped where there is none."""
    return pytest.mark.sandbox(pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)(test))


def reference(tests=TESTS, time_limit=2.0, **fields) -> str:
    tests = [{"input": given, "output": output} for given, output in tests]
    return verifier.reference({"id": "x", "tests": tests, "time_limit": time_limit, **fields})


def judge(program: str, tests=TESTS, **fields):
    return verifier.verify(verifier.response({"code": program}), reference(tests, **fields))
