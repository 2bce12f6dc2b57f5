"""Dynamic sampling in verl ends: its own loop, on a store in memory, with our limit."""

import itertools
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("verl", reason="verl is not installed here: make test-cluster runs these")

from verl.trainer.ppo.v1 import replay_buffer

from common.backends.verl.sampling import BoundedBuffer

SIZE, G = 4, 2  # groups a step, responses a group


class Store:
    """TransferQueue's calls, in memory. `mixed` says of each group that is drawn, in turn, whether
    its rewards differ; a group is finished at the second look."""

    def __init__(self, mixed):
        self.mixed, self.number = iter(mixed), itertools.count()
        self.tags: dict[str, dict] = {}
        self.rewards: dict[str, float] = {}

    def submit(self, count: int) -> None:
        for _ in range(count):
            uid, mixed = f"g{next(self.number):03d}", next(self.mixed)
            self.tags[uid] = {"is_prompt": True, "status": "running", "global_steps": 1}
            for i in range(G):
                self.tags[f"{uid}_{i}_0"] = {"status": "success"}
                self.rewards[f"{uid}_{i}_0"] = float(mixed and i == 0)

    def kv_list(self):
        found = {key: dict(tag) for key, tag in self.tags.items()}
        for tag in self.tags.values():
            if tag.get("status") == "running":
                tag["status"] = "finished"
        return {"train": found}

    def kv_clear(self, *, partition_id, keys):
        for key in keys:
            self.tags.pop(key, None)

    def kv_batch_get(self, *, keys, partition_id, select_fields):
        assert all(key in self.tags for key in keys)  # nothing that was cleared is read
        return {"rm_scores": [torch.tensor([self.rewards[key]]) for key in keys]}


def sampled(monkeypatch, mixed, *, batches: int):
    """(store, chosen groups, logged) of one step."""
    store = Store(mixed)
    monkeypatch.setattr(replay_buffer, "tq", store)
    buffer = BoundedBuffer(
        trainer_mode="sync",
        trainer_config={},
        max_off_policy_threshold=None,
        max_off_policy_strategy="drop",
        sampler_kwargs={"batches": batches},
        poll_interval=0.0,
        refill_fn=store.submit,
        filter_groups_metric="reward",
        train_batch_size=SIZE,
        gen_batch_size=1,
    )
    store.submit(SIZE)
    batch, metrics = buffer.sample(1, "train", SIZE)
    groups = {key.split("_")[0] for key in batch.keys}
    assert len(batch.keys) == SIZE * G
    held = {key.removeprefix("rlvr/"): value for key, value in metrics.items() if "rlvr/" in key}
    return store, groups, SimpleNamespace(**held)


def test_a_step_is_filled_where_the_limit_is_reached(monkeypatch):
    store, groups, logged = sampled(monkeypatch, itertools.repeat(False), batches=3)
    assert next(store.number) == 3 * SIZE
    assert len(groups) == SIZE
    assert (logged.rollout_batches, logged.filled_groups) == (3, SIZE)
    assert {key for key in store.tags if "_" not in key} == set()  # the rest is cleared


def test_mixed_groups_go_first(monkeypatch):
    mixed = [False] * 5 + [True, False, True] + [False] * 4
    store, groups, logged = sampled(monkeypatch, mixed, batches=3)
    assert {"g005", "g007"} < groups
    assert (logged.filled_groups, logged.rollout_batches) == (2, 3)
    assert {key.split("_")[0] for key in store.tags} == groups


def test_within_the_limit_it_is_verls(monkeypatch):
    mixed = itertools.chain([True, True, False, False], itertools.repeat(True))
    _store, groups, logged = sampled(monkeypatch, mixed, batches=5)
    assert groups < {f"g{i:03d}" for i in (0, 1, 4, 5, 6, 7)}  # verl takes any of these
    assert logged.filled_groups == 0
    assert logged.rollout_batches == 2  # two are evicted, and verl draws twice as many
    assert sampled(monkeypatch, itertools.repeat(True), batches=5)[2].rollout_batches == 1


def test_without_a_limit_verl_would_draw_for_ever(monkeypatch):
    """Why the buffer is ours: a verl that reads its own limit would make it unneeded."""
    with pytest.raises(StopIteration):
        sampled(monkeypatch, [False] * 400, batches=10**6)
