"""FADE's published numbers and their claims."""

from common.comparison import compare
from common.comparison.spec import spec_of

SPEC = spec_of("fade")


def test_published_claims_are_decided_on_the_printed_numbers(tmp_path):
    verdicts = compare.assess(SPEC, tmp_path).verdicts.set_index("id")
    decided = verdicts[verdicts["published"] != "not claimed here"]["published"]
    assert set(decided) == {"holds", "fails"}
    fails = set(decided.index[decided == "fails"])
    assert fails == {
        "rl_diversity",  # pass@100 of GRPO is above SFT's on LiveCodeBench and AIME 2024
        "power_5",  # 3.1 points are 6.1 % of GRPO's 51.2
        "rho_perp",  # 2.4 is below the 3 of sec 15.2
        "best_aime_32b",
    }
    assert set(verdicts["laptop"]) <= {"not run", "not claimed here"}
