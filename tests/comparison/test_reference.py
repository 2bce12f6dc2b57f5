import pandas as pd
import pytest

from common.comparison.compare import assess
from common.comparison.spec import spec_of
from common.config.files import ROOT, papers

STORED = ROOT / "results" / "reference"
WORDS = ["id", "published", "laptop", "cluster"]


@pytest.mark.parametrize("paper", papers())
def test_the_stored_claims_are_what_the_stored_tables_give(paper):
    made = assess(spec_of(paper), STORED)
    claims = pd.read_csv(STORED / paper / "claims.csv", keep_default_na=False)
    assert made.verdicts[WORDS].fillna("").astype(str).equals(claims[WORDS].astype(str))
    gaps = pd.read_csv(STORED / paper / "gaps.csv")
    assert made.gaps["claim"].tolist() == gaps["claim"].tolist()
    for name in ("difference", "low", "high"):
        assert made.gaps[name].astype(float).to_numpy() == pytest.approx(
            gaps[name].to_numpy(), rel=1e-7, abs=1e-9, nan_ok=True
        )
