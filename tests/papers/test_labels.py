"""Claims, pairs and figures speak of methods that the papers' laptop rows have."""

import importlib

import pytest
from tiny import ROOT

from common.claims.file import read
from common.comparison.spec import spec_of
from common.config.rows import rows


def named(node, where=()):
    """The methods of every selector below `node` in a laptop table, with what `where` adds."""
    where = dict(where)
    if isinstance(node, list):
        for one in node:
            yield from named(one, where)
    elif isinstance(node, dict):
        where |= node.get("where", {})
        found = where | node
        if str(found.get("table", "")).startswith("laptop_") and "," not in found["table"]:
            methods = found.get("method", [])
            yield from [methods] if isinstance(methods, str) else methods
        for key, one in node.items():
            if key != "where":
                yield from named(one, where)


@pytest.mark.parametrize("paper", ["f_grpo", "cov_grpo", "two_stage", "over_sharpening", "fade"])
def test_claims_pairs_and_figures_speak_of_methods_that_are_there(paper):
    labels = {row["label"] for row in rows(paper).values()} | {"base"}
    spoken = {method for pair in spec_of(paper).pairs for method in pair}
    spoken |= set(importlib.import_module(f"papers.{paper}.figures").MAIN)
    _, claims = read(ROOT / "papers" / paper / "claims.yaml")
    for claim in claims:
        spoken.update(named(claim.get("laptop", {})))
    assert len(spoken) > 5
    assert spoken <= labels
