import pandas as pd

from common.results.columns import COLUMNS
from common.results.files import write_jsonl_gz
from papers.two_stage import case_study, cluster

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


def test_rows_are_means_over_problems_and_the_page_shows_them(tmp_path):
    rows = stored(tmp_path, "GRPO", [[BAD + GOOD, GOOD], [BAD + BAD + GOOD, PLAIN]])
    rows += stored(tmp_path, "GRPO-N", [[GOOD, GOOD], [GOOD, BAD + GOOD]])
    rows += stored(tmp_path, "GSPO", [[BAD, BAD]])
    frame = pd.DataFrame(rows).reindex(columns=COLUMNS)
    found = cluster.code_rows(tmp_path, frame).set_index(["method", "metric"])["value"]
    assert found["GRPO", "code"] == (1.5 + 1.5) / 2
    assert found["GRPO", "erroneous_code"] == (0.5 + 1.0) / 2
    assert found["GRPO-N", "erroneous_code"] == (0 + 0.5) / 2
    assert "GSPO" not in found.index.get_level_values(0)
    case_study.write_page(tmp_path, frame)
    page = (tmp_path / "two_stage" / "cluster" / "case_study.md").read_text()
    assert "| outputs that name an error a response | 1.00 | 0.50 |" in page
    assert cluster.code_rows(tmp_path / "elsewhere", frame).empty


def test_the_rule_shows_gains_middle_and_losses():
    more = {f"p{i}": 5 + d for i, d in enumerate([4, 3, 2, 1, 0, 0, -1, -2, -3, -4])}
    right = [("GRPO", p, i) for p in more for i in range(5)]
    right += [("GRPO-N", p, i) for p, n in {**more, "unsolved": 3}.items() for i in range(n)]
    samples = pd.DataFrame(right, columns=["method", "problem_id", "parsed"])
    ordered = case_study.solved(samples.assign(outcome="correct"))
    assert ordered == list(more)
    kinds = case_study.chosen(ordered)
    assert list(kinds.values()) == [["p0", "p1", "p2"], ["p3", "p4", "p5"], ["p7", "p8", "p9"]]
    assert case_study.chosen(["p", "q"]) == {"most more": ["p", "q"]}  # none twice


def test_a_models_text_cannot_break_the_page():
    assert case_study.quoted("a`b|c\nd\x1b[31m") == "`a'b¦c�d�[31m`"
    assert len(case_study.quoted("x" * 10**6)) <= case_study.LONGEST + 2
