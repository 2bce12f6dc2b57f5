"""Milliseconds of one RL step of the tiny model: rollout, rewards, loss, update. The peer is TRL's
GRPOTrainer, alone and with F-GRPO by rlvr_papers.trl.

All train the same random weights of configs/model/tiny.yaml: 8 prompts x 8 samples x 32 tokens, one
optimiser step a rollout, no KL, float32, AdamW, gradient norm 1, a log line a step, and a reward
that costs next to nothing. The model cannot draw the end token, so every response has all tokens.
"""

import io
import tempfile
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter

from bench import row, timed
from common.backends.local import Loop
from common.backends.prompts import prompts
from common.config.schema import Model
from common.experiment import Experiment, load
from common.models import pretrain
from common.models.store import save
from common.results.files import jsonl_appender
from common.types import Verdict
from rlvr_papers import method

PROMPTS, SAMPLES, TOKENS = 8, 8, 32


def run(rounds: int = 3, steps: int = 15, warm_up: int = 5) -> list[dict]:
    """Return two rows: our step against TRL's, and TRL's with F-GRPO against TRL's. Each round has
    `steps` steps of each side; its first `warm_up` are not counted."""
    times: dict[str, list[float]] = {"ours": [], "TRL": [], "TRL with F-GRPO": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
            x = experiment(Path(folder))
            times["ours"] += ours(x, Path(folder), steps)[warm_up:]
            for side, name in (("TRL", "grpo"), ("TRL with F-GRPO", "f_grpo")):
                times[side] += trl(x, name, Path(folder) / name, steps)[warm_up:]
    ms = {side: 1e3 * median(seconds) for side, seconds in times.items()}
    of = f"{PROMPTS * SAMPLES} sequences x {TOKENS} tokens"
    peer = "peer: TRL's GRPOTrainer"
    return [
        row(f"RL step, {of}", ms["ours"], ms["TRL"], "ms", peer),
        row(f"RL step in TRL with F-GRPO, {of}", ms["TRL with F-GRPO"], ms["TRL"], "ms", peer),
    ]


def ours(x: Experiment, folder: Path, steps: int) -> list[float]:
    loop = Loop(x, folder, lambda pairs: [verify(*pair) for pair in pairs], prompts(x))
    with jsonl_appender(folder / "metrics.jsonl", keep_until_step=0) as append:
        return [timed(lambda: append(loop.one_step(loop.step + 1))) for _ in range(steps)]


def trl(x: Experiment, name: str, folder: Path, steps: int) -> list[float]:
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from rlvr_papers.trl import MethodTrainer, keys

    begun: list[float] = []
    ended: list[float] = []

    class Clock(TrainerCallback):
        def on_step_begin(self, *_, **named):
            begun.append(perf_counter())

        def on_step_end(self, *_, **named):
            ended.append(perf_counter())

    def reward(completions, **_) -> list[float]:
        return [verify(text, "").reward for text in completions]

    chosen = method(name)
    args = GRPOConfig(
        output_dir=str(folder), num_generations=SAMPLES, max_completion_length=TOKENS,
        max_steps=steps, per_device_train_batch_size=PROMPTS * SAMPLES, learning_rate=x.optim.lr,
        use_cpu=True, bf16=False, report_to=[], save_strategy="no", logging_steps=1,
        disable_tqdm=True, **keys(chosen),
    )  # fmt: skip
    texts = [{"prompt": prompt.text} for prompt in prompts(x)[0][: steps * PROMPTS]]
    given = dict(reward_funcs=reward, args=args, train_dataset=Dataset.from_list(texts))
    given |= {"callbacks": [Clock()]}
    model = str(x.model.path)
    if name == "grpo":
        GRPOTrainer(model, **given).train()
    else:
        MethodTrainer(model, method=chosen, **given).train()
    return [end - start for start, end in zip(begun, ended, strict=True)]


def verify(response: str, reference: str) -> Verdict:
    """Judge about half of the responses right, so that there is a gradient."""
    return Verdict("correct", 1.0) if len(response) % 2 else Verdict("wrong", 0.0)


def experiment(folder: Path) -> Experiment:
    """Return GRPO with the laptop's values at this bench's sizes, and a random model saved below
    `folder`."""
    x, tokenizer = load(["method=grpo"], "f_grpo"), pretrain.tokenizer()
    model = pretrain.random_model(x.model.pretrain, tokenizer)
    tokenizer.add_special_tokens({"eos_token": "<never>"})  # beyond the model's vocabulary
    model.generation_config.eos_token_id = model.config.eos_token_id = tokenizer.eos_token_id
    save(model, tokenizer, folder / "model")
    sampling = replace(x.sampling, prompts=PROMPTS, group_size=SAMPLES, max_tokens=TOKENS)
    return replace(
        x,
        device="cpu",
        results_dir=str(folder),
        model=Model(name="random", path=str(folder / "model"), pretrain=None, chat=None),
        data=replace(x.data, verifier={"_target_": "bench.step.verify"}),
        sampling=sampling,
        optim=replace(x.optim, mini_batches=1, micro_batch=PROMPTS * SAMPLES, warmup_steps=0),
    )
