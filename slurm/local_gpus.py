"""All tasks of a plan on one machine (executor=local), each a process with GPUs of its own: a
training has all of them, evaluations run beside each other, one a GPU.

`python -m slurm.local_gpus TASK` runs one task; TASK is its fields as JSON.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from slurm.attempts import attempts, ended
from slurm.job import Task
from slurm.stop import Stopped

PAUSE = 0.2  # seconds between two looks at the children
CPU = "cpu"  # where there is no GPU: one place, so one task at a time


@dataclass(frozen=True)
class LocalGpus:
    """The tasks in their order. A failure stops what `needs` it, no other; `follows` names what
    must have ended before, however."""

    tasks: list[Task]
    needs: dict[str, list[str]]
    follows: dict[str, list[str]]
    gpus: list[str]  # as CUDA_VISIBLE_DEVICES names them; none: a CPU

    def __call__(self) -> list[str]:
        """Run them all; returns the keys of those that failed. On TERM or USR2 the running ones
        save and end, and so does this process."""
        waiting, running, done, failed = list(self.tasks), list[Running](), set[str](), set[str]()
        for number in (signal.SIGTERM, signal.SIGUSR2):
            signal.signal(number, _stop)
        try:
            while waiting or running:
                for one in [one for one in running if one.child.poll() is not None]:
                    running.remove(one)
                    done.add(one.task.key)
                    if code := one.child.returncode:
                        failed.add(one.task.key)
                        _note(one.task, f"failed: its process ended with code {code}")
                while (task := self._next(waiting, done, failed)) is not None:
                    if lacking := failed & {*self.needs[task.key]}:
                        done.add(task.key)
                        failed.add(task.key)
                        _note(task, f"not run, it needs {', '.join(sorted(lacking))}")
                    elif places := self._places(task, running):
                        running.append(Running(task, _start(task, places), places))
                    else:
                        break  # no later one overtakes it, or it would wait for ever
                    waiting.remove(task)
                time.sleep(PAUSE)
        except Stopped as stopped:
            _end(running)
            raise SystemExit(1) from stopped
        return [task.key for task in self.tasks if task.key in failed]

    def _next(self, waiting: list[Task], done: set[str], failed: set[str]) -> Task | None:
        """The first task that waits for none, or that will never have what it needs."""
        for task in waiting:
            needed = {*self.needs[task.key]}
            if needed & failed or {*needed, *self.follows[task.key]} <= done:
                return task
        return None

    def _places(self, task: Task, running: list["Running"]) -> list[str]:
        """The GPUs that it would get now; none where too few are free."""
        taken = {place for one in running for place in one.places}
        free = [place for place in self.gpus or [CPU] if place not in taken]
        wanted = max(1, task.gpus)
        return free[:wanted] if wanted <= len(free) else []


@dataclass(frozen=True)
class Running:
    task: Task
    child: subprocess.Popen
    places: list[str]


def _stop(number: int, _frame) -> None:
    raise Stopped(signal.Signals(number).name)


def _start(task: Task, places: list[str]) -> subprocess.Popen:
    """The task as a process that sees these GPUs alone and dies with this one."""
    folder = Path(task.folder)
    folder.mkdir(parents=True, exist_ok=True)
    env = {key: value for key, value in os.environ.items() if not key.startswith("SLURM_")}
    env["CUDA_VISIBLE_DEVICES"] = ",".join(places) if task.gpus else ""
    with open(folder / "log.out", "a") as out, open(folder / "log.err", "a") as err:
        return subprocess.Popen(
            [sys.executable, "-m", "slurm.local_gpus", json.dumps(asdict(task))],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=env,
            preexec_fn=_die_with_parent,
        )


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _end(running: list[Running]) -> None:
    """Let the running tasks save and end, as before a time limit; kill those that take too long."""
    for number in (signal.SIGTERM, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    for one in running:
        one.child.send_signal(signal.SIGUSR2)
    for one in running:
        try:
            one.child.wait(one.task.signal_lead_s)
        except subprocess.TimeoutExpired:
            one.child.kill()
            one.child.wait()


def _note(task: Task, how: str) -> None:
    """How a task ended that could not say so itself: it was killed, or never began."""
    folder = Path(task.folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows = attempts(folder)
    if not rows or "end" not in rows[-1]:
        ended(folder / "attempts.jsonl", how)
        with open(folder / "log.err", "a") as log:
            print(f"{task.key}: {how}", file=log)


if __name__ == "__main__":
    Task(**json.loads(sys.argv[1]))()
