from dataclasses import replace

import pytest
from refuses import refuses

from common.backends.verl.layout import OFFLOAD, PASS, SHARE, SPLIT, Load, choose, whole_heads
from common.models.size import Size

# Sizes as in configs/cost.yaml; responses of 8,192 tokens after prompts of 1,700.
SMALL = Load([Size(1.54e9, 28, 1536, 256, 151_936, 4096)], 4096, 4096, False)
SEVEN = Load([Size(7.62e9, 28, 3584, 512, 152_064, 131_072)], 9892, 9892, False)
FOURTEEN = Load([Size(14.77e9, 40, 5120, 1024, 151_936, 40_960)], 9892, 9892, False)
CWM = Load([Size(32.6e9, 64, 6144, 1024, 128_256, 131_072)], 34_468, 34_468, False)


def chosen(load: Load, nodes: int, gpus: int, gpu_gb: float, given: dict | None = None):
    return choose(load, nodes=nodes, gpus=gpus, gpu_gb=gpu_gb, given=given or {})


@pytest.mark.parametrize(
    ("load", "nodes", "gpus", "gpu_gb", "states", "tokens", "parallel"),
    [
        (SMALL, 1, 8, 80, "gpu", 65_536, 1),
        (SMALL, 1, 1, 80, "gpu", 65_536, 1),
        (SMALL, 1, 1, 48, "between", 16_384, 1),
        (SMALL, 1, 1, 24, "cpu", 16_384, 1),
        (SEVEN, 2, 8, 80, "gpu", 79_136, 1),
        (SEVEN, 1, 8, 80, "gpu", 39_568, 1),
        (SEVEN, 1, 8, 48, "gpu", 19_784, 2),
        (SEVEN, 1, 8, 24, "cpu", 19_784, 4),
        (FOURTEEN, 1, 8, 80, "gpu", 39_568, 2),
        (FOURTEEN, 1, 8, 48, "cpu", 19_784, 4),
        (CWM, 1, 8, 80, "cpu", 34_468, 4),
    ],
)
def test_the_layout_of_a_size(load, nodes, gpus, gpu_gb, states, tokens, parallel):
    one = chosen(load, nodes, gpus, gpu_gb)
    assert one.fits
    assert one.peak_gb <= 0.92 * gpu_gb
    assert (one.states, one.tokens, one.parallel, one.share) == (states, tokens, parallel, SHARE)


def test_a_vllm_is_split_over_whole_heads():
    """Qwen2.5-0.5B has two heads of keys of 64, which count as one of 128."""
    half = Size(4.94e8, 24, 896, 128, 151_936, 32_768)
    assert whole_heads(SEVEN.models, 8) == [1, 2, 4]
    assert whole_heads(SEVEN.models, 6) == [1, 2]
    assert whole_heads([*SEVEN.models, half], 8) == [1]


def test_what_does_not_fit_is_said_and_laid_out_as_small_as_can_be():
    for load, gpus, gpu_gb in ((SEVEN, 1, 24), (FOURTEEN, 1, 48), (CWM, 8, 48)):
        one = chosen(load, 1, gpus, gpu_gb)
        assert (one.fits, one.states, one.tokens) == (False, "cpu", load.trained)


def test_by_hand():
    """7.62 billion weights on 8 GPUs: 16 bytes each in training, 12 while vLLM samples."""
    one = chosen(SEVEN, 1, 8, 80)
    states = 16 * 7.62 / 8
    layer, table = 2 * 7.62 / 28, 152_064 * 3584 / 1e9
    kept = 2 * 3584 * (28 + 4) * 39_568 / 1e9
    # the output layer's backward pass: its logits, weights and gradient
    a_pass = layer + kept + 2 * 152_064 * 39_568 / 1e9 + 4 * table
    assert one.training_gb == pytest.approx(states + a_pass + 0.8)
    assert one.sampling_gb == pytest.approx(12 * 7.62 / 8 + 0.6 * 80)
    assert (one.vllm_gb, one.host_gb) == (pytest.approx(2 * 7.62), 0)
    assert chosen(SEVEN, 1, 8, 24).host_gb == pytest.approx(16 * 7.62)


def test_what_the_user_gives_stays():
    given = {f"{OFFLOAD}.offload_policy": True, PASS: 12_000, SPLIT: 8}
    one = chosen(SEVEN, 1, 8, 80, given)
    assert (one.states, one.tokens, one.parallel) == ("cpu", 12_000, 8)
    assert one.keys() | given == one.keys()
    for part in ("param", "optimizer"):
        one = chosen(SEVEN, 1, 8, 80, {f"{OFFLOAD}.{part}_offload": True})
        assert one.states == "between"


def test_a_vllm_that_does_not_divide_a_node_is_refused():
    with refuses("tensor_model_parallel_size", "3"):
        chosen(SEVEN, 1, 8, 80, {SPLIT: 3})


def test_longer_passes_take_no_more_than_sampling_does():
    short = replace(SMALL, trained=2048)
    found = {gpu_gb: chosen(short, 1, 8, gpu_gb) for gpu_gb in (40, 80, 141, 192)}
    assert {gb: one.tokens for gb, one in found.items()} == {
        40: 32_768, 80: 65_536, 141: 65_536, 192: 65_536,
    }  # fmt: skip
    for gpu_gb, one in found.items():
        longer = chosen(short, 1, 8, gpu_gb, {PASS: 2 * one.tokens})
        assert one.tokens == 65_536 or longer.training_gb > longer.sampling_gb
        as_before = chosen(short, 1, 8, gpu_gb, {PASS: 16_384})
        assert one.peak_gb == as_before.peak_gb
