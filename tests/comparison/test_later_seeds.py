"""Later seeds beside earlier ones: differences by hand, and a change that is told."""

import pandas as pd
import pytest

from common.comparison import later_seeds
from common.comparison.matched import ACCURACY, DIVERSITY
from common.errors import UserError


def runs(method: str, by_seed: dict[int, float]) -> list[dict]:
    """Checkpoints 50 to 200, of which the last three have the value as their mean; the first is the
    method's own."""
    same = {"table": "laptop_strong", "method": method}
    return [
        same | {"benchmark": b, "metric": m, "seed": seed, "step": step, "value": value + more}
        for b, m in (DIVERSITY, ACCURACY)
        for seed, value in by_seed.items()
        for step, more in ((50, len(method)), (100, 3.0), (150, 0.0), (200, -3.0))
    ]


def test_differences_by_hand_on_paired_seeds():
    frame = pd.DataFrame(
        [
            *runs("GRPO", {1: 40.0, 2: 50.0, 3: 45.0, 6: 30.0, 7: 35.0}),
            *runs("kept it", {1: 50.0, 2: 60.0, 3: 55.5, 6: 40.5, 7: 45.0}),
            *runs("lost", {1: 50.0, 2: 60.0, 3: 55.5, 6: 30.5, 7: 35.0, 8: 0.0}),
            *runs("too few", {1: 50.0, 2: 60.0, 3: 55.5, 6: 40.5}),
        ]
    )
    found = later_seeds.differences(frame, "GRPO", 5)
    assert list(found["measure"].unique()) == ["rare pass@64", "natural pass@1"]
    table = found[found["measure"] == "rare pass@64"].set_index("method")
    assert set(table.index) == {"kept it", "lost"}
    assert table.loc["kept it", ["earlier", "later"]].tolist() == pytest.approx(
        [10.167, 10.25], 1e-3
    )
    assert table.loc["lost", ["earlier", "later"]].tolist() == pytest.approx([10.167, 0.25], 1e-3)
    assert table.loc["kept it", "p"] > 0.5
    assert table.loc["lost", "p"] < 0.01


def test_what_cannot_be_meant_is_refused(tmp_path):
    words = [f"results_dir={tmp_path}"]
    with pytest.raises(UserError, match=r"has no laptop/metrics\.csv"):
        later_seeds.main(words)
    with pytest.raises(UserError, match="after=five"):
        later_seeds.main([*words, "after=five"])
