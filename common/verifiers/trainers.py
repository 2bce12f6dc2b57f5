"""Our verifiers as the reward function of TRL and of stock verl. Each response has the deadline and
limits of the pool, whatever thread or event loop asks, and failures are outcomes, not silent zeros.

TRL     reward = trl_reward("common.verifiers.math.verify", reference="answer")

verl    reward.custom_reward_function.path=pkg://common.verifiers.trainers
        reward.custom_reward_function.name=verl_reward
        +reward.custom_reward_function.reward_kwargs.verifier=common.verifiers.math.verify

Each batch is preceded by the canaries of guard.py. UserError is raised for a verifier that fails
them, or that fails on more than `max_faults` of a batch. Left out: our own reward scale (R_c, R_w).
"""

import json
from functools import cache
from typing import get_args

from common.config.schema import Verification
from common.types import Outcome, Verdict, Verify
from common.verifiers import guard
from common.verifiers.batcher import Batcher

MATH = "common.verifiers.math.verify"
LIMITS = {"workers": 2, "deadline": 3.0, "memory_gb": 4.0, "max_faults": 0.1}


class TrlReward:
    """The reward function that `trl_reward` returns; `verdicts` holds those of the last batch."""

    def __init__(self, name: str, verify: Verify, reference: str):
        self.__name__, self.verify, self.reference = name, verify, reference  # TRL logs the name
        self.verdicts: list[Verdict] = []

    def __call__(self, completions: list, **columns) -> list[float]:
        texts = [one if isinstance(one, str) else one[-1]["content"] for one in completions]
        references = map(str, columns[self.reference])
        self.verdicts = self.verify(list(zip(texts, references, strict=True)))
        if "log_metric" in columns:
            for outcome, share in shares(self.verdicts).items():
                columns["log_metric"](f"outcome/{outcome}", share)
        return [verdict.reward for verdict in self.verdicts]


def trl_reward(verifier: str = MATH, *, reference: str = "answer", **options: object) -> TrlReward:
    """Return a function for `reward_funcs` of TRL's GRPOTrainer; `reference` names a column of its
    data set.

    The share of each outcome is logged where the trainer offers `log_metric`. `options` are the
    verifier's own and those in LIMITS: workers, deadline (seconds for each response), memory_gb
    (GiB for each worker), max_faults (share of a batch).
    """
    name = verifier.rpartition(".")[0].rpartition(".")[2] or verifier
    return TrlReward(name, _verify(_named(verifier, options)), reference)


async def verl_reward(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: dict | None = None,
    *,
    verifier: str = MATH,
    **options: object,
) -> dict:
    """Return the score, as verl's custom reward function, together with the outcome, the parsed
    answer, and each outcome as 0 or 1, whose means verl logs. `options` are as in `trl_reward`."""
    verdict = await _batcher(_named(verifier, options)).verdict(solution_str, str(ground_truth))
    flags = {outcome: float(share) for outcome, share in shares([verdict]).items()}
    return {"score": verdict.reward, "acc": flags["correct"], "outcome": verdict.outcome} | {
        "parsed": json.dumps(verdict.parsed),  # as JSON: verl's tables need one type a column
        **flags,
    }


def shares(verdicts: list[Verdict]) -> dict[str, float]:
    """Return the share of each outcome in `verdicts`."""
    said = [verdict.outcome for verdict in verdicts]
    return {outcome: said.count(outcome) / max(1, len(said)) for outcome in get_args(Outcome)}


def _named(verifier: str, options: dict) -> str:
    """Return a verifier with its options and limits as JSON, the key of the caches below."""
    return json.dumps({"_target_": verifier, **options}, sort_keys=True)


@cache
def _verify(named: str) -> Verify:
    node = json.loads(named)
    limits = {name: node.pop(name, default) for name, default in LIMITS.items()}
    return guard.lasting(node, Verification(**limits))


@cache
def _batcher(named: str) -> Batcher:
    return Batcher(_verify(named))
