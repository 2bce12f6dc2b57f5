import pandas as pd
import pytest

from common.results.files import write_csv
from papers.two_stage.compare import named, toy_rows
from papers.two_stage.toy.tables import PATHS


def test_toy_rows_by_hand(tmp_path):
    folder = tmp_path / "two_stage" / "toy"
    end = dict(figure="fig1", optimizer="adam", method="negative", cell="p2=0.1", seed=7)
    numbers = dict(leader_start=0.5, leader_peak=0.9, leader_end=0.1, best_start=0.1, best_low=0.05)
    numbers |= dict(best_at_peak=0.08, best_end=0.88, crossing=9, two_stages=1)
    numbers |= dict(negative_1=0.25, negative_2=0.75)
    write_csv(folder / "ends.csv.gz", pd.DataFrame([end | numbers]))
    key = {name: end[name] for name in ("figure", "optimizer", "method", "cell")}
    lines = [
        key | dict(step=i, action=a, mean=0.5, low=0.2, high=0.2 + 0.1 * a, expected=0)
        for i in (0, 1)
        for a in (1, 2, 3)
    ]
    write_csv(folder / "paths.csv.gz", pd.DataFrame(lines)[PATHS])
    rows = toy_rows(tmp_path)
    assert set(rows["method"]) == {"Adam, -N"}
    assert set(rows["benchmark"]) == {"fig1 p2=0.1"}
    values = rows.set_index("metric")["value"].to_dict()
    assert values == pytest.approx(
        dict(two_stages=100, crossed=100, leader_rise=40, leader_peak=90, leader_fall=80,
             best_low=5, best_rise_at_peak=-2, best_rise=80, negative_1=25, negative_2=75,
             spread=20)
    )  # fmt: skip
    assert rows.set_index("metric")["seed"].isna().to_dict()["spread"]
    assert toy_rows(tmp_path / "nowhere").empty
    assert named(pd.DataFrame([key | {"optimizer": "sgd", "method": "full"}]))["method"][0] == (
        "plain step"
    )
