"""Milliseconds of one RL step of the tiny model: rollout, rewards, loss, update. No peer.

It trains random weights of the sizes in configs/model/tiny.yaml: 8 prompts x 8 samples x 32 tokens,
one optimiser step per rollout, no KL, fp32, AdamW (fused), gradient norm 1, and a reward that costs
next to nothing. The model cannot produce the end token, so every response has all its tokens.
"""

import io
import tempfile
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench import flops_a_token, matmul_peak, row, timed
from common.backends.local import Loop
from common.config.schema import Model
from common.experiment import Experiment, load
from common.models import pretrain
from common.models.pretrain import random_model
from common.models.store import save
from common.results.files import jsonl_appender
from common.types import Verdict

PROMPTS, SAMPLES, TOKENS = 8, 8, 32


def run(rounds: int = 40, warm_up: int = 8) -> list[dict]:
    """Return one row. The first `warm_up` steps are left out."""
    name = f"RL step, {PROMPTS * SAMPLES} sequences x {TOKENS} tokens"
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        x = experiment(Path(folder))
        loop = Loop(x, Path(folder), lambda pairs: [verify(*pair) for pair in pairs])
        with jsonl_appender(Path(folder) / "metrics.jsonl", keep_until_step=0) as append:

            def ours():
                line = loop.one_step(loop.step + 1)
                assert line["response_length"] == TOKENS
                append(line)

            times = [timed(ours) for _ in range(warm_up + rounds)]
    ours_ms = 1e3 * median(times[warm_up:])
    # a forward pass to sample, one to train and a backward pass of twice the work
    work = 4 * PROMPTS * SAMPLES * TOKENS * flops_a_token(loop.model)
    share = work / (ours_ms / 1e3) / matmul_peak()
    note = f"no peer; {share:.0%} of the matmul peak"
    return [row(name, ours_ms, None, "ms", note)]


def verify(response: str, reference: str) -> Verdict:
    """Judge about half of the responses right, so that there is a gradient."""
    return Verdict("correct", 1.0) if len(response) % 2 else Verdict("wrong", 0.0)


def experiment(folder: Path) -> Experiment:
    """Return the laptop defaults at this bench's sizes, with a random model saved below
    `folder`."""
    x = load([], "f_grpo")
    tokenizer = pretrain.tokenizer()
    model = random_model(x.model.pretrain, tokenizer)
    tokenizer.add_special_tokens({"eos_token": "<never>"})  # beyond the model's vocabulary
    model.generation_config.eos_token_id = model.config.eos_token_id = tokenizer.eos_token_id
    save(model, tokenizer, folder / "model")
    return replace(
        x,
        device="cpu",
        results_dir=str(folder),
        model=Model(name="random", path=str(folder / "model"), pretrain=None, chat=None),
        data=replace(x.data, verifier={"_target_": "bench.step.verify"}),
        sampling=replace(x.sampling, prompts=PROMPTS, group_size=SAMPLES, max_tokens=TOKENS),
        optim=replace(x.optim, mini_batches=1, micro_batch=PROMPTS * SAMPLES, warmup_steps=0),
    )
