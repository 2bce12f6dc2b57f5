"""The file of claims: mistakes are named, scopes and rendering."""

import pytest
from claim_rows import rows, verdicts

from common.claims.file import load
from common.claims.forms import form_of
from common.claims.text import counts, to_markdown
from common.errors import UserError

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
        (ORDER, 'count: {pairs: [[{}, {}]], relation: ">", at_least: 2}', ["at_least=2"]),
        (ORDER, 'count: {of: [{}], relation: ">", value: 1, at_least: 1}', ["at_least=1"]),
        (ORDER, 'count: {of: [{}, {}], relation: ">", at_least: 2}', ["value=", "is missing"]),
        (ORDER, 'count: {of: [{}, {}], relation: ">", value: 1, at_least: 3}', ["at_least=3"]),
        (ORDER, 'difference: {a: {}, b: {}, relation: ">", value: 1, within: 1}', ["within=1.0"]),
        (ORDER, 'range: {of: {}, low: 1}, relation: ">"', ["range={'of': {}, 'low': 1}"]),
        (ORDER, "range: {of: {}, low: 1, where: {k: 1}}", ["range={'of': {}, 'low': 1, 'where'"]),
        ("source:", "ours: no\n  source:", ["ours=False"]),
        ("source:", "premise: c9\n  source:", ["claim c1: premise=c9"]),
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
    path.write_text(GOOD)  # which says nothing of a cluster
    silent = verdicts(load(path), {"published": rows({"A": 2.0, "B": 1.0})})
    assert silent.loc[0, ["cluster", "cluster_numbers"]].tolist() == ["not run", ""]
    markdown = to_markdown(table).splitlines()
    assert markdown[0] == "| claim | source | published | cluster |"  # no claim speaks of laptop
    assert markdown[2] == "| A \\| is above B | Table 1 | holds: 2 > 1 | not run: no rows |"
    assert counts(table) == ["claims, published: 1 holds", "claims, cluster: 1 not run"]
