"""What follows an attempt that ended without a result: whether the job goes back into the queue,
and which nodes it must avoid.

A fault is a failure of a run whose settings are right: NCCL or CUDA gave up, memory ran out in one
batch, the disk was full. A wrong setting raises a plain UserError, or it ends each attempt before
the first checkpoint.
"""

import re
from dataclasses import dataclass
from itertools import takewhile

from common.errors import Fault, UserError
from slurm.stop import Stopped

MOST = 5  # times that a job of one submission is put back into the queue after a fault
STUCK = 3  # idle attempts in a row before a run is given up
UNTRIED = 2  # the same for faults of a run that has saved nothing: its settings may be wrong
# What CUDA and NCCL say of a broken GPU, link or driver, not of memory or of a bad index.
HARDWARE = re.compile(
    r"CUDA error: (?!out of memory|device-side assert)|uncorrectable ECC|fallen off the bus|"
    r"nccl(?:System|Remote|UnhandledCuda|Internal)Error|Watchdog caught collective operation"
)


class BadNodes(Fault):
    """A fault of these nodes, by the names that SLURM gives them."""

    def __init__(self, said: str, nodes: tuple[str, ...]):
        super().__init__(said)
        self.nodes = nodes


@dataclass(frozen=True)
class Next:
    back: bool  # whether the job goes back into the queue
    again: bool  # whether it does so because of a fault
    stuck: bool  # whether it stays out because it got nowhere, too often in a row
    idle: bool  # this attempt got nowhere, and nothing will be different in the next one
    avoid: tuple[str, ...]  # nodes


def after(
    error: BaseException,
    rows: list[dict],
    *,
    saved: int,
    reached: int,
    node: str = "",
    stopped: bool = False,
    returns: bool = False,
    preempted: bool = False,
    lost: str = "",
) -> Next:
    """Return what happens after an attempt ended with `error`. `rows`: what the job's attempts have
    recorded (attempts.jsonl), up to the start of this one.

    saved      the step where the next attempt starts; of an evaluation, the chunks that there are
    reached    the last step that this attempt has made
    node       the job's only node; "" if it has several
    stopped    it was asked to stop, and `returns` says whether the job is to come back. An
               exception is then no fault: a child may have died of the signal
    preempted  SLURM took its nodes away, so it is not idle if it made steps that it could not save
    lost       says how its Ray has lost a node, which SLURM may not notice
    """
    began = [row["step"] for row in rows if "start" in row][-1]
    ends = [row for row in rows if "how" in row]
    fault = isinstance(error, Fault) or not isinstance(error, UserError)
    eased = isinstance(error, Fault) and error.eased
    idle = saved <= began and not eased and not (preempted and reached > began)
    before = list(takewhile(lambda row: row.get("idle"), reversed(ends)))
    wanted = returns or (not stopped and (lost != "" or fault))
    back = isinstance(error, (Exception, Stopped)) and wanted
    again = back and not stopped and not lost
    stuck = back and idle and 1 + len(before) >= (UNTRIED if again and not saved else STUCK)
    tired = again and sum(row.get("again", False) for row in ends) >= MOST
    back = back and not (stuck or tired)
    return Next(back, again and back, stuck, idle, _avoid(error, node, lost) if back else ())


def _avoid(error: BaseException, node: str, lost: str) -> tuple[str, ...]:
    if isinstance(error, BadNodes):
        return error.nodes
    if named := re.match(r"node=([^:]+): ", lost):  # ray_cluster.py
        return (named[1],)
    broken = isinstance(error, Exception) and HARDWARE.search(str(error))
    return (node,) if broken and node else ()
