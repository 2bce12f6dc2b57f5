"""Speeds and efficiencies from verl's metrics, by hand, and the dry run that reads them."""

import math

import pytest
import yaml
from refuses import refuses

from common.sweeps import measured
from common.sweeps.assumptions import assumptions


def line(step: int, slower: float = 1.0, **more: float) -> dict:
    """A step of 8 samples of 100 + 300 tokens on 2 GPUs."""
    data = {
        "timing_s/step": 10.0 * slower,
        "timing_s/gen": 4.0 * slower,
        "timing_s/old_log_prob": 1.0 * slower,
        "timing_s/update_actor": 2.0 * slower,
        "prompt_length/mean": 100.0,
        "response_length/mean": 300.0,
        "perf/total_num_tokens": 3200,
        "perf/max_memory_allocated_gb": 30.0,
        "perf/mfu/actor": 0.25,
    }
    return {"step": step, "data": data | more}


LINES = [
    line(1, slower=9),
    {"step": 1, "data": {"rlvr/validation_samples": 4}},
    line(2, slower=3),
    line(3),
]


def test_a_step_by_hand():
    found = measured.speed(LINES, first={1, 2}, gpus=2)
    assert found.seconds == {"step": 10.0, "gen": 4.0, "old_log_prob": 1.0, "update_actor": 2.0}
    assert found.samples == 8
    assert found.rollout_tokens_s == 8 * 300 / 4 / 2
    assert found.training_tokens_s == 3200 / 2 / 2
    assert (found.mfu, found.memory_gb) == (0.25, 30.0)
    # 3,200 tokens x 1e9 weights x (6 + 2) operations in 3 s on 2 x 100 Tflop/s
    assert measured.compute_efficiency(found, 1e9, 100, 2) == pytest.approx(3200 * 8e9 / 6e14)


def test_first_steps_count_where_there_is_no_other():
    assert measured.speed(LINES[:1], first={1}, gpus=2).seconds["gen"] == 36
    assert measured.speed(LINES, first={1}, gpus=2).seconds["gen"] == (4 + 12) / 2
    with pytest.raises(ValueError, match="no training step"):
        measured.speed(LINES[1:2], first=set(), gpus=1)


def test_what_verl_does_not_report_is_missing():
    unknown = line(1, **{"perf/mfu/actor": 0.0, "perf/max_memory_allocated_gb": math.nan})
    found = measured.speed([unknown], first=set(), gpus=1)
    assert (found.mfu, found.memory_gb) == (None, None)
    del unknown["data"]["timing_s/update_actor"]
    found = measured.speed([unknown], first=set(), gpus=1)
    assert found.training_tokens_s is None
    assert measured.compute_efficiency(found, 1e9, 100, 1) is None


def test_the_dry_run_reads_what_was_measured(tmp_path):
    known = assumptions().accelerators
    file = tmp_path / "efficiency.yaml"
    assert measured.with_measured(known, file) == known
    got = {"accelerator": "h100", "compute_efficiency": 0.11, "vllm_efficiency": 0.22}
    got |= {"model": "m", "gpus": 8, "samples": 2048, "commit": None}
    file.write_text(yaml.safe_dump(got))
    changed = measured.with_measured(known, file)
    # the least that is expected: larger models reach more
    most = known["h100"].compute_efficiency[1], known["h100"].vllm_efficiency[1]
    assert changed["h100"].compute_efficiency == (0.11, most[0])
    assert changed["h100"].vllm_efficiency == (0.22, most[1])
    assert changed["h100"].tflops == known["h100"].tflops
    assert {k: v for k, v in changed.items() if k != "h100"} == {
        k: v for k, v in known.items() if k != "h100"
    }
    file.write_text(yaml.safe_dump(got | {"accelerator": "a card of another file"}))
    assert measured.with_measured(known, file) == known
    file.write_text(yaml.safe_dump(got | {"gpus": "many"}))
    with refuses("gpus", "'many'"):
        measured.with_measured(known, file)
