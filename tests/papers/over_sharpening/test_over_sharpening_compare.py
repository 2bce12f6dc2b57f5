from itertools import product

import numpy as np
import pandas as pd
import pytest
from tiny import ROOT

from common.claims.file import load as load_claims
from common.comparison import compare
from common.comparison.spec import spec_of
from common.config.compose import compose
from common.config.strict import strict
from common.results.files import write_csv
from papers.over_sharpening.compare import own_rows, toy_rows
from papers.over_sharpening.toy.config import Toy


def final_row(**changes) -> dict:
    row = dict(optimizer="sgd", G=4, estimator="raw", alpha=0.0, mu=0.0, lr=1.0, seed=0)
    row |= dict(p_cat=0.3, p_persian=0.2, siamese_high=0.1, siamese_mid=0.1, siamese_low=0.1)
    row |= dict(step_one=np.nan)
    return row | changes


def test_toy_rows_by_hand(tmp_path):
    frame = pd.DataFrame(
        [
            final_row(seed=0, p_cat=0.995, p_persian=0.001, step_one=20),
            final_row(seed=1, p_cat=0.5, p_persian=0.495, step_one=21),
            final_row(seed=0, alpha=1.0, mu=0.5, optimizer="adamw", lr=0.3),
        ]
    )
    write_csv(tmp_path / "over_sharpening" / "toy" / "final.csv.gz", frame)
    rows = toy_rows(tmp_path).set_index(["method", "seed", "metric"])["value"]
    rows = rows.sort_index()
    assert set(rows.index.get_level_values(0)) == {
        "raw, sgd, lr=1",
        "raw + IAC + DLC, adamw, lr=0.3",
    }
    one, two = rows["raw, sgd, lr=1", 0], rows["raw, sgd, lr=1", 1]
    names = ["collapsed", "collapsed_by_20", "cat_wins"]
    assert one[names].tolist() == [100, 100, 100]
    assert two[names].tolist() == [0, 0, 100]
    assert rows["raw + IAC + DLC, adamw, lr=0.3", 0]["p_winner"] == 0.3
    assert toy_rows(tmp_path / "nothing").empty


@pytest.mark.sweep
def test_claims_name_settings_that_the_toy_and_the_theory_have(tmp_path):
    from papers.over_sharpening.theory import tables

    config = strict(Toy, compose("over_sharpening", ["lr=[1.0,3.0,10.0,30.0,100.0]"], "toy"))
    rows = [
        final_row(optimizer=o, G=G, estimator=c.estimator, alpha=c.alpha, mu=c.mu, lr=c.lr, seed=s)
        for o, G, c, s in product(config.optimizers, config.G, config.cells, range(3))
    ]
    write_csv(tmp_path / "over_sharpening" / "toy" / "final.csv.gz", pd.DataFrame(rows))
    folder = tmp_path / "over_sharpening" / "theory"
    groups = tables.sampled_groups(8, 0.1, 200, seed=1)
    checks = [tables.modes_checks(draws=50), tables.group_checks(groups)]
    write_csv(folder / "checks.csv", pd.concat(checks).assign(beta=0.1))
    coupled = [tables.coupling_checks(4, 0.5, 0.0, r, draws=50, seed=1) for r in (0, 1)]
    write_csv(folder / "coupling.csv", pd.concat(coupled))
    decided = compare.assess(spec_of("over_sharpening"), tmp_path).verdicts.set_index("id")
    for claim in load_claims(ROOT / "papers" / "over_sharpening" / "claims.yaml"):
        selectors = claim.laptop.selectors if claim.laptop else ()
        if any(one.get("table") in ("toy", "theory") for one in selectors):
            assert decided.loc[claim.id, "laptop"] != "not run", claim.id
    assert decided.loc["self_similarity", "laptop"] == "fails"
    assert decided.loc["theorem_2_3", "laptop"] == "holds"
    assert len(own_rows(tmp_path)) == 2
