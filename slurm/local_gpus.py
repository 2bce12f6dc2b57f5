"""All tasks of a plan on one machine (executor=local), each in a process that sees only its GPUs.
Tasks run side by side where their GPUs allow it: `python -m slurm.local_gpus FILE` runs those of
FILE (slurm/submit.py)."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from common.sweeps.schedule import Scheduled, schedule
from common.watch import die_with_parent
from slurm.attempts import attempts, ended
from slurm.job import AGAIN, Task
from slurm.records import write_tasks
from slurm.stop import Stopped

PAUSE = 0.2  # seconds between two looks at the children
CPU = "cpu"  # where there is no GPU: one place, so one task at a time


def run(
    tasks: list[Task], needs: dict[str, list[str]], follows: dict[str, list[str]], gpus: list[str]
) -> list[str]:
    """Run all tasks, in their order, and return the keys of those that failed. If a task fails,
    only the tasks that need it (`needs`) do not run; a task also waits until all tasks in its
    `follows` have ended, with or without success. `gpus`: as CUDA_VISIBLE_DEVICES names them; none
    for a CPU. On TERM or USR2 the running tasks save and end, and then this process ends too."""
    named = {task.key: task for task in tasks}
    running = dict[str, tuple[subprocess.Popen, list[str]]]()  # its process, and its GPUs
    jobs = [
        Scheduled(task.key, needs[task.key], follows[task.key], max(1, task.gpus)) for task in tasks
    ]

    def begin(job: Scheduled, places: list[str]) -> None:
        running[job.key] = _start(named[job.key], places), places

    def ended() -> Iterable[tuple[str, bool]]:
        time.sleep(PAUSE)
        for key in [key for key, (child, _) in running.items() if child.poll() is not None]:
            child, places = running.pop(key)
            if (code := child.returncode) == AGAIN:
                begin(Scheduled(key), places)
                continue
            if code:
                _note(named[key], f"failed: its process ended with code {code}")
            yield key, code == 0

    def lost(job: Scheduled, lacking: list[str]) -> None:
        _note(named[job.key], f"not run, it needs {', '.join(lacking)}")

    for number in (signal.SIGTERM, signal.SIGUSR2):
        signal.signal(number, _stop)
    try:
        return schedule(jobs, gpus or [CPU], begin, ended, lost)
    except Stopped as stopped:
        _end([(child, named[key].signal_lead_s) for key, (child, _) in running.items()])
        raise SystemExit(1) from stopped


def _stop(number: int, _frame) -> None:
    raise Stopped(signal.Signals(number).name)


def _start(task: Task, places: list[str]) -> subprocess.Popen:
    folder = Path(task.folder)
    folder.mkdir(parents=True, exist_ok=True)
    env = {key: value for key, value in os.environ.items() if not key.startswith("SLURM_")}
    env["CUDA_VISIBLE_DEVICES"] = ",".join(places) if task.gpus else ""
    with open(folder / "log.out", "a") as out, open(folder / "log.err", "a") as err:
        return subprocess.Popen(
            [sys.executable, "-m", "slurm.start", str(write_tasks(folder / "task.json", [task]))],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=env,
            preexec_fn=die_with_parent,
        )


def _end(running: list[tuple[subprocess.Popen, int]]) -> None:
    """Let the running tasks save and end, as before a time limit, and kill those that take longer
    than so many seconds."""
    for number in (signal.SIGTERM, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    for child, _ in running:
        child.send_signal(signal.SIGUSR2)
    for child, seconds in running:
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _note(task: Task, how: str) -> None:
    """Record how a task ended that could not do so: it was killed or never began."""
    folder = Path(task.folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows = attempts(folder)
    if not rows or "end" not in rows[-1]:
        ended(folder / "attempts.jsonl", how)
        with open(folder / "log.err", "a") as log:
            print(f"{task.key}: {how}", file=log)


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())
    tasks = [Task(**task) for task in given.pop("tasks")]
    print(json.dumps(run(tasks, **given)))
