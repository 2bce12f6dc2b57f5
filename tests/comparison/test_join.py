"""`rlvr join`: rows of new runs are added to stored tables, and nothing that is stored changes."""

import gzip

import pandas as pd
import pytest

from common.comparison import join
from common.errors import UserError

COLUMNS = ["table", "method", "seed", "step", "value", "run_id"]


def write(folder, runs: list[tuple], value: float) -> None:
    """metrics.csv, counts.csv.gz (no run_id) and <table>_training.csv (no table either)."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [(t, m, s, step, value, run) for t, m, s, run in runs for step in (50, 100)]
    frame = pd.DataFrame(rows, columns=COLUMNS)
    frame.to_csv(folder / "metrics.csv", index=False)
    counts = frame[["table", "method", "seed", "step"]].assign(problem_id="007", c=int(value))
    counts.to_csv(folder / "counts.csv.gz", index=False)
    for table, part in frame.groupby("table"):
        part[["method", "seed", "step", "value"]].to_csv(
            folder / f"{table}_training.csv", index=False
        )


def test_only_runs_that_are_new_are_added_to_every_table(tmp_path):
    stored, fresh = tmp_path / "stored", tmp_path / "fresh"
    write(stored, [("t", "GRPO", 1, "grpo-s1-a"), ("long", "GRPO", 1, "grpo-s1-l")], 1.0)
    write(
        fresh,
        [("t", "GRPO", 1, "grpo-s1-a"), ("t", "GRPO", 6, "grpo-s6-b"), ("t", "IAC", 1, "iac-s1-c")],
        2.0,
    )
    for folder, mean in ((stored, "1"), (fresh, "2")):
        (folder / "table.csv").write_text(f"method,mean\nGRPO,{mean}\n")
    before = (stored / "metrics.csv").read_text()
    assert join.join(fresh, stored) == 2
    assert (stored / "table.csv").read_text() == "method,mean\nGRPO,1\n"
    text = (stored / "metrics.csv").read_text()
    assert text.startswith(before)  # what was stored is as it was, the run of seed 1 too
    rows = pd.read_csv(stored / "metrics.csv")
    assert rows.groupby("run_id")["value"].first().to_dict() == {
        "grpo-s1-a": 1,
        "grpo-s1-l": 1,
        "grpo-s6-b": 2,
        "iac-s1-c": 2,
    }
    counts = pd.read_csv(stored / "counts.csv.gz", dtype={"problem_id": str})
    assert set(counts["problem_id"]) == {"007"}
    assert counts.groupby(["table", "method", "seed"])["c"].first().to_dict() == {
        ("long", "GRPO", 1): 1,
        ("t", "GRPO", 1): 1,
        ("t", "GRPO", 6): 2,
        ("t", "IAC", 1): 2,
    }
    curves = pd.read_csv(stored / "t_training.csv")
    assert curves.groupby(["method", "seed"]).size().to_dict() == {
        ("GRPO", 1): 2,
        ("GRPO", 6): 2,
        ("IAC", 1): 2,
    }
    assert len(pd.read_csv(stored / "long_training.csv")) == 2
    again = {path.name: path.read_bytes() for path in stored.iterdir()}
    assert join.join(fresh, stored) == 0
    assert {path.name: path.read_bytes() for path in stored.iterdir()} == again
    assert gzip.decompress(again["counts.csv.gz"])[:5] == b"table"


def test_a_rerun_can_stand_in_place_of_what_is_stored(tmp_path):
    stored, fresh = tmp_path / "stored", tmp_path / "fresh"
    write(stored, [("t", "GRPO", 1, "grpo-s1-a"), ("t", "GRPO", 2, "grpo-s2-a")], 1.0)
    write(fresh, [("t", "GRPO", 1, "grpo-s1-a")], 2.0)
    assert join.join(fresh, stored, replace=True) == 1
    for name, value in (
        ("metrics.csv", "value"),
        ("counts.csv.gz", "c"),
        ("t_training.csv", "value"),
    ):
        table = pd.read_csv(stored / name)
        assert table.groupby("seed")[value].unique().map(list).to_dict() == {1: [2], 2: [1]}
        assert len(table) == 4


def test_what_was_stored_under_another_hash_stays(tmp_path):
    stored, fresh = tmp_path / "stored", tmp_path / "fresh"
    write(stored, [("t", "GRPO", 1, "grpo-s1-a")], 1.0)
    write(fresh, [("t", "GRPO", 1, "grpo-s1-z"), ("t", "GRPO", 2, "grpo-s2-z")], 2.0)
    assert join.join(fresh, stored) == 1
    rows = pd.read_csv(stored / "metrics.csv")
    assert dict(zip(rows["run_id"], rows["value"], strict=True)) == {"grpo-s1-a": 1, "grpo-s2-z": 2}


def test_a_table_that_is_not_stored_yet_begins_with_the_new_runs(tmp_path):
    stored, fresh = tmp_path / "stored", tmp_path / "fresh"
    write(stored, [("t", "GRPO", 1, "grpo-s1-a")], 1.0)
    write(fresh, [("t", "GRPO", 1, "grpo-s1-a"), ("u", "GRPO", 6, "grpo-s6-b")], 2.0)
    join.join(fresh, stored)
    assert pd.read_csv(stored / "u_training.csv")["seed"].tolist() == [6, 6]
    assert pd.read_csv(stored / "t_training.csv")["seed"].tolist() == [1, 1]


def test_another_row_under_the_name_of_a_stored_run_joins_nothing(tmp_path):
    stored, fresh = tmp_path / "stored", tmp_path / "fresh"
    write(stored, [("t", "GRPO", 1, "grpo-s1-a")], 1.0)
    write(fresh, [("t", "GRPO", 1, "mine-s1-z"), ("t", "GRPO", 2, "mine-s2-z")], 2.0)
    before = (stored / "metrics.csv").read_bytes()
    with pytest.raises(
        UserError, match=r"GRPO, seed 1, of t is run mine-s1-z, stored is grpo-s1-a"
    ):
        join.join(fresh, stored)
    assert (stored / "metrics.csv").read_bytes() == before


def test_a_table_of_other_columns_joins_nothing(tmp_path):
    stored, fresh = tmp_path / "stored", tmp_path / "fresh"
    write(stored, [("t", "GRPO", 1, "grpo-s1-a")], 1.0)
    write(fresh, [("t", "GRPO", 2, "grpo-s2-b")], 2.0)
    curves = pd.read_csv(fresh / "t_training.csv").assign(lr=1.0)
    curves.to_csv(fresh / "t_training.csv", index=False)
    before = {path.name: path.read_bytes() for path in stored.iterdir()}
    with pytest.raises(UserError, match=r"t_training.csv: has columns .*lr"):
        join.join(fresh, stored)
    assert {path.name: path.read_bytes() for path in stored.iterdir()} == before


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("papers=nothing", "papers=nothing"),
        ("into=none", "into=none"),
        ("stored=some", "stored=some: use keep or"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, word, message):
    write(tmp_path / "stored" / "f_grpo" / "laptop", [("t", "GRPO", 1, "grpo-s1-a")], 1.0)
    words = [f"into={tmp_path / 'stored'}", f"results_dir={tmp_path}"]
    with pytest.raises(UserError, match=message):
        join.main([*words, word])
