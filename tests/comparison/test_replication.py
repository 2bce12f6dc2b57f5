"""A user's own laptop rows against the committed ones."""

import numpy as np
import pandas as pd
import pytest

from common.comparison import replication, text
from common.comparison.spec import spec_of
from common.results.columns import COLUMNS
from common.results.files import write, write_csv

SPEC = spec_of("f_grpo")

BASES = [0] * 5 + [1, 2, 1, 2]  # of nine committed seeds


def drawn(random, bases, effects, shift=0.0):
    return 50 + shift + effects[np.array(bases)] + random.normal(size=len(bases))


@pytest.mark.parametrize(
    ("stored", "own", "known"),
    [
        (BASES, [0, 0, 0], True),  # a base is shared: its effect is in neither side
        (BASES, BASES, True),
        ([0, 0, 1, 1, 2, 2], [3, 3, 4, 4, 5, 5], True),  # none is shared: bases are clusters
        ([0] * 5, [0] * 3, False),  # not stated, and one
    ],
)
def test_two_draws_of_one_thing_replicate_and_a_shift_of_four_errors_differs(stored, own, known):
    random, draws = np.random.default_rng(0), 1500
    words: dict[float, list[str]] = {0.0: [], 4.0: []}
    for _ in range(draws):
        effects = random.normal(scale=2.0, size=6)  # larger than a seed's
        sides = [drawn(random, bases, effects) for bases in (stored, own)]
        bases = (stored, own) if known else (None, None)
        for shift, found in words.items():
            error = replication.difference(*sides, *bases).stderr
            gap = replication.difference(sides[0], sides[1] + shift * error, *bases)
            found.append(replication.verdict(gap))
    same, moved = (pd.Series(found).value_counts(normalize=True) for found in words.values())
    assert 0.935 < same["replicates"] < 0.965
    assert moved["differs"] > 0.8  # with four degrees of freedom the fewest


def test_too_few_seeds_have_no_interval():
    assert replication.difference([1.0], [2.0]) is None
    assert replication.difference([1.0, 1.5, 2.0], [2.0]).df == 2
    assert replication.difference([1.0, 2.0], [1.0, 2.0], [0, 1], [0, 1]) is None
    assert replication.verdict(None) == "too few seeds"
    assert replication.verdict(replication.difference([3.0] * 3, [3.0] * 3)) == "replicates"
    assert replication.verdict(replication.difference([3.0] * 3, [3.1] * 3)) == "differs"


def rows(values, method="GRPO", step=200, name="r", **more):
    one = {"table": "laptop_strong", "model": "tiny", "method": method, "benchmark": "rare"}
    one |= {"metric": "pass@64", "unit": "percent", "step": step} | more
    return [one | {"value": v, "seed": i, "run_id": f"{name}{i}"} for i, v in enumerate(values, 1)]


def test_rows_are_compared_at_one_step_and_base_by_base(tmp_path):
    reference, root = tmp_path / "reference", tmp_path / "results"
    stored = rows([40.0, 41.0, 42.0, 43.0, 44.0, 80.0, 90.0])  # seeds 6 and 7: two other bases
    stored += rows([1.0, 2.0, 3.0], "DAPO") + rows([5.0, 6.0, 7.0], metric="pass@3")
    table = pd.DataFrame(stored).reindex(columns=COLUMNS)
    write_csv(reference / "f_grpo" / "laptop" / "metrics.csv.gz", table)
    own = rows([41.0, 42.0, 43.0], name="own") + rows([1.0, 2.0], "DAPO", step=100, name="d")
    own = pd.DataFrame(own).reindex(columns=COLUMNS).to_dict("records")
    for run in ("own1", "own2", "own3"):
        write(root / "f_grpo" / run / "config.yaml", "model: {pretrain: {seed: 0}}\n")

    def found():
        return replication.replication(SPEC, root, pd.DataFrame(own), reference)

    (one,) = found().to_dict("records")
    assert (one["method"], one["n_stored"], one["n_own"]) == ("GRPO", 7, 3)
    assert (one["stored"], one["own"]) == (pytest.approx(380 / 7), 42.0)
    # base 0 alone: 42 - 42; s^2 = (10 + 2) / 6, seeds 6 and 7 being alone; t_6 = 2.446912
    half = 2.446912 * np.sqrt(2.0 * (1 / 5 + 1 / 3))
    assert one["difference"] == pytest.approx(0)
    assert (one["low"], one["high"]) == (pytest.approx(-half), pytest.approx(half))
    assert one["verdict"] == "replicates"
    (shown,) = text.replicated(found(), SPEC.laptop)
    assert [line[2] for line in shown.lines] == ["54.3", "42.0", "+0.0"]
    (root / "f_grpo" / "own1" / "config.yaml").unlink()  # a base is not stated: seeds alone
    (plain,) = found().to_dict("records")
    assert plain["difference"] == pytest.approx(42 - 380 / 7)
    assert replication.replication(SPEC, reference, pd.DataFrame(own), reference).empty
    own = [row | {"n_samples": 64} for row in own]
    assert found().empty  # fewer samples have more noise
