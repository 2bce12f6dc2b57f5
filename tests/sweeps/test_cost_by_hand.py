"""What a run will take, by hand, and beside what others measured."""

import math
from dataclasses import replace

import pytest
from compositions import composed
from refuses import refuses

from common.backends.verl import explain
from common.models.size import Size
from common.sweeps import cost, kernels
from common.sweeps.assumptions import Accelerator, assumptions, memory_network
from common.sweeps.profiles import load_profile
from common.sweeps.sampling_time import (
    Engine,
    Sampled,
    decode_rate,
    joined,
    measured_kernels,
    sampling_s,
)

UNIT = Accelerator(80, 1000, 100, 1000, (0.25, 0.5), (0.25, 0.5), (0.25, 0.5), 1)
SIZE = Size(1e9, 10, 1000, 100, 1000, 4096)
CACHE = 2 * 2 * 10 * 100 * 500  # bytes of a sequence of 500 tokens


def seven_b(*, prompts: int, group: int, tokens: int, kl: bool, size: str = "Qwen/Qwen2.5-7B"):
    """Seconds a step on math, with a 7B's lengths, without evaluation, low and high, by GPUs."""
    x = composed(("experiment=cluster/qwen7b_grpo",), "f_grpo")
    sampling = replace(x.sampling, prompts=prompts, group_size=group, max_tokens=tokens)
    method = replace(x.method, kl_coef=0.001 if kl else 0.0)
    x, a = replace(x, sampling=sampling, method=method), assumptions()
    of = a.models[size]

    def seconds(name: str) -> tuple[float, float]:
        profile = load_profile(name)
        ends = [cost._training(x, profile, a, of, profile.gpus, end) for end in (0, 1)]
        return ends[0].steps_s / x.optim.steps, ends[1].steps_s / x.optim.steps

    return seconds


def test_decoding_by_hand():
    """1e9 weights, batch 256 limited by bandwidth: 2e9 bytes and the cache, over 1e12 bytes/s."""
    seconds = (2e9 + 256 * CACHE) / 1e12
    rate = decode_rate(SIZE, None, Engine(UNIT, 1, 256), 500, 0.5)
    assert rate == pytest.approx(0.5 * 256 / seconds)


def test_a_memory_network_is_read_beside_the_policy():
    """DLC at half the width, an eighth of the policy's weights here and half of its cache."""
    memory = replace(SIZE, parameters=1.25e8, kv_width=50)
    seconds = (2e9 + 2.5e8 + 256 * 1.5 * CACHE) / 1e12
    rate = decode_rate(SIZE, memory, Engine(UNIT, 1, 256), 500, 0.5)
    assert rate == pytest.approx(0.5 * 256 / seconds)


def test_a_batch_waits_for_its_longest_response():
    """Two engines, 1,000 responses of 100 tokens in two batches; alone, a token reads the weights
    and its own sequence. The longest of 500 has 100 * ln(500) tokens, or, at the high end, all."""
    part = Sampled(1000, mean=100, prompts=100, prompt=50, limit=1450, batches=2)
    engine = Engine(UNIT, 2, 256)
    for end, longest in ((0, 100 * math.log(500)), (1, 1450)):
        step = (2e9 + 256 * CACHE / 500 * 150) / 1e12 / UNIT.decode_efficiency[1 - end]
        alone = (2e9 + CACHE / 500 * (50 + longest)) / 1e12 / UNIT.decode_efficiency[1 - end]
        seconds = 1000 * 100 * step / (2 * 256) + 2 * (longest - 100) * alone
        assert sampling_s([part], SIZE, None, engine, end) == pytest.approx(seconds)


def test_vllm_takes_its_kernels_and_reads_each_prompt_once():
    """Twice the roofline's time a step at every batch and length, half of the peak in a prefill."""
    ends = [1, 256], [0, 1000]
    steps = [
        [2000 * kernels.roofline_s([SIZE], b, c, 1000, 1000) for c in ends[1]] for b in ends[0]
    ]
    table = kernels.Kernels("made up", *ends, [kernels.Engine("m", 1, 2.5e5, steps)])
    found = kernels.nearest(table, {"m": SIZE}, SIZE, 1, 1000, 1000)
    assert found.share(256, 500) == pytest.approx(0.5)
    assert found.prefill_share() == 0.5
    roofline, vllm = Engine(UNIT, 2, 256), Engine(UNIT, 2, 256, kernels=found)
    part = Sampled(1000, mean=100, prompts=100, prompt=50, limit=1450, batches=2)
    plain, there = (sampling_s([part], SIZE, None, one, 0) for one in (roofline, vllm))
    prefill = 100 * 50 / (2 * 2.5e5 * UNIT.vllm_efficiency[1])
    assert there == pytest.approx(2 * plain + prefill)


def test_the_kernels_of_the_nearest_model():
    """An untied 1.5B is nearer to the tied one than to Qwen3's 1.7B with four times its cache; a
    model of the table takes its own steps, between two lengths halfway; three GPUs count as two."""
    a, table = assumptions(), kernels.kernels_of_h100()
    wide = Size(1.9e9, 28, 1536, 256, 151_936, 4096)
    assert measured_kernels(wide, 1, a).size.kv_width == 256
    size = a.models["Qwen/Qwen2.5-7B"]
    found = measured_kernels(size, 3, a)
    assert (found.engine.model, found.engine.tensor_parallel) == ("Qwen/Qwen2.5-7B", 2)
    row = found.engine.step_ms[table.batches.index(64)]
    unit = joined(a.accelerators["h100"], 2)
    rate = decode_rate(size, None, Engine(unit, 1, 64, kernels=found), 1250, 1.0)
    assert rate == pytest.approx(64_000 / ((row[0] + row[1]) / 2))


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
    """Seconds a step of a 7B: EasyR1, 512 x 5 responses up to 2,048 tokens on 8 H100, 120 to 145.
    SimpleRL-Zoo, 1,024 x 8 up to 8,192 on 16 H100, 540 for 7B and 14B alike, evaluations included:
    between the two sizes. Scaled from the two, a row of F-GRPO with a reference model, as theirs,
    is 330 and 920 GPU-hours."""
    low, high = seven_b(prompts=512, group=5, tokens=2048, kl=True)("h100-1x8")
    assert low < 120
    assert high > 145
    zoo = {"prompts": 1024, "group": 8, "tokens": 8192, "kl": True}
    assert (
        seven_b(**zoo)("h100-2x8")[0] < 540 < seven_b(**zoo, size="Qwen/Qwen3-14B")("h100-2x8")[1]
    )
    row = composed(("experiment=cluster/qwen7b_grpo_kl",), "f_grpo")
    hours = cost.estimate(row, load_profile("h100-1x8"), assumptions()).gpu_hours
    assert hours.low < 330 < 920 < hours.high
    assert hours.high / hours.low < 3.5  # 920 / 330 is 2.8


def test_at_one_length_of_responses_the_ends_are_near():
    row = composed(("experiment=cluster/qwen7b_f_grpo",), "f_grpo")
    found = cost.estimate(row, load_profile("h100-1x8"), assumptions())
    middle = found.at_middle_lengths
    assert found.gpu_hours.low < middle.low < middle.high < found.gpu_hours.high
    assert middle.high / middle.low < 2
