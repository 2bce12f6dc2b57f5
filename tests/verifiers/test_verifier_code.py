import base64
import json
import os
import pickle
import zlib
from pathlib import Path

import pytest
import yaml
from code_cases import isolated, judge, reference
from labelled import rows
from timing import cpu_seconds

from common.errors import UserError
from common.verifiers.code import verifier

EXPECTED = {
    "pass": {"correct"},
    "fail": {"wrong"},
    "timeout": {"timeout"},
    "not_pass": {"wrong", "timeout"},
    "any": {"correct", "wrong", "timeout"},
}


def cases(name: str) -> list:
    return yaml.safe_load(Path(__file__).with_name(f"code_{name}.yaml").read_text("utf-8"))


@isolated
def test_every_shared_case_is_judged_as_labelled():
    problems = {row["id"]: row for row in rows("code_samples")}
    misjudged = {}
    for case in rows("code_cases"):
        limit = 0.5 if case["expect"] in ("timeout", "not_pass") else 6.0
        row = problems[case["problem_id"]] | {"time_limit": limit}
        row["tests"] = row["tests"][:20]  # the long rows repeat themselves
        verdict = verifier.verify(verifier.response(case), verifier.reference(row))
        if verdict.outcome not in EXPECTED[case["expect"]]:
            misjudged[case["id"]] = (case["expect"], verdict)
        assert verdict.reward == (verdict.reason == "") == (verdict.outcome == "correct")
    assert not misjudged


@isolated
def test_every_shared_problem_has_an_example_that_passes_for_it_alone():
    problems = [row for row in rows("code_samples") if row["tests"]]
    references = [verifier.reference(row | {"tests": row["tests"][:3]}) for row in problems]
    assert len(references) > 8
    for ref, other in zip(references[1:], references, strict=False):
        assert verifier.verify(verifier.example(ref), ref).outcome == "correct"
        if json.loads(other)["tests"] != json.loads(ref)["tests"]:
            assert verifier.verify(verifier.example(ref), other).outcome == "wrong"


# --- semantics ----------------------------------------------------------------------------------


@isolated
@pytest.mark.parametrize("program", cases("programs"))
def test_ways_to_read_and_write(program):
    verdict = judge(program, time_limit=6.0)
    assert verdict.outcome == "correct", verdict


@isolated
@pytest.mark.parametrize(
    ("output", "expected", "same"),
    [
        ("1.500", "1.5", True),
        ("1e3 2", "1000 2.0", True),
        ("1.5000000001", "1.5", False),
        ("0.30000000000000004", "0.3", False),
        ("  a  \n b ", "a\nb\n\n", True),
        ("a b", "a  b", False),
        ("a\r\nb", "a\nb", True),
        ("é→😀", "é→😀", True),
        ("nan", "nan", True),
        ("sNaN", "1", False),
        ("", "", True),
        ("", "0", False),
    ],
)
def test_comparison_of_output(output, expected, same):
    program = f"import sys\nsys.stdout.buffer.write({output.encode()!r})"
    assert judge(program, [("", expected)]).reward == same


def test_a_large_output_is_not_taken_apart():
    line, lines, zeros = "2 " * 2**22, "2\n" * 2**22, "[" + "0, " * 2**21 + "0]"
    for output, expected in ((line, "2 2"), (lines, "2")):
        seconds, said = cpu_seconds(verifier._different_lines, output, expected)
        assert seconds < 0.5
        assert said is not None
    assert "4194304 lines" in said
    seconds, said = cpu_seconds(verifier._different_value, zeros, "[0, 0]")
    assert said is not None
    assert seconds < 0.1
    assert verifier._different_value(zeros, zeros.replace(" ", "")) is None


@isolated
@pytest.mark.parametrize(
    ("body", "expected", "outcome"),
    [
        ("return [a, b]", "[1, [2]]", "correct"),
        ("return [float(a), b]", "[1, [2]]", "correct"),
        ("print([a, b])", "[1, [2]]", "wrong"),
        ("return '[1, [2]]'", "[1, [2]]", "wrong"),
        ("b.append(3); return [a, b]", "[1, [2]]", "wrong"),
        ("return {1, 2}", "[1, 2]", "wrong"),
        ("import sys; sys.exit(0)", "null", "wrong"),
        ("x = []; x.append(x); return x", "[]", "wrong"),
        ("x = []\n        for _ in range(10**5): x = [x]\n        return x", "[]", "wrong"),
        ("return 10**10_000", "1", "wrong"),
        ("return a * 10**6_000", "1" + "0" * 6_000, "correct"),
        ("return a * 10**6_000", "1" + "0" * 5_999 + "1", "wrong"),
        ("return 10**60_000", "1", "wrong"),
        ("return float('nan')", "NaN", "wrong"),
    ],
)
def test_functional(body, expected, outcome):
    program = "class Solution:\n    def f(self, a: int, b: List[int]) -> Optional[int]:\n"
    program += f"        {body}"
    program += "\nif __name__ == '__main__':\n    print(Solution().f(*map(int, input().split())))"
    fields = {"test_type": "functional", "fn_name": "f"}
    verdict = judge(program, [("1\n[2]", expected)], **fields)
    assert verdict.outcome == outcome, verdict


@isolated
def test_a_name_of_the_imports_is_no_solution():
    fields = {"test_type": "functional", "fn_name": "gcd"}
    assert judge("x = 1", [("4\n6", "2")], **fields).outcome == "wrong"
    assert judge("def gcd(a, b): return 2", [("4\n6", "2")], **fields).outcome == "correct"


@isolated
def test_time_in_all_is_bounded():
    program = "```python\nimport time\ntime.sleep(0.4)\nprint(1)\n```"
    ref = reference([("", "1")] * 10, time_limit=1.0)
    verdict = verifier.verify(program, ref, total_time=0.6)
    assert verdict.outcome == "timeout"
    assert verdict.reason.startswith("test 2 of 10")


# --- the program in a response ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "program"),
    [
        *((case["response"], case["program"]) for case in cases("responses")),
        ("`" * 1_000_000, None),
        (" " * 1_000_000 + "!", None),
        ("```" + "a" * 1_000_000 + "`", None),
        ("a, " * 300_000, None),
    ],
)
def test_extract(response, program):
    seconds, extracted = cpu_seconds(verifier.extract, response)
    assert extracted == program
    assert seconds < 1


@pytest.mark.parametrize(
    ("response", "strict", "opened"),
    [
        # a program under: strict; strict, the prompt ending in <think>
        ("<think>\nso\n</think>\n```python\nprint(1)\n```", True, True),
        ("so\n</think>\n```python\nprint(1)\n```", False, True),
        ("```python\nprint(1)\n```", False, False),
        ("<think>so</think>\nprint(1)", False, False),
        ("so</think>\nimport os\nprint(1)", False, False),
        ("print(1)", False, False),
        ("<think>so</think>\n```python\nprint(1)", False, False),
        ("<think>so\n```python\nprint(1)\n```", False, False),
        ("so\n```python\ndraft\n```\n</think>\n```python\nprint(1)\n```", False, True),
    ],
)
def test_a_strict_format_wants_a_closed_thought_and_a_fence(response, strict, opened):
    """FADE's reward: format and answer, both or nothing. A program within the thought is a draft,
    also where the prompt ends in <think>, as Code World Model's does."""
    found = (
        verifier.extract(response, opened=False, strict=True),
        verifier.extract(response, opened=True, strict=True),
    )
    assert found == tuple("print(1)\n" if one else None for one in (strict, opened))
    if "</think>" not in response:
        assert verifier.extract(response, opened=True) is None
    assert verifier.verify("print(1)", reference(), strict=True).outcome == "unparsed"


def test_response_survives_its_own_fence():
    for program in ("x\n", "s = '```'", "'''\n````\n'''"):
        assert verifier.extract(verifier.response({"code": program})).strip() == program.strip()
    assert verifier.response({"response": "r"}) == "r"


# --- rows of the public sets -------------------------------------------------------------------


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
