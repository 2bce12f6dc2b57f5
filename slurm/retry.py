"""The one place that decides what happens after an attempt of a job has ended without its result:
whether the job goes back into the queue, and which nodes its next attempt must avoid.

A fault is a failure of a run whose settings are right: NCCL or CUDA gave up, memory ran out in one
batch, a response was lost, the disk was full. A wrong setting raises a plain UserError, or it ends
each attempt before the first checkpoint.
"""

import re
from dataclasses import dataclass
from itertools import takewhile

from common.errors import Fault, UserError
from slurm.stop import Stopped

MOST = 5  # times that a job of one submission is put back into the queue after a fault
STUCK = 3  # idle attempts in a row before a run is given up
UNTRIED = 2  # the same for faults of a run that has saved nothing: its settings may be wrong
# What CUDA and NCCL say when a GPU, a link or a driver is broken. They say that memory ran out too.
HARDWARE = re.compile(
    r"CUDA error: (?!out of memory)|uncorrectable ECC|fallen off the bus|"
    r"nccl(?:System|Remote|UnhandledCuda|Internal)Error|Watchdog caught collective operation"
)


class BadNodes(Fault):
    """A fault of these nodes, by the names that SLURM gives them."""

    def __init__(self, said: str, nodes: tuple[str, ...]):
        super().__init__(said)
        self.nodes = nodes


@dataclass(frozen=True)
class Attempt:
    """How far one attempt of a job has come. Steps; chunks for an evaluation."""

    began: int  # where it started
    saved: int  # where the next one will
    reached: int  # the last step that it has made
    node: str  # the only node of the job; "" if it has several


@dataclass(frozen=True)
class Next:
    back: bool  # whether the job goes back into the queue
    again: bool  # whether it does so because of a fault
    stuck: bool  # whether it stays out because it got nowhere, too often in a row
    idle: bool  # this attempt got nowhere, and nothing will be different in the next one
    avoid: tuple[str, ...]  # nodes


def after(
    error: BaseException,
    this: Attempt,
    earlier: list[dict],
    *,
    stopped: bool = False,
    returns: bool = False,
    preempted: bool = False,
    lost: str = "",
) -> Next:
    """Return what happens after `this` attempt ended with `error`. `earlier`: the lines that the
    attempts before have recorded (attempts.jsonl).

    stopped    it was asked to stop, and `returns` says whether the job is to come back. An
               exception is then no fault: a child may have died of the signal
    preempted  SLURM took its nodes away, so it is not idle if it made steps that it could not save
    lost       says how its Ray has lost a node, which SLURM may not notice
    """
    ends = [row for row in earlier if "how" in row]
    fault = isinstance(error, Fault) or not isinstance(error, UserError)
    eased = isinstance(error, Fault) and error.eased
    moved = this.saved > this.began or eased or (preempted and this.reached > this.began)
    before = list(takewhile(lambda row: row.get("idle"), reversed(ends)))
    wanted = returns or (not stopped and (lost != "" or fault))
    back = isinstance(error, (Exception, Stopped)) and wanted
    again = back and not stopped and not lost
    most = UNTRIED if again and not this.saved else STUCK
    stuck = back and not moved and 1 + len(before) >= most
    tired = again and sum(row.get("again", False) for row in ends) >= MOST
    back = back and not (stuck or tired)
    return Next(back, again and back, stuck, not moved, _avoid(error, this, lost) if back else ())


def _avoid(error: BaseException, this: Attempt, lost: str) -> tuple[str, ...]:
    if isinstance(error, BadNodes):
        return error.nodes
    if named := re.match(r"node=([^:]+): ", lost):  # ray_cluster.py
        return (named[1],)
    broken = isinstance(error, Exception) and HARDWARE.search(str(error))
    return (this.node,) if broken and this.node else ()
