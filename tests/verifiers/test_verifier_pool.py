"""The pool of verifier workers and the filter: deadlines, deaths, order, and
that nothing is left running."""

import io
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from processes import alive, heed
from refuses import refuses
from tiny import ROOT

from common.errors import Fault, UserError
from common.evaluation import verify as command
from common.types import Verdict
from common.verifiers.pool import Pool
from common.verifiers.worker import judge

pytestmark = pytest.mark.process

HERE = str(ROOT / "tests" / "support")


@pytest.fixture
def pool(monkeypatch):
    """pool(function of broken_verifiers, **settings) -> Pool, closed at the end of the test."""
    monkeypatch.setattr("sys.path", [HERE, *sys.path])
    opened = []

    def make(function: str = "echo", **settings) -> Pool:
        settings = {"workers": 2, "deadline": 1.0, "memory_gb": 1.0} | settings
        opened.append(Pool({"_target_": f"broken_verifiers.{function}"}, **settings))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


@pytest.fixture(autouse=True)
def children():
    """children() -> the processes that this test has started, zombies included; not those of other
    tests in this process, such as a sandbox."""
    earlier = set(psutil.Process().children())
    return lambda: set(psutil.Process().children()) - earlier


def wait_until(condition, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def test_verdicts_come_in_order_and_equal_pairs_are_judged_once(pool):
    pairs = [(f"r{i % 50}", f"g{i % 7}") for i in range(1000)]
    judge = pool("counted")
    verdicts = judge.map(pairs)
    assert [v.parsed for v in verdicts] == [f"{r} {g}" for r, g in pairs]
    judged = {(pair, v.reason) for pair, v in zip(pairs, verdicts, strict=True)}
    assert len(judged) == len(set(pairs)) == 350  # one serial number a pair, however often it came
    assert judge.map([]) == []


def test_odd_texts_arrive_unchanged(pool):
    odd = ["", "\0", "\ud800 alone", "two\nlines\r\n", "é∑" * 100_000, "x" * 2_000_000]
    verdicts = pool("length").map([(text, "g") for text in odd])
    assert [v.parsed for v in verdicts] == [str(len(text)) for text in odd]


def test_a_hanging_dying_or_bloated_item_costs_only_itself(pool):
    said = {
        "hang": ("timeout", "no verdict within 0.5 s"),
        "die": ("error", "the worker process died"),
        "raise": ("error", "ValueError in echo"),
        "bloat": ("timeout", "needs more memory than a worker may have"),
        "exit": ("error", "the worker process died"),
    }
    texts = [f"ok{i}" for i in range(95)]
    for at, odd in enumerate(said):
        texts.insert(3 + 10 * at, odd)
    verdicts = pool(deadline=0.5).map([(text, "g") for text in texts])
    for text, verdict in zip(texts, verdicts, strict=True):
        wanted = said.get(text, ("correct", ""))
        assert (verdict.outcome, verdict.reason.split(", line")[0]) == wanted


def test_two_workers_judge_two_items_at_once(pool, tmp_path):
    a, b = str(tmp_path / "a"), str(tmp_path / "b")  # each waits until the other is there
    verdicts = pool("meets", deadline=60.0, workers=2).map([(a, b), (b, a)])
    assert {v.outcome for v in verdicts} == {"correct"}


NAP = """
from common.verifiers.pool import Pool
node = {"_target_": "broken_verifiers.naps"}
with Pool(node, workers=1, deadline=2.0, memory_gb=1.0) as pool:
    pool.map([("0", "g")])
    print("ready", flush=True)
    print(pool.map([("1", "g")])[0])
"""


def test_a_job_that_was_stopped_and_went_on_loses_no_verdict():
    """As scontrol suspend does, for longer than the deadline, while the answer is judged."""
    there = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{HERE}"}
    command = [sys.executable, "-c", NAP]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=there) as job:
        assert job.stdout.readline() == "ready\n"
        time.sleep(0.3)
        everything = [psutil.Process(job.pid), *psutil.Process(job.pid).children(recursive=True)]
        assert len(everything) == 4  # the pool's mother, what guards its workers, a worker
        for process in everything:
            process.suspend()
        time.sleep(3)
        for process in everything:  # the caller first: it finds no answer
            process.resume()
            time.sleep(0.1)
        assert "outcome='correct'" in job.communicate(timeout=60)[0]


def test_memory_stays_flat_and_no_zombie_is_left(pool, children):
    judge = pool(deadline=0.2)
    judge.map([("ok", "g")])
    (mother,) = children()
    for _ in range(3):
        judge.map([(word, str(i)) for i in range(4) for word in ("die", "ok", "hang")])
    judge.map([(str(i), "g") for i in range(1000)])
    # a busy machine takes its time over ending a killed worker
    assert wait_until(lambda: 2 <= len(mother.children()) <= 3)  # one guards the workers
    for worker in mother.children():
        assert worker.status() != psutil.STATUS_ZOMBIE
        assert worker.memory_info().rss < 100_000_000
    judge.close()
    assert not children()


@pytest.mark.parametrize("target", ["broken_verifiers.absent", "no_such_module.verify"])
def test_a_verifier_that_cannot_be_imported_is_an_error_at_once(target, children):
    with Pool({"_target_": target}, workers=1, deadline=1, memory_gb=1) as judge:
        with pytest.raises(UserError, match=f"verifier {target} cannot be started: Traceback"):
            judge.map([("a", "b")])
        assert not children()


def test_a_verifier_that_does_not_start_in_time_is_a_fault(monkeypatch, children):
    monkeypatch.setattr("common.verifiers.pool.START", 0.001)
    with Pool({"_target_": "broken_verifiers.echo"}, workers=1, deadline=1, memory_gb=1) as judge:
        with pytest.raises(Fault, match="did not start in time"):
            judge.map([("a", "b")])
        assert not children()


def test_a_bad_reference_stops_the_map_and_the_pool_goes_on(pool):
    judge = pool(deadline=2.0)
    with pytest.raises(UserError, match="the gold is empty"):
        judge.map([("hang" if i % 2 else "ok", "g") for i in range(100)] + [("ok", "")])
    assert judge.map([("ok", "g")])[0].outcome == "correct"


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (Verdict("yes", 1.0), "outcome='yes'"),
        (Verdict("correct", float("nan")), "reward=nan"),
        (Verdict("correct", "1"), "reward='1'"),
        (Verdict("correct", True), "reward=True"),
        (Verdict("correct", 1.0, 7), "parsed=7"),
        ((True, 1.0), "(True, 1.0)"),
    ],
)
def test_what_no_verdict_can_be_is_the_verifiers_fault_and_said(verdict, said):
    assert said in judge(lambda response, reference: verdict, "any", "thing")


def test_threads_share_one_pool(pool):
    judge = pool()
    with ThreadPoolExecutor(3) as threads:
        calls = {
            name: threads.submit(judge.map, [(f"{name}{i}", "g") for i in range(50)])
            for name in "abc"
        }
    for name, call in calls.items():
        assert [verdict.parsed for verdict in call.result()] == [f"{name}{i}" for i in range(50)]


def test_closing_stops_a_map_in_another_thread(pool, children):
    judge = pool("hangs", deadline=60.0)
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(judge.map, [(str(i), "g") for i in range(8)])
        assert wait_until(lambda: len(children()) == 1)
        time.sleep(0.5)
        judge.close()
        with pytest.raises(UserError, match="closed while it worked"):
            call.result(5)
    assert wait_until(lambda: not children())


SCRIPT = """
import sys
sys.path[:0] = {path!r}
from common.verifiers.pool import Pool
pool = Pool({{"_target_": "broken_verifiers.announces"}}, workers=2, deadline=60, memory_gb=1)
pool.map([({file!r}, str(i)) for i in range(8)])
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_outlives_the_caller_however_it_ends(tmp_path, end):
    """A script without a main guard, whose workers hang, is ended by a signal."""
    file = tmp_path / "pids"
    program = SCRIPT.format(path=[HERE, str(ROOT)], file=str(file))
    command = [sys.executable, "-c", program]
    script = subprocess.Popen(command, stderr=subprocess.DEVNULL, preexec_fn=heed)
    assert wait_until(lambda: file.exists() and len(file.read_text().split()) == 4)
    workers = set(map(int, file.read_text().split()))  # two workers and their mother, twice
    assert len(workers) == 3
    assert all(map(alive, workers))
    script.send_signal(end)
    script.wait(20)
    assert wait_until(lambda: not any(map(alive, workers)))


def test_workers_end_with_their_mother_even_in_the_middle_of_c(pool, tmp_path):
    file = tmp_path / "pids"
    judge = pool("powers", deadline=90.0)
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(judge.map, [(str(file), str(i)) for i in range(2)])
        assert wait_until(lambda: file.exists() and len(file.read_text().split()) == 2)
        workers = list(map(int, file.read_text().split()))
        judge._mother.kill()
        assert wait_until(lambda: not any(map(alive, workers)))
        assert {verdict.outcome for verdict in call.result(60)} == {"error"}


# ---- rlvr verify


def verdicts_on(lines: list[str], *words: str) -> tuple[list[dict], str]:
    """Of `rlvr verify` on standard input, and what it says besides."""
    command = [sys.executable, "-m", "rlvr_papers", "verify", *words, "workers=1"]
    given = "\n".join(lines).encode()
    done = subprocess.run(command, cwd=ROOT, input=given, capture_output=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()


def test_the_filter_answers_every_row_in_order(tmp_path):
    (tmp_path / "problems.jsonl").write_text('{"id": "p", "answer": "1 2 3 4 = 10"}\n')
    rows = {  # the answer of "c" and of "p" is the problem's
        "b": ({"answer": "1 2 3 4 = 10", "response": "\\boxed{1+2+3+4}"}, "correct"),
        "a": ({"gold": "1 2 3 4 = 10", "answer": None, "response": "\\boxed{1}"}, "wrong"),
        "c": ({"answer": None, "response": "none"}, "unparsed"),
        "d": ({"answer": "", "response": "\\boxed{1}"}, "error"),
        "e": ({"answer": "1 2 3 4 = 10", "response": None}, "error"),
        "p": ({"response": "\\boxed{4+3+2+1}"}, "correct"),
    }
    lines = [json.dumps(row | {"id": key, "problem_id": "p"}) for key, (row, _) in rows.items()]
    out, said = verdicts_on(lines, "verifier=countdown", f"problems={tmp_path / 'problems.jsonl'}")
    assert [list(row) for row in out] == [["id", "outcome", "reward", "parsed", "reason"]] * 6
    wanted = [(key, outcome) for key, (_, outcome) in rows.items()]
    assert [(row["id"], row["outcome"]) for row in out] == wanted
    assert "answer=''" in out[3]["reason"]
    assert "'response'" in out[4]["reason"]
    assert "correct 2" in said


def test_a_damaged_line_is_one_error_and_an_empty_one_is_skipped():
    right = '{"id": "a", "answer": "1 2 3 4 = 10", "response": "\\\\boxed{1+2+3+4}"}'
    lines = ["\ufeff" + right + "\r", "\r", right[:-9], "  ", "[1]", right]
    rows, said = verdicts_on(lines, "verifier=countdown")
    assert [row["outcome"] for row in rows] == ["correct", "error", "error", "correct"]
    assert ["line 3" in rows[1]["reason"], "line 5" in rows[2]["reason"]] == [True, True]
    assert "error 2" in said


def test_a_row_that_the_verifier_rejects_is_one_error(tmp_path):
    pytest.importorskip("lm_eval", reason="lm-eval[ifeval] is not installed")
    (tmp_path / "problems.jsonl").write_text('{"id": "p", "problem": "No commas."}\n')
    asked = {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}], "response": "one"}
    faults = [
        {"instruction_id_list": ["no_such:instruction"]},
        {"kwargs": [{"no_such": 1}]},
        {"kwargs": ["one"]},
        {"problem_id": "q"},
    ]
    lines = [json.dumps({"id": "x", "problem_id": "p"} | asked | fault) for fault in [{}, *faults]]
    words = ["verifier=ifeval", f"problems={tmp_path / 'problems.jsonl'}"]
    rows, _ = verdicts_on(lines, *words)
    assert [row["outcome"] for row in rows] == ["correct", *["error"] * 4]
    for row, key in zip(rows[1:], ["no_such:instruction", "no_such", "kwargs", "'q'"], strict=True):
        assert key in row["reason"]


def test_the_samples_of_an_unfinished_log_of_inspect_are_judged(monkeypatch, capsys):
    sample = {"target": "C", "choices": ["1", "2", "3"], "metadata": {"level": 5}}
    log = io.BytesIO()
    with zipfile.ZipFile(log, "w") as parts:  # without header.json, which comes at the end
        parts.writestr("_journal/start.json", "{}")
        for epoch, (said, more) in enumerate(
            [("The answer is C", {}), ("B", {}), ("", {"error": 1})]
        ):
            row = sample | {"id": 7, "epoch": epoch, "output": {"completion": said}} | more
            parts.writestr(f"samples/7_epoch_{epoch}.json", json.dumps(row))
    judge = lambda data: (  # noqa: E731
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data))),
        command.main(["verifier=choice", "workers=1"]),
    )
    judge(log.getvalue())
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["id"], row["outcome"]) for row in rows] == [
        *((7, "correct"), (7, "wrong"), (7, "error"))
    ]
    for damaged in (log.getvalue()[:200], b"PK\x05\x06" + bytes(18)):
        with pytest.raises(UserError, match="inspect"):
            judge(damaged)


@pytest.mark.parametrize(
    ("word", "key", "value"),
    [
        ("tolerance=1", "verifier.tolerance", 1),
        ("workers=two", "verification.workers", "two"),
    ],
)
def test_the_filter_refuses_bad_options(word, key, value):
    with refuses(key, value):
        command.main(["verifier=countdown", word])


def test_the_filter_refuses_a_bad_value(monkeypatch):
    row = b'{"answer": "A", "options": ["1", "2"], "response": "A"}\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(row)))
    with refuses("convention", "mine"):
        command.main(["verifier=choice", "convention=mine"])


def test_rows_of_a_problem_are_its_samples_under_names_of_their_own(monkeypatch, capsys, tmp_path):
    """Two of four samples of a problem are right, and none of the other's: pass@2 is 5 of 6 / 2."""
    right = {"a": 2, "b": 0}
    rows = [
        {"id": name, "output": f"\\boxed{{{'1+2+3+4' if i < right[name] else '1'}}}"}
        for name in right
        for i in range(4)
    ]
    lines = "\n".join(json.dumps(row | {"gts": "1 2 3 4 = 10"}) for row in rows).encode()
    words = ["verifier=countdown", "workers=1", "fields.response=output"]

    def judged(*more: str) -> str:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
        command.main([*words, *more])
        return capsys.readouterr().err

    said = judged("fields.answer=gts", f"counts={tmp_path / 'counts.csv'}")
    written = (tmp_path / "counts.csv").read_text().splitlines()
    assert written == ["benchmark,problem_id,n,c", "countdown,a,4,2", "countdown,b,4,0"]
    shown = [line.split(" [")[0] for line in said.splitlines() if line.startswith("pass@")]
    assert shown == ["pass@1 25.0", "pass@2 41.7", "pass@4 50.0"]
    with pytest.raises(SystemExit, match="1"):
        judged()  # no row has an answer
    assert "error 8" in capsys.readouterr().err
