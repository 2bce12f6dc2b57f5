"""What the papers' printed numbers say of their own claims. The verdicts are the stored ones, which
tests/comparison/test_reference.py makes again."""

import pandas as pd
import pytest
from compositions import PAPERS
from tiny import ROOT

from common.claims.file import load

# The claims that do not hold in print; each paper's README says more of those with a number.
OTHERWISE = {
    "cov_grpo": {
        "all_benchmarks": "fails",  # INC025
        "cw_grpo_gain_7b": "fails",  # INC024
        "gain_7b": "fails",  # INC026
        "over_base_cw_grpo_7b": "fails",  # INC023
    },
    "f_grpo": {
        "focal_pass1": "fails",
        "group_size_ood_pass1": "fails",
        "mean_gain_ood": "fails",
        "regularizers_ood_pass1": "fails",
    },
    "fade": {
        "best_aime_32b": "fails",
        "power_5": "fails",
    },
    "over_sharpening": {"overlap_ratio": "fails"},
    "two_stage": {"over_standard": "fails"},  # INC016
}
OURS = {
    "fade": {"rho_perp", "rl_diversity"},
    "over_sharpening": {
        *("iac_partition", "iac_partition_equal", "confident_only", "filter_consistent"),
    },
}


def stored(paper: str) -> pd.DataFrame:
    file = ROOT / "results" / "reference" / paper / "claims.csv"
    return pd.read_csv(file, keep_default_na=False).set_index("id")


@pytest.mark.parametrize("paper", PAPERS)
def test_the_printed_claims_hold_in_print_but_for_these(paper):
    claims = load(ROOT / "papers" / paper / "claims.yaml")
    words = stored(paper)["published"][[one.id for one in claims if one.published and not one.ours]]
    assert words[words != "holds"].to_dict() == OTHERWISE[paper]
    unprinted = stored(paper)["published"][[one.id for one in claims if not one.published]]
    assert set(unprinted) == {"not claimed here"}
    assert {one.id for one in claims if one.ours} >= OURS.get(paper, set())
