"""What a run will take, by hand, and beside what others measured."""

from dataclasses import replace

import pytest
from compositions import composed
from refuses import refuses

from common.backends.verl import explain
from common.models.size import Size
from common.sweeps import cost
from common.sweeps.assumptions import Accelerator, assumptions, memory_network
from common.sweeps.cost import Engine, Sampled
from common.sweeps.profiles import load_profile

UNIT = Accelerator(80, 1000, 100, 1000, (0.25, 0.5), (0.25, 0.5), 1)
SIZE = Size(1e9, 10, 1000, 100, 1000, 4096)
CACHE = 2 * 2 * 10 * 100 * 500  # bytes of a sequence of 500 tokens


def seven_b(*, prompts: int, group: int, tokens: int, kl: bool):
    """Seconds a step of a 7B on math, without evaluation, low and high, by GPUs."""
    x = composed(("experiment=cluster/qwen7b_grpo",), "f_grpo")
    sampling = replace(x.sampling, prompts=prompts, group_size=group, max_tokens=tokens)
    method = replace(x.method, kl_coef=0.001 if kl else 0.0)
    x, a = replace(x, sampling=sampling, method=method), assumptions()
    size = a.models[x.model.path]

    def seconds(name: str) -> tuple[float, float]:
        profile = load_profile(name)
        ends = [cost._training(x, profile, a, size, profile.gpus, end) for end in (0, 1)]
        return ends[0].steps_s / x.optim.steps, ends[1].steps_s / x.optim.steps

    return seconds


def test_decoding_by_hand():
    """1e9 weights, batch 256 limited by bandwidth: 2e9 bytes and the cache, over 1e12 bytes/s."""
    seconds = (2e9 + 256 * CACHE) / 1e12
    rate = cost.decode_rate(SIZE, None, Engine(UNIT, 1, 256), 500, 0.5)
    assert rate == pytest.approx(0.5 * 256 / seconds)


def test_a_memory_network_is_read_beside_the_policy():
    """DLC at half the width, an eighth of the policy's weights here and half of its cache."""
    memory = replace(SIZE, parameters=1.25e8, kv_width=50)
    seconds = (2e9 + 2.5e8 + 256 * 1.5 * CACHE) / 1e12
    rate = cost.decode_rate(SIZE, memory, Engine(UNIT, 1, 256), 500, 0.5)
    assert rate == pytest.approx(0.5 * 256 / seconds)


def test_the_high_end_waits_for_a_response_of_full_length():
    """Two engines, 100 responses of 450 tokens in two batches; alone, a token reads 2e9 bytes."""
    part = Sampled(responses=100, mean=450, prompt=50, limit=1450, batches=2)
    engine = Engine(UNIT, 2, 256)
    low, high = (cost.sampling_s([part], SIZE, None, engine, end) for end in (0, 1))
    step = (2e9 + 256 * CACHE) / 1e12
    assert low == pytest.approx(100 * 450 * step / (2 * 256 * 0.5))
    assert high == pytest.approx(2 * low + 2 * 1000 * 2e9 / (1e12 * 0.5))


def test_the_memory_network_of_dlc_counts():
    """Qwen3-1.7B beside Qwen3-8B; or one at half the width: half of its two tables, a quarter of
    the rest."""
    x, a = composed(("experiment=cluster/qwen3_8b_dapo_iac_dlc",), "over_sharpening"), assumptions()
    size = a.models["Qwen/Qwen3-8B"]
    profile = replace(load_profile("h100-1x8"), time_min=10**6)  # one attempt
    given = memory_network(x, size, a)
    assert given == a.models["Qwen/Qwen3-1.7B"]
    tables = 2 * 151936 * 4096
    sampler = replace(x.method.sampler, start="random", path=None, shrink=2)
    half = memory_network(replace(x, method=replace(x.method, sampler=sampler)), size, a)
    assert half.parameters == pytest.approx(tables / 2 + (8.19e9 - tables) / 4)
    assert (half.hidden, half.kv_width, half.layers) == (2048, 512, 36)
    alone = replace(x, method=replace(x.method, sampler=None))
    with_it, without = (cost.estimate(y, profile, a) for y in (x, alone))
    # beside vLLM stay float32 weights and moments, over eight GPUs
    assert with_it.memory_gb - without.memory_gb == pytest.approx(12 * 1.72 / 8)
    network = with_it.network
    assert (network.training_gb, network.sampler_gb) == pytest.approx((16 * 1.72 / 8, 2 * 1.72))
    assert network.cache_share == pytest.approx(28 / (28 + 36))  # layers, of one width
    assert without.network is None
    for end in ("low", "high"):
        added = getattr(with_it.gpu_hours, end) - getattr(without.gpu_hours, end)
        assert added == pytest.approx(getattr(network.gpu_hours, end))
        assert 0.1 < getattr(network.sampling, end) < 0.5


@pytest.mark.parametrize("row", ["qwen3_14b_grpo", "qwen3_8b_dapo_iac_dlc"])
def test_explain_and_the_dry_run_say_the_same_memory(row, monkeypatch):
    x, a = composed((f"experiment=cluster/{row}",), "over_sharpening"), assumptions()
    size, profile = a.models[x.model.path], load_profile("h200-4")
    monkeypatch.setattr(explain, "memory_size_of", lambda x, size: memory_network(x, size, a))
    said = explain.memory(x, size, cost._longest_prompt(x, a), 1, 4, 141)
    peak = cost.estimate(x, profile, a).memory_gb
    assert dict(said)["most at once"] == f"{peak:.1f}: fits"
    assert ("memory network" in dict(said)) == (x.method.sampler is not None)


def test_a_memory_network_of_other_tokens_is_refused():
    x, a = composed(("experiment=cluster/qwen3_8b_dapo_iac_dlc",), "over_sharpening"), assumptions()
    sampler = replace(x.method.sampler, path="Qwen/Qwen2.5-7B")
    x = replace(x, method=replace(x.method, sampler=sampler))
    with refuses("sampler.path", "Qwen/Qwen2.5-7B"):
        cost.estimate(x, load_profile("h100-1x8"), a)


def test_what_others_measured_lies_in_the_range():
    """Seconds a step of a 7B: EasyR1, 512 x 5 responses up to 2,048 tokens on 8 H100, 120 to 145;
    SimpleRL-Zoo, 1,024 x 8 up to 8,192 on 16 H100, 540. Scaled from the two, a row of F-GRPO is 330
    and 920 GPU-hours."""
    low, high = seven_b(prompts=512, group=5, tokens=2048, kl=True)("h100-1x8")
    assert low < 120
    assert high > 145
    low, high = seven_b(prompts=1024, group=8, tokens=8192, kl=True)("h100-2x8")
    assert low < 540 < high
    row = composed(("experiment=cluster/qwen7b_f_grpo",), "f_grpo")
    hours = cost.estimate(row, load_profile("h100-1x8"), assumptions()).gpu_hours
    assert hours.low < 330 < 920 < hours.high
    assert hours.high < 1500  # the range is of some use
