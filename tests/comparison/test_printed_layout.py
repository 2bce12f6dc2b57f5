import pandas as pd

from common.comparison import text
from common.comparison.cells import COLUMNS


def cell(table, model, method, benchmark, metric, value, rerun=None, verdict="not run", state=""):
    row = {"table": table, "model": model, "method": method, "benchmark": benchmark}
    row |= {"metric": metric, "value": value, "rerun": rerun, "verdict": verdict, "state": state}
    return row | {"unit": "percent"}


def frame(*cells):
    return pd.DataFrame(cells).reindex(columns=COLUMNS)


def gain(method, metric, rerun, p):
    row = {"table": "table1", "model": "M", "method": method, "baseline": "G", "benchmark": "AIME"}
    return row | {"metric": metric, "rerun": rerun, "p_samples": p}


SMALL = frame(
    cell("table1", "M", "G", "AIME", "pass@1", 15.0, 15.24, "within noise", "ok"),
    cell("table1", "M", "G", "AIME", "pass@8", 37.7, 30.0, "differs", "ok"),
    cell("table1", "M", "F", "AIME", "pass@1", 15.9, 16.1, "partial", "ok"),
    cell("table1", "M", "F", "AIME", "pass@8", 46.25, 46.2, "within noise", "missing"),
    cell("table1", "M", "H", "AIME", "pass@1", 17.0),
    cell("table10", "M", "G", "AIME", "pass@1", 15.0, 15.0, "within noise", "ok"),
    cell("table2_v2", "M", "G", "AIME", "pass@1", 15.0, 15.0, "within noise", "ok"),
    cell("table2", "N", "G", "", "entropy", 2.563),
)
GAINS = pd.DataFrame([gain("F", "pass@1", 0.86, 0.2), gain("F", "pass@8", 16.2, 0.001)])


def test_a_table_has_printed_rerun_and_gain_in_each_cell_with_their_marks():
    made = text.printed_tables(SMALL, GAINS)
    assert list(made) == ["table1", "table2_v2", "table10"]  # table2 has no rerun
    one = made["table1"]
    assert one.title == "Table 1: M"
    assert one.head == ["method", "", "AIME pass@1", "AIME pass@8"]
    assert one.lines == [
        ["G", "printed", "15.0", "37.70"],
        ["", "rerun", "15.2", "30.00≠"],
        ["F", "printed", "15.9", "46.25"],
        ["", "rerun", "16.1~", "46.20!"],
        ["", "gain", "+0.9", "+16.20*"],
        ["H", "printed", "17.0", ""],  # not run: blank
    ]
    assert [mark for mark in text.LEGEND if mark in text.legend([one])] == [*"≠~!*"]
