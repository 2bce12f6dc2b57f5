"""Printed tables in their own layout, in blocks that fit a terminal."""

import re

import pandas as pd
import pytest

from common.comparison import layout, layout_text
from common.comparison.cells import COLUMNS

NO_GAINS = pd.DataFrame()


def cell(table, model, method, benchmark, metric, value, rerun=None, verdict="not run", state=""):
    row = {"table": table, "model": model, "method": method, "benchmark": benchmark}
    row |= {"metric": metric, "value": value, "rerun": rerun, "verdict": verdict, "state": state}
    return row | {"unit": "percent"}


def frame(*cells):
    return pd.DataFrame(cells).reindex(columns=COLUMNS)


def gain(method, metric, rerun, p, **more):
    row = {"table": "table1", "model": "M", "method": method, "baseline": "G", "benchmark": "AIME"}
    return row | {"metric": metric, "rerun": rerun, "p_samples": p} | more


SMALL = frame(
    cell("table1", "M", "G", "AIME", "pass@1", 15.0, 15.24, "within noise", "ok"),
    cell("table1", "M", "G", "AIME", "pass@8", 37.7, 30.0, "differs", "ok"),
    cell("table1", "M", "F", "AIME", "pass@1", 15.9, 16.1, "partial", "ok"),
    cell("table1", "M", "F", "AIME", "pass@8", 46.25, 46.2, "within noise", "missing"),
    cell("table1", "M", "H", "AIME", "pass@1", 17.0),
    cell("table10", "M", "G", "AIME", "pass@1", 15.0),
    cell("table2_v2", "M", "G", "AIME", "pass@1", 15.0),
    cell("table2", "N", "G", "", "entropy", 2.563),
)
GAINS = pd.DataFrame([gain("F", "pass@1", 0.86, 0.2), gain("F", "pass@8", 16.2, 0.001)])


def lines(block):
    return [(line.label, line.kind, *line.cells) for line in block.lines]


def test_a_table_has_printed_rerun_and_gain_in_each_cell_with_their_marks():
    made = layout.tables(SMALL, GAINS)
    assert [table.name for table in made] == ["table1", "table2", "table10", "table2_v2"]
    (block,) = layout.blocks(made[0])
    assert block.head == (("pass@1",), ("pass@8",))
    assert lines(block) == [
        ("G", "printed", "15.0", "37.70"),
        ("", "rerun", "15.2", "30.00≠"),
        ("F", "printed", "15.9", "46.25"),
        ("", "rerun", "16.1~", "46.20!"),
        ("", "gain", "+0.9", "+16.20*"),
        ("H", "printed", "17.0", ""),  # not run: blank
    ]
    assert made[0].counts == {"within noise": 2, "differs": 1, "partial": 1, "not run": 1}
    assert all(layout.blocks(table) == [] for table in made[1:])  # counted, not shown


def test_without_a_rerun_a_cell_has_no_gain():
    lost = SMALL.assign(rerun=None)
    cells = [c for t in layout.tables(lost, GAINS) for _, rows in t.bodies for _, r in rows
             for c in r.values()]  # fmt: skip
    assert len(cells) == len(SMALL)
    assert {c.lines["gain"] for c in cells} == {""}


def wide(benchmarks, metrics, name="table1"):
    return frame(
        *(
            cell(name, model, method, b, m, 10.0 + i, 20.0 + j, "within noise", "ok")
            for model in ("M", "N")
            for method in ("GRPO", "F-GRPO (N=8, gamma=1)")
            for i, b in enumerate(benchmarks)
            for j, m in enumerate(metrics)
        )
    )


MATH = [f"Math set {i}" for i in range(9)]
FEW = ["pass@1", "pass@256"]
LADDER = [f"pass@{2**i}" for i in range(9)]


@pytest.mark.parametrize(
    ("benchmarks", "metrics", "breaks", "heads"),
    [
        (MATH[:3], FEW, (), [6]),  # side by side
        (MATH, FEW, (), [9, 9]),  # a block a metric
        (MATH[:3], LADDER, (), [9, 9, 9]),  # a block a benchmark
        (["Avg A", *MATH, "Avg B", "C", "D", "E"], FEW, ("Avg A", "Avg B"), [10, 4] * 2),
        ([f"{name} {'x' * 20}" for name in MATH], ["pass@1"], (), [3, 3, 3]),  # equal parts
    ],
)
@pytest.mark.parametrize("width", [60, 100])
def test_a_wide_table_is_split_and_nothing_is_lost(benchmarks, metrics, breaks, heads, width):
    (table,) = layout.tables(wide(benchmarks, metrics), NO_GAINS)
    blocks = layout.blocks(table, breaks, width)
    if width == 100:
        assert [len(block.head) for block in blocks] == heads
    for block in blocks:
        assert max(map(len, layout_text.plain(block))) <= width
        assert [line.label for line in block.lines if not line.kind] == ["M", "N"]
    words = [w for block in blocks for line in block.lines if line.kind == "rerun"
             for w in line.cells]  # fmt: skip
    assert len(words) == 4 * len(benchmarks) * len(metrics)
    assert "" not in words


def test_a_stacked_table_has_a_row_for_each_benchmark():
    rows = frame(
        cell("table1", "M", "G", "0.01 %", "positive", 1.5, 1.5, "within noise", "computed"),
        cell("table1", "M", "G", "1 %", "positive", 2.5, 2.5, "within noise", "computed"),
    )
    (table,) = layout.tables(rows, NO_GAINS, ("table1",))
    (block,) = layout.blocks(table)
    assert lines(block) == [
        ("G, 0.01 %", "printed", "1.5"),
        ("", "rerun", "1.5"),
        ("G, 1 %", "printed", "2.5"),
        ("", "rerun", "2.5"),
    ]


def test_markdown_and_latex_have_the_same_cells():
    (table,) = layout.tables(wide(MATH[:3], FEW), NO_GAINS)
    (block,) = layout.blocks(table)
    rows = [
        re.split(r" ?\| ?", line)[1:-1] for line in layout_text.markdown(block).splitlines()[2:]
    ]
    assert {len(row) for row in rows} == {2 + 6}
    assert rows[0][2:] == [f"{b} {m}" for b in MATH[:3] for m in FEW]
    assert [tuple(row) for row in rows[2:] if row[1]] == [x for x in lines(block) if x[1]]
    latex = layout_text.latex(block, "f-1").splitlines()
    body = [line.removesuffix(r" \\").split(" & ") for line in latex if " & " in line]
    assert {len(row) for row in body} == {2 + 6}
    assert [tuple(row) for row in body if row[1].strip()] == [x for x in lines(block) if x[1]]
    for rule in (
        r"\toprule",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table*}",
        r"\label{tab:f-1}",
    ):
        assert latex.count(rule) == 1
    assert latex.count(r"\midrule") == 2  # above each model
