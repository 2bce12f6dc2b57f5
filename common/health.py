"""Health checks of a training run on the last rows of its metrics.jsonl, for both backends and the
status command. A rule broken for some steps in a row gives a warning, then ends the run."""

import math
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from common.errors import UserError


@dataclass(frozen=True)
class Rule:
    column: str
    wrong: Callable[[float], bool]
    says: str
    warn: int  # steps in a row after which a warning is printed
    stop: float  # steps in a row after which the run ends


RULES = (
    # verl 0.9.1 skips such an update and goes on for ever (engine/fsdp/transformer_impl.py). Three
    # steps in a row are axolotl's loss_watchdog_patience.
    Rule("grad_norm", lambda v: not math.isfinite(v), "the gradient is not finite", 1, 3),
    # Mean |p - q| per token. NeMo RL's recipes fail if exp(mean |log p - log q|) is above 1.05, and
    # |p - q| <= |log p - log q|. The numbers of steps are our choice. Both have the temperature of
    # log-probabilities, whatever that of sampling is. DLC compares its calibrated distribution.
    Rule(
        "rollout_difference_mean",
        lambda v: not v <= 0.05,
        "sampler and trainer disagree on the probabilities, by more than 0.05 a token",
        3,
        10,
    ),
    Rule("truncated", lambda v: v >= 1, "every response was cut off", 6, 20),  # our choice
    # Exactly 0: no group, KL penalty or entropy bonus has a gradient. Our choice of steps.
    Rule("grad_norm", lambda v: v == 0, "the gradient is 0, so the model learns nothing", 5, 100),
    # The estimate of memory counts with 7 GB and leaves 8 % of the GPU (backends/verl/layout.py).
    # More may still fit, so the run goes on. Our choice.
    Rule("asleep_gib", lambda v: v > 12, "vLLM keeps over 12 GiB while it sleeps", 3, math.inf),
    # Nats per token. The threshold is our choice: a thirtieth of the lowest entropy in any run
    # stored here (two_stage's maze).
    Rule("entropy", lambda v: v < 1e-4, "the entropy is below 0.0001 nats a token", 16, 50),
)
LONGEST = int(max(rule.stop for rule in RULES if rule.stop < math.inf))


@dataclass(frozen=True)
class Finding:
    rule: Rule
    steps: int  # in a row, up to the last one
    value: float  # in the last step

    @property
    def stops(self) -> bool:
        return self.steps >= self.rule.stop

    def __str__(self) -> str:
        row = "in the last step" if self.steps == 1 else f"for {self.steps} steps"
        said = f"{self.rule.column}={self.value:.3g}: {self.rule.says}, {row}"
        return said if self.rule.stop == math.inf else f"{said}; the limit is {self.rule.stop}"


def findings(rows: Sequence[dict]) -> list[Finding]:
    """Return the rules that have been broken in the last rows for long enough to report."""
    found = []
    for rule in RULES:
        wrong: list[float] = []
        for row in reversed(rows):
            value = row.get(rule.column, 0.0)
            value = math.nan if value is None else value  # in rows of older runs with verl
            if rule.column not in row or not rule.wrong(value):
                break
            wrong.append(value)
        if len(wrong) >= rule.warn:
            found.append(Finding(rule, len(wrong), wrong[0]))
    return found


class Guard:
    """Prints each new finding of a training run and, if `stops`, ends the run."""

    def __init__(self, rows: Iterable[dict], stops: bool):
        self.rows, self.stops = deque(rows, maxlen=LONGEST), stops
        self.found = findings(self.rows)

    def see(self, row: dict) -> None:
        self.rows.append(row)
        known, self.found = {one.rule for one in self.found}, findings(self.rows)
        for one in self.found:
            if one.rule not in known:
                print(f"warning: {one}", file=sys.stderr, flush=True)

    def check(self) -> None:
        """Raise UserError if a rule ends the run; called where a checkpoint can follow."""
        for one in self.found:
            if self.stops and one.stops:
                raise UserError(
                    f"{one}. Look at metrics.jsonl; stop_rules=false continues the run from its "
                    "checkpoint"
                )
