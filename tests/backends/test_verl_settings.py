from pathlib import Path

from common.backends.verl.config import STORAGE_UNITS, Place, settings
from common.experiment import load

UNITS = "transfer_queue.backend.SimpleStorage.num_data_storage_units"
PASS = "actor_rollout_ref.actor.ppo_max_token_len_per_gpu"


def told(*, nodes: int = 1, context: int = 131_072) -> dict[str, object]:
    """Every key of a training with 16,384 tokens a response, two mini-batches of 64 prompts."""
    words = ["sampling.prompts=128", "optim.mini_batches=2", "sampling.max_tokens=16384"]
    x = load(["experiment=cluster/qwen7b_grpo", *words], "f_grpo")
    return settings(x, Place("cuda", nodes, 8, None, Path("work"), "model"), 1024, context, {})


def test_every_node_brings_its_units_of_the_store():
    assert [told(nodes=nodes)[UNITS] for nodes in (1, 2, 4)] == [
        nodes * STORAGE_UNITS for nodes in (1, 2, 4)
    ]


def test_a_pass_holds_two_of_the_longest_sequences_that_the_model_reads():
    assert told()[PASS] == 2 * (1024 + 16_384)
    assert told(context=12_000)[PASS] == 2 * 12_000
