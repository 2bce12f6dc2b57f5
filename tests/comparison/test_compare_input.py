import gzip
import json

import pandas as pd
import pytest
from made_up_runs import cell, few_cells
from refuses import refuses

from common.comparison import compare, import_runs
from common.comparison.spec import spec_of
from common.errors import UserError
from common.metrics.passk import pass_at_k
from common.results.checks import check_counts, check_names, check_rows, checked_counts

SPEC = spec_of("f_grpo")

ROW = dict(table="t", model="m", method="A", benchmark="b", metric="pass@1", k=1, value=12.5,
           unit="percent", seed=1, step=9, run_id="r")  # fmt: skip


def rows(*changes):
    return pd.DataFrame([ROW | change for change in changes])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"value": 137.0}, "f.csv:3: value=137.0 percent lies outside 0..100 (table=t, model=m"),
        ({"value": float("nan")}, "f.csv:3: value=nan is not a number"),
        ({"metric": "pass@32", "n_samples": 16}, "f.csv:3: pass@32 of fewer than k samples"),
        ({"method": "B"}, "f.csv:3: this row repeats an earlier row, which counts"),
    ],
)
def test_a_row_that_cannot_be_is_named_with_its_line(change, words):
    frame = rows({"method": "B"}, change, {"method": "C"})
    kept, messages = check_rows(frame, "f.csv")
    assert len(messages) == 1
    assert messages[0].startswith(words)
    assert kept["method"].tolist() == ["B", "C"]
    assert kept["value"].tolist() == [12.5, 12.5]


def test_of_two_values_of_one_row_none_counts():
    kept, messages = check_rows(rows({}, {"value": 13.0}, {"method": "C"}), "f.csv")
    assert kept["method"].tolist() == ["C"]
    assert [x.split(": ")[0] for x in messages] == ["f.csv:2", "f.csv:3"]
    assert "appears again with another value" in messages[0]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("b,2,8,9", "f.csv:4: problem 2: c=9, n=8: needs whole numbers, 0 <= c <= n"),
        ("b,2,16,3", "f.csv:4: problem 2: n=16: the other problems have another n"),
        ("b,1,8,3", "f.csv:4: problem 1: the problem appears twice"),
    ],
)
def test_an_evaluation_with_bad_counts_is_named_and_left_out(tmp_path, line, words):
    (tmp_path / "f.csv").write_text(
        f"benchmark,problem_id,n,c\nb,0,8,1\nb,1,8,1\n{line}\nx,0,8,1\n"
    )
    counts = pd.read_csv(tmp_path / "f.csv", dtype={"problem_id": str})
    kept, (message,) = check_counts(counts, "f.csv")
    assert message.startswith(words)
    assert kept["benchmark"].tolist() == ["x"]  # the other evaluation stands


def test_unknown_names_are_told_with_the_nearest_known_one():
    printed = rows({"method": "GRPO"}, {"method": "F-GRPO"})
    given = rows({"method": "GRPO"}, {"method": "GPRO"}, {"method": "Our own"}, {"benchmark": "bb"})
    messages = check_names(given, printed, "f.csv", {"Our own", "A"})
    assert messages == [
        "f.csv:3: method=GPRO is not in t; did you mean GRPO? Its rows match no printed cell",
        "f.csv:5: benchmark=bb is not in t; did you mean b? Its rows match no printed cell",
    ]
    assert check_names(given.assign(table="mine"), printed, "f.csv", set()) == []


@pytest.fixture(autouse=True)
def few_claims(monkeypatch):
    few_cells(monkeypatch)


def test_counts_in_a_damaged_file_are_left_out(tmp_path):
    path = tmp_path / "counts.csv.gz"
    path.write_bytes(gzip.compress((HEAD + GOOD).encode())[:40])
    counts, (message,) = checked_counts(path)
    assert counts.empty
    assert message.startswith(f"{path}: cannot be read")


# ---- results from elsewhere

HEAD = "table,model,method,benchmark,seed,step,problem_id,n,c\n"
GOOD = "table1,Qwen2.5-7B,GRPO,AIME24,1,9,a,16,4\ntable1,Qwen2.5-7B,GRPO,AIME24,1,9,b,16,0\n"


def bring(root, path, **fixed):
    return import_runs.import_runs(
        "f_grpo", [str(path)], "A. Person, 2026", fixed, scope="cluster", root=root
    )


@pytest.mark.sweep
def test_counts_from_elsewhere_stand_for_printed_cells(tmp_path):
    path, root = tmp_path / "theirs.csv", tmp_path / "results"
    path.write_text(HEAD + GOOD + GOOD.replace("GRPO", "DAPO"))
    runs = bring(root, path)
    assert len(runs) == 2
    assert bring(root, path) == runs  # found, not repeated
    result = compare.assess(SPEC, root)
    assert cell(result)["rerun"] == pytest.approx(12.5)  # (4/16 + 0) / 2
    assert cell(result)["state"] == "ok"
    assert set(result.runs["imported"]) == {"A. Person, 2026"}
    one = result.found["f_grpo"].scopes["cluster"]
    rows, counts = one.rows, one.counts
    at_4 = 50 * pass_at_k([4], 16, [4])[0, 0]
    assert rows.query("method == 'GRPO' and k == 4")["value"].tolist() == pytest.approx([at_4])
    assert counts["c"].tolist() == [4, 0, 4, 0]
    meta = json.loads((runs[0] / "meta.json").read_text())
    assert meta["imported"] == "A. Person, 2026"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("b,16,0", "b,16,17", "theirs.csv:3: problem b: c=17, n=16"),
        ("b,16,0", "b,16,0.25", "theirs.csv:3: problem b: c=0.25, n=16: needs whole numbers"),
        ("b,16,0", "b,16,0.25", "how many samples were right, not their share"),
        ("b,16,0", "b,16,", "theirs.csv:3: c is missing"),
        ("1,9,b", "x,9,b", "theirs.csv: seed, step: must be whole numbers"),
        ("GRPO,AIME24,1,9,b", "GPRO,AIME24,1,9,b", "theirs.csv:3: method=GPRO is not in table1"),
        ("AIME24,1,9,b", "aime24,1,9,b", "benchmark=aime24 is not in table1; did you mean AIME24"),
        ("problem_id", "problem", "unknown; known are"),
    ],
)
def test_an_import_that_cannot_be_used_writes_nothing(tmp_path, old, new, words):
    path, root = tmp_path / "theirs.csv", tmp_path / "results"
    path.write_text((HEAD + GOOD).replace(old, new))
    with pytest.raises(UserError) as error:
        bring(root, path)
    assert words in str(error.value)
    assert not root.exists()


def test_files_are_named_by_a_path_a_folder_or_a_glob(tmp_path):
    home = tmp_path / "lr[1],x"
    home.mkdir()
    for name in ("a.csv", "b[2].csv", "c.csv.gz", "notes.txt"):
        (home / name).write_text("")
    found = lambda pattern: [x.split("/")[-1] for x in import_runs.matching(pattern)]  # noqa: E731
    assert found(str(home / "b[2].csv")) == ["b[2].csv"]
    assert found(str(home)) == ["a.csv", "b[2].csv", "c.csv.gz"]
    assert found(f"{home}/[ab]*.csv") == []  # which of the brackets are meant is not guessed
    assert found(f"{home}/*.csv") == ["a.csv", "b[2].csv"]
    assert found(f"{tmp_path}/lr*/[ab]*.csv") == ["a.csv", "b[2].csv"]
    with refuses("files", "nothing*"):
        import_runs.main(["paper=f_grpo", "files=nothing*", "source=x"])


@pytest.mark.sweep
def test_a_byte_order_mark_and_other_line_ends_are_read(tmp_path):
    text = "\ufeff" + (HEAD + GOOD).replace("\n", "\r\n") + "\r\n\r\n"
    path = tmp_path / "theirs.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    (run,) = bring(tmp_path / "results", path)
    assert pd.read_csv(run / "counts.csv")["c"].tolist() == [4, 0]


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"PAR1\x15\x04", "parquet"),
        (HEAD.encode(), "no row"),
        (b"PK\x03\x04\x14", "inspect"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
        (b'\xef\xbb\xbf\n{"results": {"aime": {}}}', "lm-eval"),
        (b'[{"id": 1}]', "JSON"),
    ],
)
def test_a_file_that_holds_no_counts_is_told_by_what_it_is(tmp_path, data, word):
    for path in (tmp_path / "theirs.log", tmp_path / "theirs.gz"):
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        with refuses("files", str(path)) as error:
            bring(tmp_path / "results", path)
        assert word in str(error.value)
    with refuses("files", str(tmp_path)):
        bring(tmp_path / "results", tmp_path)


@pytest.mark.parametrize("problems", ["same", "other"])
def test_two_files_are_never_one_evaluation(tmp_path, problems):
    """A copy, a rerun or another model, on the same problems or on others."""
    other = GOOD.replace(",a,", ",d,").replace(",b,", ",e,") if problems == "other" else GOOD
    (tmp_path / "one.csv").write_text(HEAD + GOOD)
    (tmp_path / "two.csv").write_text(HEAD + other)
    files, root = import_runs.matching(str(tmp_path)), tmp_path / "results"
    with pytest.raises(UserError, match=r"one\.csv and .*two\.csv: .*model=Qwen.* step=9.*seed="):
        import_runs.import_runs("f_grpo", files, "x", {}, scope="cluster", root=root)
    assert not root.exists()


@pytest.mark.sweep
def test_an_evaluation_is_imported_once(tmp_path):
    path, root = tmp_path / "theirs.csv", tmp_path / "results"
    path.write_text(HEAD + GOOD)
    (run,) = bring(root, path)
    again = tmp_path / "rerun.csv"
    again.write_text(HEAD + GOOD.replace("16,4", "16,5"))
    for file, source in ((path, "B. Person"), (again, "A. Person, 2026")):
        with pytest.raises(UserError, match=f"seed=1, step=9: is in {run} already"):
            import_runs.import_runs("f_grpo", [str(file)], source, {}, scope="cluster", root=root)
    again.write_text(HEAD + GOOD.replace("AIME24,1", "AIME24,2"))
    assert len(bring(root, again)) == 1
    assert len(list((root / "f_grpo").iterdir())) == 2
