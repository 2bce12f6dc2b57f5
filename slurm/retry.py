"""The decision whether a failed job is tried again from its last checkpoint.

A fault is a failure of a run whose settings are right: NCCL or CUDA gave up, memory ran out in one
batch, a response was lost, the disk was full. A wrong setting raises a plain UserError, or it ends
each attempt before the first checkpoint. A job with a wrong setting is never tried again.
"""

from common.errors import Fault, UserError

MOST = 5  # times that a job of one submission is put back into the queue after a fault


def again(error: BaseException, *, began: int, saved: int, tried: int) -> bool:
    """Return whether a job that ended with `error` goes back into the queue. This attempt `began`
    at one step and has `saved` another (for an evaluation: chunks). The job was put back `tried`
    times before. Without progress it goes back only if the next start asks for less memory
    (Fault.eased)."""
    fault = isinstance(error, Fault) or not isinstance(error, UserError)
    eased = isinstance(error, Fault) and error.eased
    return isinstance(error, Exception) and fault and (saved > began or eased) and tried < MOST
