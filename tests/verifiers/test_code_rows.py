"""References of the code verifier: rows of the public sets."""

import base64
import json
import os
import pickle
import zlib

import pytest

from common.errors import UserError
from common.verifiers.code import verifier


def read_tests(row: dict) -> list[tuple[str, str]]:
    fields = json.loads(verifier.reference({"id": "x"} | row))
    return [(test["input"], test["output"]) for test in fields["tests"]]


def hub(private, **fields) -> dict:
    public = json.dumps([{"input": "1", "output": "2", "testtype": "stdin"}])
    return {"question_id": "q", "public_test_cases": public, "private_test_cases": private} | fields


def packed(thing, protocol=4) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(thing, protocol))).decode()


def test_livecodebench_rows():
    private = [{"input": "é", "output": "4", "testtype": "stdin"}]
    both = [("1", "2"), ("é", "4")]
    assert read_tests(hub(json.dumps(private))) == both
    plain = base64.b64encode(zlib.compress(json.dumps(private).encode())).decode()
    assert read_tests(hub(plain)) == both
    for protocol in range(6):
        assert read_tests(hub(packed(json.dumps(private, ensure_ascii=False), protocol))) == both
    row = hub("", metadata='{"func_name": "f"}')
    row["public_test_cases"] = row["public_test_cases"].replace("stdin", "functional")
    assert json.loads(verifier.reference(row))["fn_name"] == "f"
    row["metadata"], row["starter_code"] = "{}", "class Solution:\n    def g(self, x):\n        "
    assert json.loads(verifier.reference(row))["fn_name"] == "g"


class Attack:
    def __reduce__(self):
        return (os.mkdir, ("unpickled",))


def test_pickles_are_never_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for thing in (Attack(), ["[]"], ("[]", "[]"), b"[]", {"a": "[]"}):
        for protocol in (0, 2, 4):
            with pytest.raises(UserError, match=r"row q.*pickle operation|row q.*strings"):
                verifier.reference(hub(packed(thing, protocol)))
    assert list(tmp_path.iterdir()) == []
    for private in ("???", "AAAA", packed("[]")[:-8]):
        with pytest.raises(UserError, match="row q: its tests cannot be read"):
            verifier.reference(hub(private))


def test_contest_rows():
    row = {
        "name": "n",
        "public_tests": {"input": ["1"], "output": ["2"]},
        "private_tests": {"input": [], "output": []},
        "generated_tests": {"input": ["3"], "output": ["4"]},
        "time_limit": {"seconds": 8, "nanos": 500_000_000},
    }
    assert read_tests(row) == [("1", "2"), ("3", "4")]
    assert json.loads(verifier.reference(row))["time_limit"] == 8.5
    row["time_limit"] = {"seconds": 1, "nanos": 0}
    assert json.loads(verifier.reference(row))["time_limit"] == 6.0
    row["public_tests"]["output"] = []
    with pytest.raises(UserError, match="tests cannot be read"):
        verifier.reference(row)


def test_taco_rows():
    tests = {"inputs": ["1\n", ["2", "3"]], "outputs": ["4\n", ["5", "6"]]}
    assert read_tests({"input_output": json.dumps(tests)}) == [("1\n", "4\n"), ("2\n3", "5\n6")]
    tests = {"fn_name": "f", "inputs": [[[1, 2], "a"]], "outputs": [[3]]}
    row = {"id": "x", "input_output": json.dumps(tests)}
    assert read_tests(row) == [('[1, 2]\n"a"', "3")]
    assert json.loads(verifier.reference(row))["test_type"] == "functional"
    tests["outputs"] = [[3, 4]]
    assert read_tests({"input_output": tests | {"inputs": [[5]]}}) == [("5", "[3, 4]")]
