"""Milliseconds of one RL step of the tiny model: rollout, rewards, loss, update. The peer is TRL.

Both sides train random weights of the sizes in configs/model/tiny.yaml on the same prompts: 8
prompts x 8 samples x 32 tokens, one optimiser step per rollout, no KL, fp32, AdamW (fused),
gradient norm 1, the same reward, which costs next to nothing, and log-probabilities and entropies
on both. The model cannot produce the end token, so every response has all its tokens. The sides
take turns, step by step, in one process: our step runs, untimed, inside TRL's on_step_end callback.
"""

import io
import tempfile
import time
from contextlib import redirect_stdout
from dataclasses import replace
from importlib import metadata, util
from pathlib import Path
from statistics import median

from bench import MISSING, flops_a_token, matmul_peak, row, timed
from common.backends.local import Loop
from common.config.schema import Model
from common.experiment import Experiment, load
from common.models import pretrain
from common.models.load import load_model
from common.models.pretrain import random_model
from common.models.store import save
from common.results.files import jsonl_appender
from common.types import Verdict

PROMPTS, SAMPLES, TOKENS = 8, 8, 32


def run(rounds: int = 40, warm_up: int = 8) -> list[dict]:
    """Return one row. Every side's first `warm_up` steps are left out."""
    name = f"RL step, {PROMPTS * SAMPLES} sequences x {TOKENS} tokens"
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        x = experiment(Path(folder))
        loop = Loop(x, Path(folder), lambda pairs: [verify(*pair) for pair in pairs])
        with jsonl_appender(Path(folder) / "metrics.jsonl", keep_until_step=0) as append:

            def ours():
                line = loop.one_step(loop.step + 1)
                assert line["response_length"] == TOKENS
                append(line)

            if util.find_spec("trl") is None:
                times = [timed(ours) for _ in range(warm_up + rounds)]
                return [row(name, 1e3 * median(times[warm_up:]), None, "ms", MISSING)]
            times, peer_times = alternate_with_trl(x, loop, ours, warm_up + rounds, folder)
    ours_ms, peer_ms = 1e3 * median(times[warm_up:]), 1e3 * median(peer_times[warm_up:])
    # a forward pass to sample, one to train and a backward pass of twice the work
    work = 4 * PROMPTS * SAMPLES * TOKENS * flops_a_token(loop.model)
    share = work / (ours_ms / 1e3) / matmul_peak()
    note = f"peer: TRL {metadata.version('trl')} GRPOTrainer; ours: {share:.0%} of the matmul peak"
    return [row(name, ours_ms, peer_ms, "ms", note)]


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


def alternate_with_trl(x: Experiment, loop: Loop, ours, steps: int, folder: str):
    """Return the seconds of each of our steps and of each of TRL's. A step of TRL runs from the end
    of our step to TRL's next on_step_end: its data loader, generation, scoring, loss, update and
    logging."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    our_times, peer_times, resumed = [], [], []

    class Turns(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if resumed:  # the first step also starts the trainer
                peer_times.append(time.perf_counter() - resumed[-1])
            our_times.append(timed(ours))
            resumed.append(time.perf_counter())

    def reward(completions, completion_ids, **kwargs):
        assert all(len(ids) == TOKENS for ids in completion_ids)
        return [verify(text, "").reward for text in completions]

    config = GRPOConfig(
        output_dir=folder,
        max_steps=steps + 1,
        per_device_train_batch_size=PROMPTS * SAMPLES,  # one forward and backward pass for all
        num_generations=SAMPLES,
        steps_per_generation=1,  # one optimiser step per rollout; old log-probs need no extra pass
        num_iterations=1,
        max_completion_length=TOKENS,
        temperature=x.sampling.temperature,
        beta=0.0,  # no reference model
        learning_rate=x.optim.lr,
        lr_scheduler_type="constant",
        weight_decay=x.optim.weight_decay,
        max_grad_norm=x.optim.grad_clip,
        optim="adamw_torch_fused",  # as ours
        use_cpu=True,
        bf16=False,  # fp32, as ours; its default on CPU is bf16 autocast
        gradient_checkpointing=False,  # on by default: saves memory, costs a second forward pass
        dataloader_num_workers=0,  # a worker would have to share the one core
        dataloader_pin_memory=False,
        save_strategy="no",
        report_to="none",  # logs every 10 steps, its default, to a string
        disable_tqdm=True,
        # Generation stays at its default, transformers' generate: the other engines that it offers
        # on CPU are slower (bench/rollout.py).
    )
    prompts = Dataset.from_list([{"prompt": prompt.text} for prompt in loop.prompts])
    model, tokenizer = load_model(x.model, Path(x.results_dir), "cpu")
    trainer = GRPOTrainer(
        model, reward, config, prompts, processing_class=tokenizer, callbacks=[Turns()]
    )
    trainer.train()
    return our_times[:-1], peer_times
