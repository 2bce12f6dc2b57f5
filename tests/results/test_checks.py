import pandas as pd

from common.results.checks import check_rows
from common.results.provenance import of_runs, worst

ROW = {"table": "t", "model": "m", "method": "A", "benchmark": "b", "metric": "pass@1", "k": 1}
ROW |= {"value": 12.5, "unit": "percent", "seed": 1, "step": 2, "run_id": "r"}


def test_a_printed_table_of_fractions_is_named():
    fractions = pd.DataFrame([ROW | {"value": 0.779}, ROW | {"method": "B", "value": 0.0}])
    kept, messages = check_rows(fractions, "f.csv")
    assert kept["method"].tolist() == ["B"]
    assert len(messages) == 1
    assert "f.csv:2: value=0.779 percent" in messages[0]
    for sound in (ROW | {"method": "C"}, ROW | {"method": "C", "n_samples": 256, "value": 0.5}):
        assert check_rows(pd.concat([fractions, pd.DataFrame([sound])]), "f.csv")[1] == []


def test_a_number_of_several_runs_has_the_worst_of_their_states():
    runs = {"whole": "ok", "damaged": "changed"}
    assert worst(["ok", "changed", "reference"]) == "changed"
    assert of_runs("whole;damaged", runs) == of_runs("damaged;whole", runs) == "changed"
    assert of_runs("whole", runs) == "ok"
