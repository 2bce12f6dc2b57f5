"""F-GRPO's laptop runs: matched accuracy, and the comparison."""

import numpy as np
import pandas as pd
import pytest
from made_up_runs import made_up_counts, made_up_run

from common.comparison import compare, matched
from common.comparison.spec import spec_of
from common.results.columns import COLUMNS

GRPO, F_GRPO = "GRPO (N=8)", "F-GRPO (N=8, gamma=1)"
SPEC = spec_of("f_grpo")

# ---- diversity at matched accuracy


def rows(**curves: tuple[float, float]) -> pd.DataFrame:
    """Result rows of one point (natural pass@1, rare pass@64) of each method."""
    names = {"base": "base", "grpo": GRPO, "focal": F_GRPO}
    keys = (matched.ACCURACY, matched.DIVERSITY)
    rows = [
        dict(table="t", model="tiny", method=names[key], benchmark=benchmark, metric=metric,
             value=value, seed=1, step=0 if key == "base" else 50, run_id=key)
        for key, point in curves.items()
        for (benchmark, metric), value in zip(keys, point, strict=True)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS)


def test_a_run_that_never_beats_the_base_is_not_read():
    frame = rows(base=(20.0, 50.0), grpo=(10.0, 5.0), focal=(30.0, 45.0))
    out = matched.at_matched_accuracy(frame, "t", SPEC.pairs)
    assert out["value"].isna().tolist() == [True, True]
    assert out["metric"].str.contains("refused: less than 2", regex=False).all()


def test_without_base_or_with_one_method_there_is_nothing_to_match():
    for frame in (
        rows(base=(20.0, 50.0), grpo=(30.0, 44.0)),
        rows(grpo=(30.0, 44.0), focal=(30.0, 44.0)),
    ):
        assert matched.at_matched_accuracy(frame, "t", SPEC.pairs).empty


# ---- gather and show


def finished_run(root, method: str, seed: int, step: int, right: dict[str, float]):
    """A finished run folder of 40 problems a benchmark, `right` of 64 samples right on average."""
    rng = np.random.default_rng([seed, step, *map(ord, method)])
    counts = made_up_counts(
        right, lambda share: rng.binomial(64, share / 64, 40), problems=40, n=64, ids="{i} = {i}"
    )
    name = f"{method.lower().split()[0]}-{len(method)}-s{seed}"
    about = dict(table="laptop_strong", model="tiny", method=method, seed=seed)
    config = {"seed": seed}
    return made_up_run(root, "f_grpo", name, about, {step: counts}, [1, 64], config=config)


def shown(root, rare: dict[str, float]):
    """The verdicts on four seeds of two methods that are alike on natural prompts and have these
    numbers of right samples on rare ones."""
    for seed in (1, 2, 3, 4):
        for method, right in rare.items():
            finished_run(root, method, seed, 200, {"natural": 30, "rare": right})
    compare.compare(SPEC, root)
    return pd.read_csv(root / "f_grpo" / "claims.csv", keep_default_na=False).set_index("id")


@pytest.mark.sweep
def test_verdicts_of_runs_that_agree_with_the_paper(tmp_path):
    finished_run(tmp_path, "base", 1, 0, {"natural": 10, "rare": 1.0})
    verdicts = shown(tmp_path, {GRPO: 0.3, F_GRPO: 3.0})
    assert verdicts["laptop"]["focal_grpo"] == "holds"
    assert verdicts["laptop"]["focal_grpo_matched"] == "inconclusive"
    # Each run has one checkpoint, and most pass the level before it.
    assert "refused" in verdicts["laptop_numbers"]["focal_grpo_matched"]
    assert verdicts["laptop"]["focal_dapo"] == "not run"
    assert verdicts["published"]["focal_grpo"] == "holds"
    assert set(verdicts["cluster"]) <= {"not run", "not claimed here"}
    cells = pd.read_csv(tmp_path / "f_grpo" / "comparison.csv")
    focal = cells[(cells["scope"] == "laptop") & (cells["method"] == F_GRPO)]
    assert (focal["n_seeds"] == 4).all()
    assert set(focal["benchmark"]) == {"natural", "rare"}


@pytest.mark.sweep
def test_a_claim_that_fails_is_shown_as_failing(tmp_path):
    verdicts = shown(tmp_path, {GRPO: 3.0, F_GRPO: 0.3})
    assert verdicts["laptop"]["focal_grpo"] == "fails"
    assert verdicts["published"]["focal_grpo"] == "holds"
    assert verdicts["laptop"]["focal_grpo_matched"] == "not run"  # no base model
