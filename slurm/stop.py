"""When a job must stop, and how it resumes: signals, the walltime clock, requeueing.

A training loop is stopped between two steps, where its state is whole: it saves a checkpoint and
raises `Stopped`; the job then requeues itself. verl's trainer, a process of its own, is asked to
(common/backends/verl/process.py) and saves after the step that it is at. What reaches a job, and
what it does:

USR2 (sbatch --signal, time limit or preemption)   saves after the current step, requeues
the clock, `signal_lead_s` before the time limit   the same: SLURM sends USR2 up to a minute late
TERM (preemption without USR2, or scancel)         saves; requeues only where SLURM says preempted.
                                                   Of verl's processes some end: nothing is saved
KILL, a lost node, an operator's scontrol requeue  nothing; resumes from the periodic checkpoint
"""

import os
import signal
import subprocess
import threading
import time
from datetime import datetime

from common.errors import UserError


class Stopped(BaseException):
    """Training has saved a checkpoint and waits to be continued. No Exception, for it may come in
    the middle of code that catches those."""


class Stop:
    """What the signals and the clock ask of the training loop."""

    def __init__(self, deadline: float | None, lead: float):
        self.deadline, self.lead = deadline, lead
        self.reason: str | None = None
        self.requeue = self.listening = self.closed = False
        self._last, self._longest = time.time(), 0.0

    def listen(self, polled: bool) -> None:
        """Take over USR2 and TERM from submitit, whose handler requeues in the middle of a step.

        SLURM signals every process of a step, the verifier's workers and verl's processes too,
        which would die of it and spoil the step. So both signals are blocked, which children
        inherit, and a thread waits for them. Whoever starts Python's resource tracker has TERM
        unblocked by it: vLLM's server within verl ends of that one. What is not `polled` ends at
        once, as does a polled one whose step takes too long.
        """
        self._polled, self.listening = polled, True
        handlers = {signal.SIGUSR2: self._on_usr2, signal.SIGTERM: self._on_term}
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.signal(signal.SIGALRM, self._on_alarm)
        if polled:
            withhold()
            threading.Thread(target=self._wait, args=(handlers,), daemon=True).start()

    def _wait(self, handlers: dict) -> None:
        while not self.closed:  # a sigtimedwait that waits returns garbage after a suspension
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
        raise Stopped(f"{self.reason}; no checkpoint in time, the last periodic one counts")

    def poll(self, longest: float | None = None) -> bool:
        """Whether to stop now. Called between steps, or while one runs with the seconds of the
        `longest` so far."""
        now = time.time()
        self._longest = max(self._longest, now - self._last) if longest is None else longest
        self._last = now
        if self.deadline is not None and self.reason is None:
            left = self.deadline - now
            if left < max(self.lead, 2 * self._longest):
                self.reason, self.requeue = f"the clock: {left:.0f} s of the time limit left", True
        return self.reason is not None

    def between_steps(self, longest: float | None = None) -> None:
        """Called where nothing would be lost, or what it raises is followed by a checkpoint, after
        the step that runs where `longest` is given (see `poll`). Raises Stopped if it is time."""
        if self.poll(longest):
            if longest is None:
                self.settle()  # nothing may interrupt the writing
            raise Stopped(self.reason)

    def settle(self) -> None:
        """No alarm any more."""
        signal.setitimer(signal.ITIMER_REAL, 0)

    def close(self) -> None:
        """The job is over, whatever is asked now. Python gives back its handlers as it ends, and a
        signal from then on would make SLURM call a job failed that has all its results."""
        self.closed = True
        self.settle()
        for number in (signal.SIGUSR2, signal.SIGTERM) if self.listening else ():
            signal.signal(number, signal.SIG_IGN)


def withhold() -> None:
    """Keep USR2 and TERM from this process and from all that it starts."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGUSR2, signal.SIGTERM))


def deadline(job_id: str, time_min: int) -> float | None:
    """When this attempt must have ended (seconds since the epoch); None where SLURM does not say.

    squeue knows it best, for a limit can be changed while a job runs. Where it does not answer:
    SLURM_JOB_START_TIME (set from SLURM 23 on) and the limit that was asked for.
    """
    end = _output("squeue", "-h", "-j", job_id, "-o", "%e").strip()
    try:
        return datetime.fromisoformat(end).timestamp()
    except ValueError:
        start = os.environ.get("SLURM_JOB_START_TIME")
        return float(start) + 60 * time_min if start else None


def preempted(job_id: str) -> bool:
    """Whether SLURM has begun to preempt the job; a cancelled one must not come back."""
    words = _output("scontrol", "show", "job", job_id).split()
    return any(w.startswith("PreemptTime=") and w != "PreemptTime=None" for w in words)


def requeue(job_id: str) -> None:
    """Put this job, or this one element of its array, back into the queue.

    submitit trap 1: SLURM answers a requeue by sending TERM to the whole step, `scontrol` itself
    included; a dead scontrol looks like a failed requeue. The shell makes it ignore TERM. Raises
    UserError if SLURM refuses.
    """
    command = ["sh", "-c", "trap '' TERM; exec scontrol requeue \"$0\"", job_id]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise UserError(
            f"job {job_id} saved a checkpoint but SLURM refused to requeue it "
            f"({done.stderr.strip()[:200]}); submit again to resume from there"
        )


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
