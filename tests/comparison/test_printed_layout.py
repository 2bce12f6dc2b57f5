"""Printed tables in their own layout, in parts that fit a terminal."""

import pandas as pd
import pytest

from common.comparison import text
from common.comparison.cells import COLUMNS

NO_GAINS = pd.DataFrame()


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
    assert list(made) == ["table1", "table10", "table2_v2"]  # table2 has no rerun
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
    latex = text.latex(one.head, one.lines, "llrr", caption=one.title)
    assert "G & printed & 15.0 & 37.70" in latex


def wide(benchmarks, metrics):
    return frame(
        *(
            cell("table1", model, method, b, m, 10.0 + i, 20.0 + j, "within noise", "ok")
            for model in ("M", "N")
            for method in ("GRPO", "F-GRPO (N=8, gamma=1)")
            for i, b in enumerate(benchmarks)
            for j, m in enumerate(metrics)
        )
    )


@pytest.mark.parametrize(("benchmarks", "metrics"), [(3, 2), (9, 2), (3, 9)])
@pytest.mark.parametrize("width", [60, 100])
def test_a_wide_table_is_split_and_nothing_is_lost(benchmarks, metrics, width):
    names = [f"Math set {i}" for i in range(benchmarks)]
    rows = wide(names, [f"pass@{2**i}" for i in range(metrics)])
    whole = text.printed_tables(rows, NO_GAINS)["table1"]
    parts = text.split(whole, width)
    for part in parts:
        assert part.head[:3] == ["model", "method", ""]
        assert sum(max(len(line[i]) for line in part.lines) + 1 for i in range(len(part.head))) <= (
            width
        )
    assert [name for part in parts for name in part.head[3:]] == whole.head[3:]
    reruns = [w for part in parts for line in part.lines if line[2] == "rerun" for w in line[3:]]
    assert len(reruns) == 4 * benchmarks * metrics
    assert "" not in reruns


def test_a_stacked_table_has_a_row_for_each_benchmark():
    rows = frame(
        cell("table1", "M", "G", "0.01 %", "positive", 1.5, 1.5, "within noise", "computed"),
        cell("table1", "M", "G", "1 %", "positive", 2.5, 2.5, "within noise", "computed"),
    )
    (one,) = text.printed_tables(rows, NO_GAINS, ("table1",)).values()
    assert one.head == ["method", "", "positive"]
    assert [line[0] for line in one.lines] == ["G, 0.01 %", "", "G, 1 %", ""]
