"""The file of claims: mistakes are named, scopes and rendering; and the papers' own tables."""

import pandas as pd
import pytest
from claim_rows import order, rows, verdict, verdicts
from tiny import ROOT

from common.claims.file import load
from common.claims.forms import form_of
from common.claims.text import counts, to_markdown
from common.errors import UserError

PUBLISHED = ROOT / "papers" / "f_grpo" / "published"

MODELS = ["Qwen2.5-7B", "Qwen2.5-1.5B-Math", "Llama-3.2-3B-Instruct"]

OOD = ["IFEval", "SynLogic", "GPQA"]
PAIRS = [
    [{"model": model, "method": f"F-{method}"}, {"model": model, "method": method}]
    for model in MODELS
    for method in ("GRPO", "DAPO", "CISPO")
]

GOOD = """
- id: c1
  claim: A is above B
  source: Table 1
  published: {order: [{method: A}, {method: B}], relation: ">"}
"""


ORDER = 'order: [{method: A}, {method: B}], relation: ">"'


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("source", "sorce", ["claim c1", "unknown key sorce", "did you mean source?"]),
        ("published", "publised", ["claim c1", "did you mean published?"]),
        ("order", "oder", ["claim c1: published", "unknown key oder", "did you mean order?"]),
        ("{method: A}", "{methd: A}", ["claim c1: published", "did you mean method?"]),
        ("{method: A}", "{method: []}", ["method=[]"]),
        ("{method: A}, ", "", ["order=[{'method': 'B'}]"]),
        ('">"', '"~"', ["relation=~"]),
        (', relation: ">"', "", ["relation=", "is missing"]),
        ('">"', '">", margin: much', ["margin='much'"]),
        ('">"', '">", range: {of: {}, low: 1}', ["form=['order', 'range']"]),
        (ORDER, "range: {of: {method: A}}", ["range={'method': 'A'}"]),
        (ORDER, 'difference: {a: {}, b: {}, relation: "~", value: 1}', ["within=None"]),
        (ORDER, 'count: {pairs: [[{}]], relation: ">", at_least: 1}', ["pairs.0.1"]),
        (ORDER, 'count: {pairs: [[{}, {}]], relation: ">", at_least: 7}', ["at_least=7"]),
        (ORDER, 'count: {of: [{}, {}], relation: ">", at_least: 2}', ["value=", "is missing"]),
        (ORDER, 'count: {of: [{}, {}], relation: ">", value: 1, at_least: 3}', ["at_least=3"]),
        ("source:", "ours: no\n  source:", ["ours=False"]),
        (
            ORDER,
            'count: {pairs: [[{}, {}]], each: {model: A}, relation: ">", at_least: 1}',
            ["each.0.model='A'"],
        ),
        ("source: Table 1", "", ["claim c1: source=", "is missing"]),
        (GOOD, GOOD + GOOD, ["claim c1: id=c1"]),
        (GOOD, "claim", ["claims.yaml=str"]),
        (GOOD, "- [", ["cannot be read"]),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path, old, new, words):
    path = tmp_path / "claims.yaml"
    path.write_text(GOOD)
    assert load(path)[0].id == "c1"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(UserError) as error:
        load(path)
    assert all(word in str(error.value) for word in ["claims.yaml", *words]), error.value


def test_each_takes_every_pair_with_every_combination():
    pairs = [[{"method": "A"}, {"method": "B"}]]
    each = {"model": ["x", "y"], "k": [1, 8]}
    body = {"pairs": pairs, "each": each, "relation": ">", "at_least": 4}
    selectors = form_of({"count": body, "where": {"table": "t"}}).selectors
    assert selectors == [
        {"table": "t", "model": model, "k": k, "method": method}
        for model in ("x", "y")
        for k in (1, 8)
        for method in ("A", "B")
    ]
    body |= {"each": [{"model": ["x"], "k": [1, 8]}, {"model": ["y"], "k": [1]}], "at_least": 3}
    some = form_of({"count": body, "where": {"table": "t"}}).selectors
    assert some == selectors[:6]  # not (y, 8)


def test_scopes_and_rendering(tmp_path):
    path = tmp_path / "claims.yaml"
    path.write_text(
        GOOD.replace("A is above", "A | is above") + "  cluster: {range: {of: {}, low: 1}}\n"
    )
    table = verdicts(load(path), {"published": rows({"A": 2.0, "B": 1.0})})
    assert table.loc[0, ["published", "laptop", "cluster"]].tolist() == [
        "holds",
        "not claimed here",
        "not run",
    ]
    assert table.loc[0, ["laptop_numbers", "cluster_numbers"]].tolist() == ["", "no rows"]
    markdown = to_markdown(table).splitlines()
    assert markdown[0] == "| claim | source | published | cluster |"  # no claim speaks of laptop
    assert markdown[2] == "| A \\| is above B | Table 1 | holds: 2 > 1 | not run: no rows |"
    assert counts(table) == ["claims, published: 1 holds", "claims, cluster: 1 not run"]


@pytest.fixture(scope="module")
def published():
    return pd.concat([pd.read_csv(path) for path in sorted(PUBLISHED.glob("table*.csv"))])


@pytest.mark.parametrize(
    ("predicate", "where", "expected", "numbers"),
    [
        (
            order("F-GRPO", "GRPO"),
            {"table": "table1", "model": MODELS[0], "benchmark": "Avg_Math", "k": 256},
            "holds",
            "70.3 > 64.1",
        ),
        (
            order("GRPO (N=2)", "GRPO (N=32)", "GRPO (N=8)", relation="<"),
            {"table": "table2", "metric": "delta_NLL_rare"},
            "holds",
            "0.19 < 0.52 < 0.68",
        ),
        # Sec. 5.3: N=2 has the lowest pass@1; true of math, not of OOD (INC002)
        (
            order("GRPO (N=2)", "GRPO (N=8)", "GRPO (N=32)", relation="<"),
            {"table": "table2", "benchmark": "Avg_Math", "k": 1},
            "holds",
            "36.2 < 37.3 < 39.2",
        ),
        (
            order("GRPO (N=2)", "GRPO (N=8)", "GRPO (N=32)", relation="<"),
            {"table": "table2", "benchmark": "Avg_OOD", "k": 1},
            "fails",
            "18 > 17.1 < 17.7",
        ),
        # Sec. 5.4: +3.5 recomputes, +3.8 does not (INC001: Table 1 gives 4.02)
        (
            {"mean_gain": {"pairs": PAIRS, "relation": "~", "value": 3.5, "within": 0.05}},
            {"table": "table1", "benchmark": "Avg_Math", "k": 256},
            "holds",
            "mean gain 3.478 over 9 pairs",
        ),
        (
            {"mean_gain": {"pairs": PAIRS, "relation": "~", "value": 3.8, "within": 0.05}},
            {"table": "table1", "benchmark": "Avg_OOD", "k": 256},
            "fails",
            "mean gain 4.022 over 9 pairs",
        ),
        (
            {"count": {"pairs": PAIRS, "relation": ">", "at_least": 8}},
            {"table": "table1", "benchmark": "Avg_OOD", "k": 1},
            "fails",
            "7 hold, 2 fail",
        ),
        # the printed average agrees with the mean of the printed parts, 55.93
        (
            {"range": {"of": {"benchmark": OOD}, "low": 55.8, "high": 56}},
            {"table": "table1", "model": MODELS[0], "method": "GRPO", "k": 256},
            "holds",
            "55.93",
        ),
    ],
)
def test_the_papers_own_tables(published, predicate, where, expected, numbers):
    decided = verdict({**predicate, "where": where}, published)
    assert decided[0] == expected
    assert numbers in decided[1]
