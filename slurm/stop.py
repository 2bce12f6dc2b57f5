"""When a job must stop, and how it resumes: signals, the walltime clock, requeueing.

A training loop is stopped between two steps, saves a checkpoint and raises `Stopped`, and the job
then requeues itself. verl's trainer, a separate process, is asked to stop
(common/backends/verl/process.py) and saves after its current step.

USR2 (sbatch --signal, time limit or preemption)   saves after the current step, requeues
the clock, `signal_lead_s` before the time limit   the same: SLURM sends USR2 up to a minute late
TERM (preemption without USR2, or scancel)         saves; requeues only where SLURM says preempted.
                                                   With verl some processes end, nothing is saved
KILL, a lost node, an operator's scontrol requeue  nothing; resumes from the periodic checkpoint
"""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from common.results.files import write

AGAIN_FILE = "again-"  # and the job's id, beside the folders of a submission's jobs
END = "RLVR_END"  # environment: the end of the job's time limit, as squeue prints it
UP = ("idle", "alloc", "mix", "comp", "plnd")  # states of a node that takes or runs jobs


class Stopped(BaseException):
    """Training has stopped, to go on from its last checkpoint. No Exception, because it may be
    raised inside code that catches those."""


class Stop:
    def __init__(self, deadline: float | None, lead: float):
        self.deadline, self.lead = deadline, lead
        self.reason: str | None = None
        self.requeue = self.listening = self.closed = False
        self._last, self._longest = time.time(), 0.0

    def listen(self, polled: bool) -> None:
        """Listen to USR2 and TERM, which slurm/start.py has blocked until now.

        SLURM signals every process of a job step, and the verifier's workers and verl's processes
        would die of it. So if `polled`, both signals are blocked, which children inherit, and a
        thread waits for them. (vLLM's server within verl still ends on TERM: Python's resource
        tracker unblocks it.) On USR2, a job that is not `polled` ends at once, and a polled one
        ends if its step takes too long.
        """
        self._polled, self.listening = polled, True
        handlers = {signal.SIGUSR2: self._on_usr2, signal.SIGTERM: self._on_term}
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.signal(signal.SIGALRM, self._on_alarm)
        if polled:
            withhold()
            threading.Thread(target=self._wait, args=(handlers,), daemon=True).start()
        else:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, handlers)

    def _wait(self, handlers: dict) -> None:
        while not self.closed:  # no blocking sigtimedwait: it returns garbage after a suspension
            if (got := signal.sigtimedwait(handlers, 0)) is not None:
                handlers[got.si_signo]()
            time.sleep(0.2)

    def _on_usr2(self, *_) -> None:
        self.reason, self.requeue = "USR2: time limit or preemption", True
        wait = max(1.0, 0.6 * self.lead) if self._polled else 0.001
        signal.setitimer(signal.ITIMER_REAL, wait)

    def _on_term(self, *_) -> None:
        self.reason = self.reason or "TERM: preempted or cancelled"

    def _on_alarm(self, *_) -> None:
        raise Stopped(f"{self.reason}; no checkpoint in time, so the last periodic one counts")

    def poll(self, longest: float | None = None) -> bool:
        """Return whether to stop now: between steps, or during a step with `longest`, the seconds
        of the longest step so far."""
        now = time.time()
        self._longest = max(self._longest, now - self._last) if longest is None else longest
        self._last = now
        if self.deadline is not None and self.reason is None:
            left = self.deadline - now
            if left < max(self.lead, 2 * self._longest):
                self.reason, self.requeue = f"the clock: {left:.0f} s of the time limit left", True
        return self.reason is not None

    def between_steps(self, longest: float | None = None) -> None:
        """Raise Stopped if it is time to stop. Call this where nothing would be lost, or where a
        checkpoint follows: after the running step, if `longest` is given."""
        if self.poll(longest):
            if longest is None:
                self.settle()  # nothing may interrupt the writing of the checkpoint
            raise Stopped(self.reason)

    def settle(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    def close(self) -> None:
        """Ignore all further signals: SLURM would call a job failed that has ended well."""
        self.closed = True
        self.settle()
        for number in (signal.SIGUSR2, signal.SIGTERM) if self.listening else ():
            signal.signal(number, signal.SIG_IGN)


def withhold() -> None:
    """Block USR2 and TERM for this process and for all that it starts."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGUSR2, signal.SIGTERM))


def deadline(time_min: int) -> float | None:
    """Return when this attempt must have ended (seconds since the epoch): by what squeue said when
    the job began (END, before.sh), since a limit can be changed, or else by SLURM_JOB_START_TIME
    (set from SLURM 23 on) and the limit that was asked for."""
    try:
        return datetime.fromisoformat(os.environ.get(END, "")).timestamp()
    except ValueError:
        start = os.environ.get("SLURM_JOB_START_TIME")
        return float(start) + 60 * time_min if start else None


def preempted(job_id: str) -> bool:
    """Return whether SLURM has begun to preempt the job. A cancelled job must not come back."""
    words = _output("scontrol", "show", "job", job_id).split()
    return any(w.startswith("PreemptTime=") and w != "PreemptTime=None" for w in words)


def requeue(runs: Path, job_id: str, avoid: Iterable[str] = ()) -> None:
    """Have this job, or this element of its array, put back into the queue after its end: its batch
    script does so (after.sh) if it finds a file in `runs`. The file names the nodes to stay off
    from now on: `avoid`, if enough others like them are there."""
    write(runs / (AGAIN_FILE + job_id), _excluded(job_id, {*avoid}))


def _excluded(job_id: str, avoid: set[str]) -> str:
    """Return the nodes that the job excludes so far and those to `avoid`, as scontrol takes them;
    "" to leave the job as it is. As many nodes as it takes must remain that are up and have the
    GPUs and features of those to avoid: with too few left it would wait for ever."""
    command = ("squeue", "-h", "-j", job_id, "-o", "%D|%P|%x")
    asked = _output(*command).strip().split("|") if avoid else []
    if len(asked) != 3:
        return ""
    count, partition, names = asked
    excluded = avoid | {*(_output("scontrol", "show", "hostnames", names) if names else "").split()}
    lines = _output("sinfo", "-hN", "-p", partition, "-o", "%N|%t|%G|%f").splitlines()
    nodes = {name: (state, kind) for name, state, kind in (line.split("|", 2) for line in lines)}
    alike = {kind for name, (_, kind) in nodes.items() if name in avoid}
    up = {name for name, (state, kind) in nodes.items() if state in UP and kind in alike}
    return ",".join(sorted(excluded)) if len(up - excluded) >= int(count) else ""


def node_name() -> str:
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname().split(".")[0]


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
