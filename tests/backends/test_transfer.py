"""On a CPU: one bucket for all weights, and a shared memory that does not hold them."""

from collections import namedtuple
from pathlib import Path

import pytest
from transformers import LlamaConfig

from common.backends.verl import transfer
from common.backends.verl.config import Place
from common.errors import UserError

Usage = namedtuple("Usage", "total used free")


def place(path: Path, device: str = "cpu") -> Place:
    return Place(device=device, nodes=1, gpus=1, cpus=None, work=path, model=str(path))


def saved(path: Path, layers: int, tied: bool) -> Path:
    LlamaConfig(
        vocab_size=1000,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        tie_word_embeddings=tied,
        architectures=["LlamaForCausalLM"],
    ).save_pretrained(path)
    return path


@pytest.mark.parametrize("tied", [True, False])
def test_the_bucket_holds_every_tensor_that_verl_sends(tmp_path, tied):
    path = saved(tmp_path, 2, tied)
    layer = 64 * (64 + 32 + 32) + 64 * 64 + 3 * 64 * 128 + 2 * 64
    expected = 4 * (2 * 1000 * 64 + 2 * layer + 64)  # the embedding under both of its names
    assert transfer.weight_bytes(str(path)) == expected
    found = transfer.settings(place(path), None)[transfer.KEY]
    assert (found - 1) * 2**20 < expected <= found * 2**20


def test_a_memory_network_travels_with_the_policy(tmp_path):
    policy, memory = saved(tmp_path / "a", 2, True), saved(tmp_path / "b", 30, True)
    alone = transfer.settings(place(policy), None)[transfer.KEY]
    assert transfer.settings(place(policy), str(memory))[transfer.KEY] > alone + 3


def test_what_shared_memory_does_not_hold_is_refused_before_the_start(tmp_path, monkeypatch):
    path = saved(tmp_path, 2, True)
    monkeypatch.setattr(transfer.shutil, "disk_usage", lambda _: Usage(64, 0, 64 << 20))
    with pytest.raises(UserError, match=r"30[12] MiB with Ray's own, and 64 are free"):
        transfer.settings(place(path), None)
    assert transfer.settings(place(path, "cuda"), None) == {}
