"""`verl_reward` as stock verl loads and calls it, from an event loop off the main thread."""

import asyncio
import threading

import torch
from omegaconf import OmegaConf
from verl import DataProto
from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager
from verl.trainer.ppo.reward import get_custom_reward_fn

from common.verifiers.trainers import shares

GIVEN = {
    "path": "pkg://common.verifiers.trainers",
    "name": "verl_reward",
    "reward_kwargs": {"verifier": "common.verifiers.countdown.verify", "workers": 1},
}


class Letters:
    """A tokenizer of which each token is a character."""

    def decode(self, ids, skip_special_tokens: bool) -> str:
        return "".join(map(chr, ids))


def test_verls_reward_manager_gets_score_and_outcome():
    ids = list(map(ord, r"\boxed{1+2+3+4}"))
    function = get_custom_reward_fn(OmegaConf.create({"reward": {"custom_reward_function": GIVEN}}))
    rows = DataProto.from_dict(
        tensors={
            "responses": torch.tensor([ids]),
            "attention_mask": torch.ones(1, len(ids), dtype=torch.long),
        },
        non_tensors={
            "data_source": ["made"],
            "reward_model": [{"ground_truth": "1 2 3 4 = 10"}],
            "extra_info": [{}],
        },
    )
    found = []

    async def judged():
        manager = NaiveRewardManager(OmegaConf.create({}), Letters(), function)
        return await manager.run_single(rows)

    thread = threading.Thread(target=lambda: found.append(asyncio.run(judged())))
    thread.start()
    thread.join()
    (one,) = found
    assert one["reward_score"] == 1
    extra = one["reward_extra_info"]
    assert extra["outcome"] == "correct"
    assert {name: extra[name] for name in shares([])} == shares([]) | {"correct": 1}
