"""Dynamic sampling in verl ends: its own loop, on a store in memory, with our limit. And what two
runs need to draw and train alike."""

import asyncio
import itertools
import sys
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("verl", reason="verl is not installed here: make test-cluster runs these")

from vllm.sampling_params import RequestOutputKind, SamplingParams

from common.backends.verl.agent import RawPrompt
from common.backends.verl.sampling import BoundedBuffer
from common.backends.verl.v1 import Buffer

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


def sampled(monkeypatch, mixed, *, batches: int, store: type = Store):
    """(store, chosen groups, logged) of one step."""
    store = store(mixed)
    monkeypatch.setattr(sys.modules[Buffer.__module__], "tq", store)
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
    store.batch = batch
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


# ---- two runs alike


class Late(Store):
    """Responses are stored in the order in which they end, here the last prompt's first."""

    def submit(self, count: int) -> None:
        super().submit(count)
        prompts = [key for key in self.tags if "_" not in key]
        ended = sorted((key for key in self.tags if "_" in key), reverse=True)
        self.tags = {key: self.tags[key] for key in (*prompts, *ended)}


def test_a_step_has_its_responses_in_the_order_of_its_prompts(monkeypatch):
    store, _, _ = sampled(monkeypatch, itertools.repeat(True), batches=1, store=Late)
    assert list(store.batch.keys) == [f"g{i:03d}_{j}_0" for i in range(SIZE) for j in range(G)]
    tags = {f"a_{i}_0": {} for i in (10, 2)}  # a sample's number is no text
    buffer = BoundedBuffer.__new__(BoundedBuffer)
    buffer.prompt_global_steps = {"train": {"a": 1}}
    assert buffer._materialize_batch("train", ["a"], tags).keys == ["a_2_0", "a_10_0"]


class Server:
    """verl's client of its vLLM servers: it notes what it is asked, and answers `ids`."""

    def __init__(self, ids: list[int]):
        self.ids, self.asked = ids, []

    async def generate(self, *, sampling_params, **_):
        self.asked.append(sampling_params)
        return SimpleNamespace(
            token_ids=self.ids,
            log_probs=[-0.5] * len(self.ids),
            stop_reason="stop",
            extra_fields={},
        )


END, LIMIT = 1, 3


def loop_of(server: Server, *, determinism: bool = False, seed: int = 1) -> RawPrompt:
    def tokenizer(texts, add_special_tokens):
        return {"input_ids": [[1] for _ in texts]}

    tokenizer.eos_token_id = END
    rollout = SimpleNamespace(full_determinism=determinism, seed=seed)
    whole = SimpleNamespace(actor_rollout_ref=SimpleNamespace(rollout=rollout))
    config = SimpleNamespace(config=whole)
    return RawPrompt(server_manager=server, tokenizer=tokenizer, trainer_config=config)


def answered(loop: RawPrompt, step=1, source="train", index=0, sample=0):
    row = {"global_steps": step, "data_source": source, "session_id": sample}
    row |= {"extra_info": {"index": index, "max_tokens": LIMIT}}
    return asyncio.run(loop.run({"temperature": 0.7}, raw_prompt=[{"content": "x"}], **row))


def test_each_response_of_a_deterministic_run_has_a_seed_of_its_own_and_the_same_again():
    """verl gives all requests of a server one seed: the responses of a group would be copies."""

    def drawn(determinism: bool, run: int = 1) -> list[int | None]:
        loop = loop_of(server := Server([END]), determinism=determinism, seed=run)
        for place in itertools.product((1, 2), ("train", "set"), (0, 1), range(G)):
            answered(loop, *place)
        return [asked.get("seed") for asked in server.asked]

    assert set(drawn(False)) == {None}
    seeds = drawn(True)
    assert len({*seeds, *drawn(True, run=2)}) == 2 * len(seeds) == 2 * 2**3 * G
    assert drawn(True) == seeds


def test_no_text_and_no_part_of_a_response_is_asked_for():
    answered(loop_of(server := Server([END])))
    (asked,) = server.asked
    made = SamplingParams(**asked)
    assert (made.detokenize, made.flat_logprobs) == (False, True)
    assert made.output_kind == RequestOutputKind.FINAL_ONLY
    assert (made.temperature, made.max_tokens) == (0.7, LIMIT)


@pytest.mark.parametrize(
    ("ids", "stopped"),
    [([7, END], True), ([7, 8, END], True), ([7, 2], True), ([7, 8, 9], False)],
)
def test_a_response_has_stopped_at_any_end_token_unless_it_was_cut_off(ids, stopped):
    assert answered(loop_of(Server(ids))).extra_fields["stopped"] is stopped
