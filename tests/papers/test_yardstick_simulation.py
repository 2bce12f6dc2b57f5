"""The yardstick's protocol by simulation (docs/evidence.md): how often a method is called
better, worse or equivalent that is none of it, and how large a difference is found. Prints what the
page's table says (pytest -s)."""

import numpy as np
import pytest

from common.metrics.bootstrap import holm
from common.metrics.paired import two_way_interval
from papers.yardstick.areas import verdict

METHODS, RATES, SEEDS, PROBLEMS = 11, 3, 9, {"dev": 20, "test": 40}
SD = 3.0  # points of a run's area over seeds and their base models, as in an earlier edition
BASE_SHARE = 0.55  # of that variance, which every run from a base has in common
OF_PROBLEM, INTERACTION = 5.0, 15.0  # of a method's effect on a problem; of one run's


def verdicts(rng, effects) -> list[str]:
    """Of one whole table: each method's true gain is `effects` at every rate; how a method's gain
    depends on the base model has BASE_SHARE of the variance."""
    of_base = rng.normal(0, SD * np.sqrt(BASE_SHARE), (METHODS + 1, 1, SEEDS))
    own = rng.normal(0, SD * np.sqrt(1 - BASE_SHARE), (METHODS + 1, RATES, SEEDS))
    runs = np.append(effects, 0.0)[:, None, None] + of_base + own
    areas = {
        split: runs[..., None]
        + rng.normal(0, OF_PROBLEM, (METHODS + 1, 1, 1, problems))
        + rng.normal(0, INTERACTION, (METHODS + 1, RATES, SEEDS, problems))
        for split, problems in PROBLEMS.items()
    }
    chosen = areas["dev"].mean(axis=(2, 3)).argmax(axis=1)
    best = areas["test"][np.arange(METHODS + 1), chosen]
    found = [two_way_interval(one - best[-1]) for one in best[:-1]]
    corrected = holm([one.p() for one in found])
    return [verdict(one, p, "pass@64") for one, p in zip(found, corrected, strict=True)]


@pytest.mark.sweep
def test_no_method_is_better_where_none_is():
    rng = np.random.default_rng(1)
    tables = [verdicts(rng, np.zeros(METHODS)) for _ in range(200)]
    wrong = np.mean([{"better", "worse"} & set(table) != set() for table in tables])
    same = np.mean([word == "equivalent" for table in tables for word in table])
    print(f"\nany false verdict in a table {wrong:.3f}; equivalent {same:.2f}")
    assert wrong <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 200)


@pytest.mark.sweep
def test_what_is_found_and_what_is_wrongly_called_equivalent():
    rng, found = np.random.default_rng(2), {}
    for gain in (3.0, 6.0, 9.0, 12.0):
        effects = np.append(gain, np.zeros(METHODS - 1))
        first = [verdicts(rng, effects)[0] for _ in range(200)]
        found[gain] = {word: np.mean([one == word for one in first])
                       for word in ("better", "equivalent")}  # fmt: skip
    print("\n" + "; ".join(f"{k:g} points: {v}" for k, v in found.items()))
    assert found[3.0]["equivalent"] <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 200)
    assert found[12.0]["better"] > found[6.0]["better"] > found[3.0]["better"]
