"""What a run will take, by hand, and next to what others measured."""

import math
from dataclasses import replace

import pytest
from compositions import composed

from common.backends.verl.layout import SPLIT
from common.models.size import Size
from common.sweeps import cost
from common.sweeps.assumptions import Accelerator, Vllm, assumptions, model_sizes
from common.sweeps.engines import Engine, Workload
from common.sweeps.profiles import load_profile
from rlvr_papers import docs

UNIT = Accelerator(80, 1000, 100, 1000, (0.25, 0.5), (0.25, 0.5))
SIZE = Size(1e9, 10, 1000, 100, 1000, 4096)
CACHE = 2 * 2 * 10 * 100 * 500  # bytes of a sequence of 500 tokens
LOCAL = Engine(UNIT, width=1, count=2, batch=256, share=0.6, vllm=None)


def test_a_step_of_decoding_by_hand():
    """1e9 weights: 2e9 bytes and the cache over 1e12 bytes/s, 2e9 x 256 operations over 1e15."""
    seconds = (2e9 + 256 * CACHE) / 1e12 + 2e9 * 256 / 1e15
    assert LOCAL.step_s([SIZE], 256, 500, 0) == pytest.approx(seconds / 0.5)
    memory = replace(SIZE, parameters=1.25e8, kv_width=50)  # DLC at half the width
    seconds = (2.25e9 + 256 * 1.5 * CACHE) / 1e12 + 2.25e9 * 256 / 1e15
    assert LOCAL.step_s([SIZE, memory], 256, 500, 1) == pytest.approx(seconds / 0.25)


def test_a_batch_waits_for_its_longest_response():
    """Two engines, 1,000 responses of 100 tokens in two batches. The longest of 500 has
    100 * ln(500) tokens, or, at the high end, all."""
    part = Workload(1000, mean=100, prompts=100, prompt=50, limit=1450, batches=2)
    for end, longest in ((0, 100 * math.log(500)), (1, 1450)):
        step = LOCAL.step_s([SIZE], 256, 150, end)
        alone = LOCAL.step_s([SIZE], 1, 50 + longest, end)
        seconds = 1000 * 100 * step / (2 * 256) + 2 * (longest - 100) * alone
        assert LOCAL.sampling_s(part, [SIZE], end) == pytest.approx(seconds)


def test_vllm_reads_each_prompt_once():
    """Half of the bandwidth and nothing else a step; a quarter of the peak in a prefill."""
    server = Vllm(0, bandwidth=0.5, prefill=0.25, sum_s=0, link_gb_s=1, efficiency=(0.5, 0.5))
    small = replace(UNIT, tflops=1e9)  # operations take no time, but prompts are read at tflops
    part = Workload(1000, mean=100, prompts=100, prompt=50, limit=100, batches=2)
    plain, there = (
        replace(LOCAL, unit=small, vllm=one).sampling_s(part, [SIZE], 0) for one in (None, server)
    )
    assert there == pytest.approx(2 * plain)
    slow = replace(LOCAL, vllm=server).sampling_s(part, [SIZE], 0)
    instant = replace(LOCAL, vllm=replace(server, prefill=1e9)).sampling_s(part, [SIZE], 0)
    assert slow - instant == pytest.approx(100 * 50 * 2e9 / (2 * 1e15 * 0.25 * 0.5))


@pytest.mark.parametrize(
    ("model", "gpus", "batch", "tokens", "measured_ms"),
    [
        ("Qwen/Qwen2.5-1.5B", 1, 1, 2000, 2.15),
        ("Qwen/Qwen2.5-7B", 1, 1, 8000, 5.86),
        ("Qwen/Qwen2.5-7B", 1, 256, 2000, 17.25),
        ("Qwen/Qwen2.5-7B", 4, 256, 2000, 6.39),
        ("Qwen/Qwen3-8B", 2, 128, 8000, 28.79),
        ("facebook/cwm-sft", 4, 64, 24000, 41.98),
    ],
)
def test_a_step_of_vllm_is_near_its_kernels(model, gpus, batch, tokens, measured_ms):
    """Kernels of vLLM 0.24.0 on H100s, as aiconfigurator 0.12.0 sums NVIDIA's measurements."""
    a = assumptions()
    whole = replace(a.vllm, efficiency=(1, 1))
    engine = Engine(a.accelerators["h100"], gpus, 1, 256, 0.6, whole)
    ms = 1000 * engine.step_s([a.models[model]], batch, tokens, 0)
    assert ms == pytest.approx(measured_ms, rel=0.2)


def test_the_memory_network_of_dlc_counts():
    """Qwen3-1.7B beside Qwen3-8B; or one at half the width: half of its two tables, a quarter of
    the rest."""
    x, a = composed(("experiment=cluster/qwen3_8b_dapo_iac_dlc",), "over_sharpening"), assumptions()
    profile = replace(load_profile("h100-1x8"), time_min=10**6)  # one attempt
    given = model_sizes(x, a)[1]
    assert given == a.models["Qwen/Qwen3-1.7B"]
    tables = 2 * 151936 * 4096
    sampler = replace(x.method.sampler, start="random", path=None, shrink=2)
    _, half = model_sizes(replace(x, method=replace(x.method, sampler=sampler)), a)
    assert half.parameters == pytest.approx(tables / 2 + (8.19e9 - tables) / 4)
    assert (half.hidden, half.kv_width, half.layers) == (2048, 512, 36)
    alone = replace(x, method=replace(x.method, sampler=None))
    with_it, without = (cost.estimate(y, profile, a) for y in (x, alone))
    # beside vLLM stay float32 weights and moments, over eight GPUs
    assert with_it.memory_gb - without.memory_gb == pytest.approx(12 * 1.72 / 8)
    for end in ("low", "high"):
        assert getattr(with_it.gpu_hours, end) > 1.1 * getattr(without.gpu_hours, end)


def test_of_six_public_runs_five_lie_in_their_ranges():
    """And the sixth, SimpleRL-Zoo's 32B, above."""
    runs = docs.public_runs()
    assert len(runs) == 6
    assert all(runs["low"] <= runs["reported_high"])
    above = runs[runs["reported_low"] > runs["high"]]
    assert [*above["run"]] == ["SimpleRL-Zoo 32B"]
    assert above["use"].item() == "held out"
    assert all(runs["high"] / runs["low"] < 8)


def test_a_sum_over_the_gpus_of_an_engine_takes_time():
    """Twice a layer: 20 sums of 1 ms, and of 256 x 1,000 numbers of 2 bytes at 1 GB/s."""
    server = Vllm(0, bandwidth=1, prefill=1, sum_s=0.001, link_gb_s=1, efficiency=(0.5, 0.5))
    alone, two = (replace(LOCAL, vllm=server, width=n).step_s([SIZE], 256, 500, 0) for n in (1, 2))
    assert two == pytest.approx(alone / 2 + 20 * (0.001 + 256 * 2000 / 1e9) / 0.5)


@pytest.mark.parametrize(
    ("paper", "row", "width"),
    [
        ("f_grpo", "qwen7b_grpo", 1),  # 17 % faster on four
        ("cov_grpo", "qwen7b_cw_grpo", 2),
        ("over_sharpening", "qwen3_8b_grpo", 4),
    ],
)
def test_a_vllm_is_wider_where_a_quarter_is_gained(paper, row, width):
    x, profile = composed((f"experiment=cluster/{row}",), paper), load_profile("h100-1x8")
    assert cost.on(x, profile, {}).verl[SPLIT] == width
    assert cost.on(x, profile, {SPLIT: 8}).verl[SPLIT] == 8
    models, a = model_sizes(x, assumptions()), assumptions()

    def seconds(width: int, end: int) -> float:
        return sum(cost.training_s(x, profile, a, models, 8, width, end))

    for end in (0, 1):
        assert width == 1 or seconds(1, end) >= 1.25 * seconds(width, end)
        assert width > 1 or seconds(1, end) < 1.25 * seconds(4, end)


def test_verdicts_and_sending_weights_count():
    x, a = composed(("experiment=cluster/qwen7b_grpo",), "f_grpo"), assumptions()
    profile, models = load_profile("h100-1x8"), [a.models["Qwen/Qwen2.5-7B"]]

    def step_s(x, a) -> float:
        factor = replace(a, training_factor=(1, 1))
        return cost.training_s(x, profile, factor, models, 8, 1, 1)[0] / x.optim.steps

    fast, dear = replace(a, weights_gb_s=(1e9, 1e9)), a.verdict_s | {"math": (0, 96)}
    assert step_s(x, a) - step_s(x, fast) == pytest.approx(2 * 7.62 / a.weights_gb_s[0])
    more = step_s(x, replace(a, verdict_s=dear)) - step_s(x, a)
    responses = x.sampling.prompts * x.sampling.group_size  # on 96 CPUs
    assert more == pytest.approx(responses * (1 - a.verdict_s["default"][1] / 96))


def test_hours_have_the_digits_that_they_deserve():
    said = {(4463.2, 15376.4): "4.5k to 15k", (105.3, 344.0): "110 to 340", (0.123, 0.124): "0.12"}
    said |= {(999.0, 999.0): "1k", (2.0, 9.96): "2 to 10"}
    assert {ends: str(cost.Range(*ends)) for ends in said} == said
