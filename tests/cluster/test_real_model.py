"""A model that was pretrained by others, SmolLM2-135M-Instruct, trains two steps and is evaluated
on a CPU, by either backend. Its folder comes from outside: docs/cluster.md says how it is made."""

import json
import os
import time
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from runs import of_this_run

from common.backends import run_experiment
from common.experiment import load
from common.results.collect import verify
from common.results.files import read_jsonl

FOLDER = "RLVR_SMOLLM2"
MODEL = os.environ.get(FOLDER, "")
pytestmark = [
    pytest.mark.skipif(
        find_spec("verl") is None, reason="verl is not installed here: make test-cluster runs these"
    ),
    pytest.mark.skipif(
        not MODEL, reason=f"{FOLDER} names no folder with SmolLM2-135M: docs/cluster.md, Tests"
    ),
]
ASKED = "<|im_start|>user\nWhat is {} + {}? Put the answer in \\boxed{{}}.<|im_end|>\n"
ANSWERS = "<|im_start|>assistant\n"


def problems(path: Path, count: int, shift: int) -> Path:
    rows = [
        {
            "id": f"{i}",
            "problem": ASKED.format(i, i + shift) + ANSWERS,
            "answer": f"{2 * i + shift}",
        }
        for i in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("backend", ["local", "verl"])
def test_it_trains_two_steps_and_is_evaluated(tmp_path, backend):
    x = load(
        [
            f"backend={backend}",
            "device=cpu",
            "threads=2",
            "model=huggingface",
            f"model.path={MODEL}",
            "model.name=smollm2",
            "data=jsonl",
            f"data.train.path={problems(tmp_path / 'train.jsonl', 8, 1)}",
            f"data.benchmarks.test.path={problems(tmp_path / 'test.jsonl', 2, 7)}",
            "data.verifier._target_=common.verifiers.math.verify",
            "method=f_grpo",
            "sampling.prompts=2",
            "sampling.group_size=4",
            "sampling.max_tokens=24",
            "optim.steps=2",
            "optim.mini_batches=1",
            "optim.micro_batch=4",
            "optim.warmup_steps=0",
            "optim.lr=1e-6",
            "eval.n=4",
            "eval.k=[1,4]",
            "eval.curve_n=4",
            "eval.every=2",
            "eval.max_tokens=24",
            "eval.rare_nll_samples=0",
            f"results_dir={tmp_path / 'results'}",
        ],
        "f_grpo",
    )
    began = time.monotonic()
    run = run_experiment(x, False)
    print(f"SmolLM2-135M, backend={backend}: {time.monotonic() - began:.0f} s")
    assert verify(run) == []
    curve = pd.DataFrame(read_jsonl(run / "metrics.jsonl"))
    assert curve.step.tolist() == [1, 2]
    samples = read_jsonl(run / "samples" / "test.jsonl.gz")
    assert len(samples) == 2 * 4
    assert all(sample["tokens"] <= 24 for sample in samples)
    # a model that knows the language: under four nats a token (2 were seen; ln 49,152 = 10.8)
    log_prob, tokens = (sum(sample[key] for sample in samples) for key in ("log_prob", "tokens"))
    assert log_prob > -4 * tokens
    if backend == "verl":
        # 1.9e-5 was seen: float32 in both, other kernels
        assert curve.rollout_difference.max() < 1e-3
    assert of_this_run(run) == []
