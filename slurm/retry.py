"""Whether a job that has failed is tried again from its last checkpoint.

A fault is what befell a run whose settings are right: NCCL or CUDA gave up, memory ran out in one
batch, a response was lost, the disk was full. A wrong setting is a plain UserError, or it ends each
attempt before the first checkpoint; it is never tried again.
"""

from common.errors import Fault, UserError

MOST = 5  # times that a job of one submission is put back after a fault


def again(error: BaseException, *, began: int, saved: int, tried: int) -> bool:
    """Whether a job that ended with `error` goes back into the queue. This attempt `began` at one
    step and has `saved` another (of an evaluation: chunks); the job was put back `tried` times
    before. Without progress it goes back only where the next start asks for less memory."""
    fault = isinstance(error, Fault) or not isinstance(error, UserError)
    eased = isinstance(error, Fault) and error.eased
    return isinstance(error, Exception) and fault and (saved > began or eased) and tried < MOST
