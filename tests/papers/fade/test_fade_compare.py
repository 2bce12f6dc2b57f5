import pandas as pd
import pytest
from compositions import cluster, experiment

from common.claims.file import load
from common.claims.judge import judge
from common.comparison import compare
from common.results.files import write_csv
from papers.fade.compare import CURVE, UPDATES, V6, peaks, shapes, table10

HOME = compare.ROOT / "papers" / "fade"


def test_hidden_states_that_were_measured_by_hand_decide_table_10(tmp_path):
    """By the least ratio over checkpoints."""
    rows = pd.DataFrame({"rho_ratio": [3.9, 3.2]})
    write_csv(tmp_path / "fade" / "hidden_states" / "residuals.csv", rows)
    claims = [one for one in load(HOME / "claims.yaml") if one.id.startswith("rho_perp")]
    verdicts = judge(claims, {"cluster": table10(tmp_path)[0]})[0]
    assert verdicts["cluster"].tolist() == ["holds", "holds"]
    assert verdicts["cluster_numbers"].tolist() == ["3.2", "3.2"]
    assert table10(tmp_path / "none") == []


def test_the_slope_and_the_bimodal_share_are_of_an_evaluations_counts(tmp_path):
    """The 1 - pass@k of solve rates that are Beta(b, 1)'s quantiles falls as k^-b."""
    about = {"table": "table3", "model": "M", "method": "GRPO", "seed": 1, "step": 4000}
    rows = pd.DataFrame([about | {"benchmark": "LiveCodeBench v6", "metric": "pass@100"}] * 2)
    rows = rows.assign(run_id=["here", "elsewhere"])
    rate = ((pd.Series(range(2000)) + 0.5) / 2000) ** 2  # b = 1/2
    counts = {"problem_id": rate.index, "n": 10_000, "c": (10_000 * rate).astype(int)}
    counts = pd.DataFrame({"benchmark": "LiveCodeBench v6"} | counts)
    write_csv(tmp_path / "fade" / "here" / "counts.csv", counts)
    found = shapes(tmp_path, rows).set_index("metric")
    assert set(found["table"]) == {"table3, logged"}
    assert found["value"]["slope_b"] == pytest.approx(0.5, abs=0.1)
    low, high = 0.2**0.5, 0.8**0.5
    assert found["value"]["solve_rates_apart"] == pytest.approx(100 * (1 - high + low), abs=0.1)


def test_the_peak_is_of_the_curve_of_200_samples_where_it_was_drawn(tmp_path):
    """It is the plateau of 900, not the best point of 1,200, the chosen step or the last one."""
    rates = {600: 0.3, 800: 0.5, 900: 0.5, 1000: 0.3, 1200: 0.6, 1300: 0.1}
    about = {"table": "table3", "model": "M", "method": "GRPO", "seed": 1, "metric": "pass@1"}
    rows = [about | {"benchmark": V6, "step": 700, "value": 40.0, "run_id": "chosen"}]
    for step, rate in rates.items():
        run = {"benchmark": CURVE, "step": step, "value": 100 * rate, "run_id": f"at-{step}"}
        rows.append(about | run)
        counts = {"benchmark": CURVE, "problem_id": range(50), "n": 200, "c": int(200 * rate)}
        write_csv(tmp_path / "fade" / f"at-{step}" / "counts.csv", pd.DataFrame(counts))
    other = {"method": "Power alpha=2", "benchmark": V6, "step": 3900, "value": 40.0}
    rows = pd.DataFrame([*rows, about | other | {"run_id": "other"}])
    found = peaks(tmp_path, rows).set_index("method")
    assert set(found["table"]) == {"table3, logged"}
    assert found["value"].to_dict() == {"GRPO": 9000, "Power alpha=2": 39_000}
    assert found["run_id"]["GRPO"] == "at-900"
    assert peaks(tmp_path / "elsewhere", rows).set_index("method")["value"]["GRPO"] == 12_000


def test_a_training_step_is_ten_optimiser_steps():
    trained = [experiment(name, "fade") for name in cluster("fade")]
    assert {x.optim.mini_batches for x in trained if x.optim.steps > 0} == {UPDATES}
