"""Speed of one GPU, from 0.4 M to 1.5 B parameters.

    python -m bench.gpu [results_dir=results]

Measures a rollout against transformers' `generate`, and a training step against transformers'
forward pass, with random weights; the sides take turns, and the numbers are medians. Writes
RESULTS/bench/gpu.csv with one row per measurement, and gpu.json with device, versions and load. To
keep them, copy them to results/reference/gpu/<device>/.
"""

import gc
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import median
from time import time

import pandas as pd
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from bench import COLUMNS, alternate, row
from bench.command import circumstances, show
from bench.rollout import tokens_per_second
from common.cli import guard
from common.config.words import options
from common.errors import UserError
from common.losses.aggregate import token_mean
from common.losses.clip import ppo_clip
from common.models.policy import log_probs
from common.models.recorded import passes
from common.results.files import write_csv, write_json
from common.types import RolloutBatch

# Sizes of Qwen2Config: the laptop's model (configs/model/tiny.yaml), one of ten times its size, and
# two with the config.json of SmolLM2-135M and Qwen2.5-1.5B.
NAMES = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
NAMES += ("num_key_value_heads", "intermediate_size")
SIZES = {
    "0.4 M": (64, 128, 2, 4, 2, 384),
    "4 M": (64, 256, 5, 8, 4, 768),
    "135 M": (49_152, 576, 30, 9, 3, 1536),
    "1.5 B": (151_936, 1536, 28, 12, 2, 8960),
}


@dataclass(frozen=True)
class Plan:
    device: str
    sizes: tuple[str, ...]
    prompts: int  # prompts in a rollout
    group: int  # responses per prompt
    length: int  # tokens per prompt
    tokens: int  # tokens per response
    rounds: int


ON_GPU = Plan("cuda", tuple(SIZES), 32, 32, 64, 128, 5)
SMOKE = Plan("cpu", ("0.4 M",), 2, 4, 8, 4, 1)


def main(words: list[str]) -> None:
    folder = Path(options(words, {"results_dir": "results"})["results_dir"]) / "bench"
    require_gpu("bench.gpu")
    rows = measured(ON_GPU, folder, "gpu")
    show(rows, f"{device(ON_GPU)['device']}; above 1: ours is faster")


def measured(plan: Plan, folder: Path, name: str, end: float = math.inf) -> pd.DataFrame:
    """Measure and return all rows, each written to `folder` as soon as it is there. After the time
    `end` (Unix seconds) no further measurement begins."""
    write_json(folder / f"{name}.json", circumstances() | device(plan))
    rows = []
    for one in chain(rollouts(plan), training(plan)):
        rows.append(one)
        found = pd.DataFrame(rows, columns=COLUMNS)
        write_csv(folder / f"{name}.csv", found)
        if time() > end:
            break
    return found


def require_gpu(command: str) -> None:
    if torch.cuda.is_available():
        return
    build = f"made for CUDA {torch.version.cuda}" if torch.version.cuda else "a CPU build"
    raise UserError(
        f"{command}: needs one CUDA GPU, and there is none here (torch {torch.__version__}, "
        f"{build}); on a CPU run `make bench`"
    )


def device(plan: Plan) -> dict:
    if plan.device == "cpu":
        return {"device": "a CPU"}
    about = torch.cuda.get_device_properties(0)
    gib = round(about.total_memory / 2**30, 1)
    return {"device": about.name, "memory_gib": gib, "cuda": torch.version.cuda}


def random_weights(size: str, plan: Plan):
    torch.manual_seed(0)
    config = Qwen2Config(
        **dict(zip(NAMES, SIZES[size], strict=True)),
        max_position_embeddings=plan.length + plan.tokens,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    return Qwen2ForCausalLM(config).to(plan.device).eval()


def prompt_ids(size: str, plan: Plan):
    words, *_ = SIZES[size]
    drawn = torch.Generator().manual_seed(1)
    ids = torch.randint(1, words, (plan.prompts, plan.length), generator=drawn).to(plan.device)
    return ids, torch.ones_like(ids)


def freed() -> None:
    gc.collect()
    torch.cuda.empty_cache()


def rollouts(plan: Plan) -> Iterator[dict]:
    """Yield a rollout of each size, in bfloat16 on both sides. Ours copies the float32 weights each
    time and keeps log-probs."""
    for size in plan.sizes:
        model, (ids, mask) = random_weights(size, plan), prompt_ids(size, plan)
        peer = random_weights(size, plan).to(torch.bfloat16)
        never = SIZES[size][0]  # beyond the vocabulary: every row runs to the limit
        limits = dict(rounds=plan.rounds, group=plan.group, limit=plan.tokens, eos_id=never)
        rates = tokens_per_second(model, peer, ids, mask, dtype=torch.bfloat16, **limits)
        name = f"rollout, {size}, {plan.prompts * plan.group} rows x {plan.tokens} tokens, bf16"
        yield row(name, *rates, "tokens/s", "peer: transformers generate")
        del model, peer
        freed()


def training(plan: Plan) -> Iterator[dict]:
    """Yield a training step of each size: forward, backward and AdamW in float32. The peer reads
    each prompt again with each of its responses and takes log_softmax of the logits, as one would
    write it first. A size that does not fit in memory has no row."""
    for size in plan.sizes:
        try:
            yield training_step(size, plan)
        except torch.OutOfMemoryError:
            gib = torch.cuda.get_device_properties(0).total_memory / 2**30
            print(f"training step, {size}: does not fit into {gib:.0f} GiB, so it has no row")
        freed()


def training_step(size: str, plan: Plan) -> dict:
    model, (ids, mask) = random_weights(size, plan), prompt_ids(size, plan)
    prompts, group = min(8, plan.prompts), min(8, plan.group)
    ids, mask, rows = ids[:prompts], mask[:prompts], prompts * group
    drawn = torch.Generator().manual_seed(2)
    made = torch.randint(1, SIZES[size][0], (rows, plan.tokens), generator=drawn)
    made, A = made.to(plan.device), torch.randn(rows, 1, generator=drawn).to(plan.device)
    real = torch.ones(rows, plan.tokens, device=plan.device)
    stopped = torch.zeros(rows, dtype=torch.bool, device=plan.device)
    batch = RolloutBatch(ids, mask, made, real, torch.zeros_like(real), stopped)
    with torch.no_grad():
        old, _ = log_probs(model, batch, 1.0)
    peer = random_weights(size, plan)
    optimizers = [torch.optim.AdamW(one.parameters(), lr=1e-6, fused=True) for one in (model, peer)]

    def step(log_prob, optimizer) -> None:
        loss, _ = ppo_clip(log_prob, old, A, real, eps_low=0.2, eps_high=0.2)
        optimizer.zero_grad(set_to_none=False)
        (loss * token_mean(real)).sum().backward()
        torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
        optimizer.step()

    policy = passes(model, temperature=1.0, dtype=torch.float32)

    def ours():
        step(policy(batch)[0], optimizers[0])

    def theirs():
        whole = torch.cat([ids.repeat_interleave(group, 0), made], 1)
        logits = peer(input_ids=whole, use_cache=False, logits_to_keep=plan.tokens + 1).logits
        log_p = torch.log_softmax(logits[:, :-1].float(), -1)
        step(log_p.gather(2, made[..., None])[..., 0], optimizers[1])

    seconds = alternate(ours, theirs, plan.rounds + 2)  # the first rounds load kernels and record
    rates = [rows * plan.tokens / median(side[2:]) for side in seconds]
    name = f"training step, {size}, {rows} rows x {plan.tokens} tokens, fp32"
    return row(name, *rates, "tokens/s", "peer: transformers' forward pass")


if __name__ == "__main__":
    guard(lambda: main(sys.argv[1:]))
