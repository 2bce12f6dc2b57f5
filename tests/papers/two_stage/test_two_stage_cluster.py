"""Fig. 3's erroneous code, counted in the stored samples of cluster rows."""

import pandas as pd

from common.results.columns import COLUMNS
from common.results.files import write_jsonl_gz
from papers.two_stage import cluster

GOOD = "So:\n```python\nprint(1)\n```\n```output\n1\n```\nIt is $\\boxed{1}$."
BAD = "```python\nx + 'a'\n```\n```output\nTypeError: unsupported operand\n```\nAgain:\n"
PLAIN = "A TypeError is no answer: $\\boxed{2}$."  # no output names it


def test_pieces_are_counted_by_their_blocks():
    assert cluster.pieces(GOOD) == (1, 0)
    assert cluster.pieces(BAD + BAD + GOOD) == (3, 2)
    assert cluster.pieces(PLAIN) == (0, 0)
    assert cluster.pieces(BAD[: BAD.index("unsupported")]) == (1, 1)  # cut off by the limit


def stored(root, method: str, texts: list[list[str]], table: str = "table1") -> list[dict]:
    """A run folder with samples by problem, and its rows."""
    run_id = f"{table}-{method}"
    rows = [
        {"problem_id": f"p{i}", "sample": j, "response": text, "outcome": "correct", "parsed": "1"}
        for i, some in enumerate(texts)
        for j, text in enumerate(some)
    ]
    write_jsonl_gz(root / "two_stage" / run_id / "samples" / "0000000.jsonl.gz", rows)
    about = {"table": table, "model": "M", "method": method, "benchmark": cluster.CASES}
    about |= {"seed": 1, "step": 140, "run_id": run_id, "value": 50.0}
    return [about | {"metric": f"pass@{k}", "k": k} for k in (1, 2)]


def test_rows_are_means_over_problems(tmp_path):
    rows = stored(tmp_path, "GRPO", [[BAD + GOOD, GOOD], [BAD + BAD + GOOD, PLAIN]])
    rows += stored(tmp_path, "GRPO-N", [[GOOD, GOOD], [GOOD, BAD + GOOD]])
    rows += stored(tmp_path, "GSPO", [[BAD, BAD]])
    frame = pd.DataFrame(rows).reindex(columns=COLUMNS)
    found = cluster.code_rows(tmp_path, frame).set_index(["method", "metric"])["value"]
    assert found["GRPO", "code"] == (1.5 + 1.5) / 2
    assert found["GRPO", "erroneous_code"] == (0.5 + 1.0) / 2
    assert found["GRPO-N", "erroneous_code"] == (0 + 0.5) / 2
    assert "GSPO" not in found.index.get_level_values(0)
    assert cluster.code_rows(tmp_path / "elsewhere", frame).empty
