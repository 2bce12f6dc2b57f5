"""The yardstick: one comparison of methods with GRPO at several learning rates, on two testbeds
(docs/evidence.md has its rules).

configs/reproduce.yaml states the rows (named experiments), learning rates, steps and seeds. Every
seed starts from a base model of its own. `rlvr reproduce paper=yardstick scale=third_maze` trains
what is missing, and `rlvr figures paper=yardstick` makes the tables and figures again.
"""

from __future__ import annotations

from collections.abc import Sequence

from common.comparison.matched import ACCURACY
from common.comparison.matched import DIVERSITY as PRIMARY

TESTBEDS = {"third_maze": "mazes with loops", "third_countdown": "Subset-Countdown"}
RATES = ("lr 1e-4", "lr 3e-5", "lr 1e-5")  # `table` of the runs that are compared
FASTEST = RATES[0]
GRPO, BASE = "GRPO", "base"
MARGIN = 3.0  # points, within which two methods are equivalent
LEAST_LEVELS = 5  # how many levels a seed must have on both sides of a comparison
DEV = "dev_"  # begins the name of a benchmark of dev prompts
LAST_KS = (1, 64, 256)  # of pass@k after the last step
PASS64, DISTINCT = ("natural", "pass@64"), ("natural", "distinct_correct")
# what is held equal: accuracy in points above the base model, entropy in percent of the base
# model's entropy that is lost, divergence from the base model in nats
EQUAL_ACCURACY, EQUAL_ENTROPY, EQUAL_KL = "pass@1", "entropy", "KL"
AS_FIRST_DECLARED = "pass@1 to +10"  # declared before any run of a method was read
LEVELS = {
    EQUAL_ACCURACY: tuple(range(2, 17)),
    AS_FIRST_DECLARED: tuple(range(2, 11)),
    EQUAL_ENTROPY: tuple(range(10, 51, 5)),
    EQUAL_KL: tuple(n / 10 for n in range(1, 13)),
}
READ = {  # measures that are read at each; the very first is tested
    EQUAL_ACCURACY: (PRIMARY, PASS64, DISTINCT, ("rare", "distinct_correct")),
    AS_FIRST_DECLARED: (PRIMARY,),
    EQUAL_ENTROPY: (PRIMARY, ACCURACY),
    EQUAL_KL: (PRIMARY, ACCURACY),
}
CONTROLS = ("DAPO", "CISPO", "GRPO (N=2)", "GRPO (N=32)")  # methods of the controls alone
BEST, SAME, OWN, NEXT = "best rates", "same rate", "GRPO's rates", "GRPO's next rate"  # readings


def methods(labels: Sequence[str]) -> list[str]:
    """Return the methods that are compared with GRPO: all but GRPO, the base model and the methods
    that run only for the controls."""
    return [name for name in dict.fromkeys(labels) if name not in (*CONTROLS, GRPO, BASE)]


def speed(rate: str) -> float:
    """Return the learning rate in a name such as "lr 1e-4"."""
    return float(rate.split()[-1])
