"""Every way to lose a job: nothing is lost, and the results are those of a run left alone.

A run is held in the middle while a test gets at it: it would have ended by then.
"""

import os
import signal
import time
from contextlib import contextmanager, suppress

import one_machine
import pytest
from hold import HOLD
from lab import sh


def test_preempted(lab, whole, hold):
    """Two elements of an array make way for another partition, save first, and come back."""
    runs = lab.runs(1, 2)
    lab.submit(runs)
    high = ["-p", "high", "-N3", "--gres=gpu:8", "-t1", "-o", "/dev/null", "--wrap", "sleep 1"]
    with held(lab, hold, *runs):  # SLURM itself lets a job run on that it signals
        sh("sbatch", *high)
        lab.wait(lambda: all(len(lab.attempts(run)) == 2 for run in runs))  # began, stopped
    for run in runs:
        began, stopped = lab.attempts(run)
        assert began["step"] == 0
        assert stopped["how"].startswith("stopped: USR2")
    saved = [lab.step(run) for run in runs]
    assert min(saved) >= 15
    assert max(saved) < runs[0].optim.steps
    lab.wait(lambda: all(one.state == "waiting" for one in lab.statuses().values()))
    assert lab.submit(runs)[-1].endswith("0 to submit")
    lab.hasten(2)
    assert {one.state for one in lab.settled().values()} == {"done"}
    for run, step in zip(runs, saved, strict=True):
        again = lab.attempts(run)[2]
        assert again["step"] == step  # not a step was repeated
        assert lab.content(run) == whole[2][run.seed]


def test_each_element_of_an_array_has_a_fate_of_its_own(lab, whole, hold):
    """scontrol requeue of one, kill -9 of one, scancel of a running and of a waiting one."""
    back, killed = lab.runs(1, 2)
    longer = ("optim.steps=20000", "eval.every=20000", "method.controller=null")
    cancelled, never = lab.runs(3, 4, overrides=longer)
    runs = [back, killed, cancelled, never]
    lab.submit(runs, array_parallelism=3)
    with held(lab, hold, back, killed) as (_, pid):
        lab.training(cancelled)
        sh("scontrol", "requeue", lab.job(back))
        lab.wait(lambda: len(lab.attempts(back)) == 2)  # else it ends before SLURM's signal comes
        os.kill(pid, signal.SIGKILL)
        sh("scancel", lab.job(never))
        sh("scancel", lab.job(cancelled))
    lab.wait(
        lambda: all(lab.statuses()[run.run_id].unfinished for run in (killed, cancelled, never))
    )
    statuses = lab.statuses()
    assert statuses[back.run_id].queued
    assert statuses[killed.run_id].state == "failed"
    assert statuses[cancelled.run_id].state == "cancelled"
    assert statuses[never.run_id].state in ("cancelled", "gone")
    assert statuses["compare"].queued  # it waits for the requeued one
    assert lab.submit([back, killed])[0].endswith("2 queued, 2 to submit")
    lab.hasten(0)
    statuses = lab.settled()
    assert statuses[cancelled.run_id].unfinished  # it stays in the status, with what it had reached
    assert lab.step(cancelled) >= 15
    for run in (back, killed):
        assert statuses[run.run_id].state == "done"
        assert lab.content(run) == whole[2][run.seed]
        starts = [row["step"] for row in lab.attempts(run) if "start" in row]
        assert starts[0] == 0
        assert starts[1] >= 10  # resumed from its checkpoint


def test_time_limit(lab, whole, hold):
    """The run stops before SLURM kills it, by the clock or by SLURM's signal, which may come half a
    minute early, and it resumes in another attempt."""
    (run,) = lab.runs(1)
    lab.submit([run], time_min=2, signal_lead_s=45)
    with held(lab, hold, run):
        began = lab.attempts(run)
        clock = began[-1]["start"] + 75
        lab.wait(lambda: time.time() > clock or len(lab.attempts(run)) > len(began))
    lab.wait(lambda: lab.statuses()[run.run_id].state == "waiting")
    stopped = [row["how"] for row in lab.attempts(run) if "end" in row]
    assert stopped
    assert all(how.startswith(("stopped: the clock", "stopped: USR2")) for how in stopped)
    assert 15 <= lab.step(run) < run.optim.steps
    sh("scontrol", "update", f"JobId={lab.job(run)}", "TimeLimit=60")
    lab.hasten()
    assert lab.settled()[run.run_id].state == "done"
    assert lab.content(run) == whole[2][1]


def test_a_lost_node(lab, whole, hold):
    """slurmd dies while its job hangs: SLURM starts the job elsewhere, where it waits until the old
    process, which comes to life again, has given up the run folder."""
    (run,) = lab.runs(1)
    lab.submit([run])
    with held(lab, hold, run):
        node = lab.attempts(run)[0]["node"]
        one_machine.stop_node(lab.folder, node)
        try:
            lab.wait(lambda: sh("sinfo", "-hN", "-n", node, "-p", "low", "-o", "%T") == "down*")
            lab.hasten()
            lab.wait(lambda: len(lab.attempts(run)) == 2)
            assert lab.attempts(run)[1]["node"] != node
            step = lab.step(run)
            time.sleep(3)
            assert lab.step(run) == step < run.optim.steps
        finally:
            one_machine.start_node(lab.folder, node)  # the other tests need all nodes
    assert lab.settled()[run.run_id].state == "done"
    assert lab.content(run) == whole[2][1]


def test_a_fault_is_tried_again_and_an_unwell_run_is_not(lab):
    """Two faults, each after a checkpoint, and a gradient that is never finite."""
    words = ("optim.steps=6", "eval.every=6", "checkpoint_every=1")
    words += ("method.controller={_target_:faulty.befall,seed:${seed}}",)
    runs = faulty, unwell = lab.runs(1, 2, overrides=words)
    lab.submit(runs)
    for ends in (2, 4):  # lines of attempts.jsonl
        lab.wait(lambda ends=ends: len(lab.attempts(faulty)) == ends)
        lab.hasten()
    statuses = lab.settled()
    assert statuses[faulty.run_id].state == "done"
    starts = [row for row in lab.attempts(faulty) if "start" in row]
    assert [row["step"] for row in starts] == [0, 2, 4]
    assert starts[0]["node"] not in {row["node"] for row in starts[1:]}  # CUDA failed there
    assert statuses[unwell.run_id].state == "failed"
    assert "step 3/6" in statuses[unwell.run_id].line
    assert [row["how"][:19] for row in lab.attempts(unwell)[1:]] == ["failed: grad_norm=n"]
    assert "UNWELL grad_norm=nan" in lab.show()


@pytest.fixture
def hold(monkeypatch, tmp_path):
    """The folder where the runs of this test wait (tests/support/hold.py)."""
    folder = tmp_path / "hold"
    folder.mkdir()
    monkeypatch.setenv(HOLD, str(folder))
    return folder


@contextmanager
def held(lab, hold, *runs):
    """The process ids of runs that have passed a checkpoint and do nothing until this ends: each
    waits in its sixteenth step, is stopped there, and told to go on once it may."""
    lab.wait(lambda: all((hold / f"{run.seed}.pid").exists() for run in runs))
    pids = [int((hold / f"{run.seed}.pid").read_text()) for run in runs]
    try:
        for run, pid in zip(runs, pids, strict=True):
            os.kill(pid, signal.SIGSTOP)
            (hold / f"{run.seed}.go").touch()
        yield pids
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
