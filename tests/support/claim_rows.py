"""Made-up rows and the verdict of a predicate on them."""

import pandas as pd

from common.claims.file import claim_of
from common.claims.judge import judge
from common.errors import UserError


def verdicts(claims, rows, counts=None):
    """The verdicts of `judge`; a UserError if it leaves out a claim."""
    decided, _, left_out = judge(claims, rows, counts)
    if left_out:
        raise UserError("\n".join(left_out))
    return decided


def rows(values, benchmark="b", step=None, model="m"):
    """Tidy rows: method -> value (printed), or -> one value a seed."""
    table = []
    for method, value in values.items():
        several = isinstance(value, list)
        for seed, one in enumerate(value if several else [value]):
            table.append(
                {
                    "table": "t",
                    "model": model,
                    "method": method,
                    "benchmark": benchmark,
                    "metric": "pass@1",
                    "k": 1,
                    "value": one,
                    "unit": "percent",
                    "seed": seed if several else None,
                    "step": step,
                }
            )
    return pd.DataFrame(table)


def verdict(predicate, frame, counts=None):
    claim = claim_of({"id": "x", "claim": "c", "source": "Table 1", "laptop": predicate})
    result = verdicts([claim], {"laptop": frame}, None if counts is None else {"laptop": counts})
    return result["laptop"][0], result["laptop_numbers"][0]


def order(*methods, relation=">", **rest):
    return {"order": [{"method": method} for method in methods], "relation": relation, **rest}
