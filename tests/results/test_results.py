import errno
import gzip
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pandas as pd
import pytest
from refuses import refuses_file
from tiny import ROOT

from common.results import files
from common.results.collect import collect, finished_runs, verify
from common.results.columns import COLUMNS
from common.results.files import (
    jsonl_appender,
    read_csv,
    read_jsonl,
    require_steps,
    write,
    write_csv,
    write_jsonl_gz,
)
from common.results.run import Run

ROW = dict(
    table="t", model="m", method="GRPO", benchmark="natural", metric="pass@1", k=1, value=12.5,
    unit="percent", stderr=None, n_problems=10, n_samples=8, seed=1, step=6, run_id="a",
)  # fmt: skip


def frame(**changes) -> pd.DataFrame:
    return pd.DataFrame([ROW | changes], columns=COLUMNS)


def finished(root, run_id="a", rows=None):
    run = Run(root, "paper", run_id, {"seed": 1})
    write_csv(run.path / "metrics.csv", frame(run_id=run_id) if rows is None else rows)
    run.finish()
    return run.path


def collected(root):
    """All rows as one table, and what was left out."""
    runs, left_out = finished_runs(root, "paper")
    rows, more = collect(runs)
    return pd.concat([pd.DataFrame(columns=COLUMNS), *rows.values()]), left_out + more


# ---- writing


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failing_write_leaves_the_old_file(tmp_path, monkeypatch, failing):
    path = tmp_path / "metrics.csv"
    write(path, "old")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, failing, full)
        with refuses_file(path):
            write(path, "new")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["metrics.csv"]  # no temporary file left
    write(path, "new")
    assert path.read_text() == "new"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_the_training_curve_on_a_full_disk(tmp_path, monkeypatch):
    def full(_, mode, **settings):
        return open("/dev/full", mode, **settings)

    monkeypatch.setattr(files, "open", full, raising=False)
    monkeypatch.setattr(files, "write", lambda path, data: None)
    with (
        refuses_file(tmp_path / "metrics.jsonl"),
        jsonl_appender(tmp_path / "metrics.jsonl", keep_until_step=0) as append,
    ):
        append({"step": 1})


def test_missing_stays_missing_and_numbers_survive(tmp_path):
    path = tmp_path / "metrics.csv"
    rows = [ROW | {"value": None}, ROW | {"value": 1 / 3}, ROW | {"value": 0.0, "k": None}]
    write_csv(path, pd.DataFrame(rows, columns=COLUMNS))
    again = read_csv(path)
    assert again["value"].isna().tolist() == [True, False, False]
    assert again["value"][2] == 0
    assert abs(again["value"][1] - 1 / 3) < 1e-10
    assert again["stderr"].isna().all()
    assert again["k"].isna().tolist() == [False, False, True]
    assert path.read_text().splitlines()[1].split(",")[6] == ""


# ---- reading what is damaged


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"a": 1}\n{"a": 2\n{"a": 3}\n', 2),
        ("oops\n", 1),
        ('\ufeff{"a": 1}\r\n\r\n{"a": 3\n', 3),
        ('{"a": 1}\n' + "[" * 200_000 + "\n", 2),
        ('{"a": 1}\r{"a": 2}\n', 1),
        ('{"a": 1}\n{"a": 2}\n{"a": "\udc80"}\n', 1),  # no UTF-8: the file is read in blocks
    ],
)
def test_a_damaged_jsonl_is_named_with_its_line(tmp_path, text, line):
    for path in (tmp_path / "rows.jsonl", tmp_path / "rows.jsonl.gz"):
        data = text.encode(errors="surrogateescape")
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        with refuses_file(path) as caught:
            read_jsonl(path)
        assert f"line {line}:" in str(caught.value)


def test_a_byte_order_mark_and_empty_lines_are_no_damage(tmp_path):
    for path in (tmp_path / "rows.jsonl", tmp_path / "rows.jsonl.gz"):
        data = '\ufeff{"a": 1}\r\n\r\n{"a": 3}\r\n \n'.encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        assert read_jsonl(path) == [{"a": 1}, {"a": 3}]


@pytest.mark.parametrize("damage", ["cut", "flipped", "no gzip", "checksum"])
def test_a_damaged_gz_is_named(tmp_path, damage):
    path = tmp_path / "samples.jsonl.gz"
    write_jsonl_gz(path, [{"response": f"{i * 7919 % 1000}"} for i in range(500)])
    data = bytearray(path.read_bytes())
    if damage == "cut":
        data = data[: len(data) // 2]
    elif damage == "flipped":
        data[12:40] = bytes(byte ^ 0xFF for byte in data[12:40])
    elif damage == "no gzip":
        data = bytearray(b"plain text")
    else:
        data[-8] ^= 1
    path.write_bytes(bytes(data))
    with refuses_file(path):
        read_jsonl(path)


# ---- runs


def test_a_finished_run_is_collected_and_verified(tmp_path):
    path = finished(tmp_path)
    assert verify(path) == []
    rows, left_out = collected(tmp_path)
    assert left_out == []
    assert rows["value"].tolist() == [12.5]
    meta = json.loads((path / "meta.json").read_text())
    assert meta["run_id"] == "a"
    assert meta["packages"]["torch"]
    hashes = json.loads((path / "DONE").read_text())
    assert sorted(hashes) == ["config.yaml", "meta.json", "metrics.csv"]


@pytest.mark.parametrize("damage", ["changed", "deleted"])
@pytest.mark.parametrize("name", ["metrics.csv", "config.yaml", "samples/natural.jsonl.gz"])
def test_verify_notices_a_changed_or_deleted_file(tmp_path, name, damage):
    run = Run(tmp_path, "paper", "a", {})
    write_csv(run.path / "metrics.csv", frame())
    write_jsonl_gz(run.path / "samples" / "natural.jsonl.gz", [{"a": 1}])
    run.finish()
    finished(tmp_path, "b")
    if damage == "changed":
        with open(run.path / name, "ab") as file:
            file.write(b"\n")
    else:
        (run.path / name).unlink()
    (wrong,) = verify(run.path)
    assert str(run.path / name) in wrong
    rows, (left_out,) = collected(tmp_path)
    assert left_out.startswith(wrong)
    # without its samples a number stands; the rows of a run that is damaged otherwise are not read
    kept = ["a", "b"] if name.startswith("samples") else ["b"]
    assert rows["run_id"].tolist() == kept


def test_an_unfinished_run_is_reported_and_never_read(tmp_path):
    finished(tmp_path)
    run = Run(tmp_path, "paper", "b", {})
    write_csv(run.path / "metrics.csv", frame(run_id="b"))
    run.close()
    rows, (left_out,) = collected(tmp_path)
    assert rows["run_id"].tolist() == ["a"]
    assert str(run.path) in left_out


@pytest.mark.parametrize("k", [1, None])
def test_a_run_that_says_it_is_another_is_named_and_left_out(tmp_path, k):
    finished(tmp_path, "a", frame(k=k))
    finished(tmp_path, "b", frame(k=k, run_id="b"))
    assert len(collected(tmp_path)[0]) == 2  # two runs: no duplicate
    finished(tmp_path, "c", frame(k=k, value=99.0))  # says that it is run a
    rows, (left_out,) = collected(tmp_path)
    assert rows["run_id"].tolist() == ["a", "b"]
    assert rows["value"].max() < 99
    assert "c/metrics.csv" in left_out


@pytest.mark.process
def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path):
    program = textwrap.dedent(
        f"""
        import os, sys, time
        from pathlib import Path
        from common.results.run import Run
        run, parent = Run(Path({str(tmp_path)!r}), "paper", "a", {{}}), os.getpid()
        if os.fork() == 0:  # the child holds the lock too, as a program does until it has started
            while os.getppid() == parent:
                time.sleep(0.01)
            time.sleep(0.5)
            os._exit(0)
        print("held", flush=True)
        time.sleep(60)
        """
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert other.stdout.readline() == "held\n"
    with refuses_file(tmp_path / "paper" / "a"):
        Run(tmp_path, "paper", "a", {})
    Run(tmp_path, "paper", "b", {}).close()  # another run is free
    other.kill()  # the lock is free once the process and what it was starting are gone
    other.wait()
    Run(tmp_path, "paper", "a", {}).close()


def test_what_a_killed_process_left_is_removed(tmp_path):
    folder = tmp_path / "paper" / "a"
    write(folder / ".model.123.tmp" / "config.json", "{}")
    write(folder / "eval" / ".step-00003.csv.123.tmp", "half")
    write(folder / "eval" / "step-00002.csv", "whole")
    run = Run(tmp_path, "paper", "a", {})
    run.finish()
    left = sorted(str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file())
    assert left == [".lock", "DONE", "config.yaml", "eval/step-00002.csv", "meta.json"]


def test_the_training_curve_goes_on_from_the_checkpoint(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with jsonl_appender(path, keep_until_step=0) as append:
        for step in range(1, 6):
            append({"step": step, "reward": step / 8})
    path.write_bytes(path.read_bytes() + b'{"step": 6, "rew')  # killed while it wrote
    with jsonl_appender(path, keep_until_step=3) as append:
        append({"step": 4, "reward": 0.5})
    assert [row["step"] for row in read_jsonl(path)] == [1, 2, 3, 4]
    assert path.read_text().splitlines()[2] == '{"step": 3, "reward": 0.375}'


@pytest.mark.parametrize("line", [b"[1]", b"5", b'"a"', b'{"step": "\xff"}', b"[" * 200_000])
def test_the_training_curve_ends_before_a_damaged_line(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n' + line + b'\n{"step": 3}\n')
    assert files.whole_rows(path) == [{"step": 1}]


def test_a_lock_that_is_a_folder_is_named(tmp_path):
    lock = tmp_path / "paper" / "a" / ".lock"
    lock.mkdir(parents=True)
    with refuses_file(lock):
        Run(tmp_path, "paper", "a", {})


def test_a_curve_that_lacks_steps_before_the_checkpoint_is_refused(tmp_path):
    path = tmp_path / "metrics.jsonl"
    require_steps(path, 0)
    with refuses_file(path):
        require_steps(path, 3)  # deleted
    rows = [json.dumps({"step": step}) for step in (1, 2, 3, 4)]
    path.write_text("\n".join(rows) + '\n{"step": 5, "rew')
    require_steps(path, 4)
    with refuses_file(path):
        require_steps(path, 5)  # truncated
    path.write_text("\n".join(rows[:1] + rows[2:]))
    with refuses_file(path):
        require_steps(path, 4)
