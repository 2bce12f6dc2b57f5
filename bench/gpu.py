"""Speed of one GPU, from 0.4 M to 1.5 B parameters.

    rlvr bench-gpu [smoke=false] [results_dir=results]

Measures a rollout against transformers' `generate` and vLLM (where it is installed), a training
step against transformers' own forward pass, what DLC's memory network costs, and the categorical
simulation. All models have random weights, the sides take turns in one process, and the numbers are
medians. Writes RESULTS/bench/gpu.csv with one row per measurement, and gpu.json with device,
versions and load. To keep them, copy them to results/reference/gpu/<device>/.

Without a GPU it ends at once with an error. smoke=true runs the same code on the CPU, at the
smallest size, and writes gpu_smoke.csv: it shows that the bench works, and nothing about speed.
"""

import gc
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from statistics import median
from time import time
from typing import TYPE_CHECKING

from bench import COLUMNS, flops_a_token, matmul_peak, row, timed
from common.config.words import options
from common.errors import UserError, require

if TYPE_CHECKING:
    import pandas as pd

# Models with random weights: the laptop's model (configs/model/tiny.yaml), one of ten times its
# size, and two with the config.json of SmolLM2-135M and Qwen2.5-1.5B. "words" is the vocabulary
# size.
SIZES = {
    "0.4 M": dict(words=64, hidden=128, layers=2, heads=4, kv_heads=2, inner=384),
    "4 M": dict(words=64, hidden=256, layers=5, heads=8, kv_heads=4, inner=768),
    "135 M": dict(words=49_152, hidden=576, layers=30, heads=9, kv_heads=3, inner=1536),
    "1.5 B": dict(words=151_936, hidden=1536, layers=28, heads=12, kv_heads=2, inner=8960),
}


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    device: str
    sizes: tuple[str, ...]
    prompts: int  # prompts in a rollout
    group: int  # responses per prompt
    length: int  # tokens per prompt
    tokens: int  # tokens per response
    rounds: int
    steps: int  # steps of the simulation
    groups: tuple[int, ...]  # N of the simulation
    matmul: int  # rows of the matrices whose product is the peak


ON_GPU = Plan("cuda", tuple(SIZES), 32, 32, 64, 128, 5, 200, (2, 4096, 131_072), 8192)
SMOKE = Plan("cpu", ("0.4 M",), 2, 4, 8, 4, 1, 2, (2,), 1024)


def main(words: list[str]) -> None:
    given = options(words, {"smoke": "false", "results_dir": "results"})
    require(given["smoke"] in ("true", "false"), "smoke", given["smoke"], "use true or false")
    smoke = given["smoke"] == "true"
    if not smoke:
        require_gpu()
    from bench.command import show

    plan = SMOKE if smoke else ON_GPU
    folder = Path(given["results_dir"]) / "bench"
    rows = measured(plan, folder, "gpu_smoke" if smoke else "gpu")
    show(rows, f"{device(plan)['device']}; above 1: ours is faster")


def measured(plan: Plan, folder: Path, name: str, end: float = math.inf) -> "pd.DataFrame":
    """Measure and return all rows. Each row is written to `folder` as soon as it is there. After
    the time `end` (Unix seconds) no further measurement begins."""
    import pandas as pd

    from bench.command import circumstances
    from common.results.files import write_csv, write_json

    write_json(folder / f"{name}.json", circumstances() | device(plan))
    rows = []
    for part in (rollouts, training, memory_networks, simulations):
        for one in part(plan):
            rows.append(one)
            write_csv(folder / f"{name}.csv", pd.DataFrame(rows, columns=COLUMNS))
            if time() > end:
                return pd.DataFrame(rows, columns=COLUMNS)
    return pd.DataFrame(rows, columns=COLUMNS)


def require_gpu(verb: str = "bench-gpu") -> None:
    """Raise UserError where torch sees no GPU."""
    import torch

    if torch.cuda.is_available():
        return
    build = f"made for CUDA {torch.version.cuda}" if torch.version.cuda else "a CPU build"
    raise UserError(
        f"{verb}: wants one CUDA GPU, and there is none here (torch {torch.__version__}, "
        f"{build}); on a CPU run `make bench`, or `rlvr bench-gpu smoke=true` to try the code"
    )


def device(plan: Plan) -> dict:
    """Return the name and memory of the device that is measured."""
    import torch

    if plan.device == "cpu":
        return {"device": "a CPU (smoke: no figure means anything)"}
    about = torch.cuda.get_device_properties(0)
    gib = round(about.total_memory / 2**30, 1)
    return {"device": about.name, "memory_gib": gib, "cuda": torch.version.cuda}


def random_weights(size: str, plan: Plan):
    """Return a Qwen2 of `size` in float32 with random weights, without a tokenizer."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    one = SIZES[size]
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=one["words"],
        hidden_size=one["hidden"],
        intermediate_size=one["inner"],
        num_hidden_layers=one["layers"],
        num_attention_heads=one["heads"],
        num_key_value_heads=one["kv_heads"],
        max_position_embeddings=plan.length + plan.tokens,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    return Qwen2ForCausalLM(config).to(plan.device).eval()


def prompt_ids(size: str, plan: Plan):
    """Return random prompts without padding, and their mask."""
    import torch

    words = SIZES[size]["words"]
    drawn = torch.Generator().manual_seed(1)
    ids = torch.randint(1, words, (plan.prompts, plan.length), generator=drawn).to(plan.device)
    return ids, torch.ones_like(ids)


def in_turn(sides: dict[str, Callable], plan: Plan) -> dict[str, float]:
    """Return the median seconds of each side. The sides take turns; the first round loads kernels
    and is not counted."""
    import torch

    def finished(function) -> None:
        function()
        if plan.device == "cuda":
            torch.cuda.synchronize()

    rounds = [
        {name: timed(lambda side=side: finished(side)) for name, side in sides.items()}
        for _ in range(plan.rounds + 1)
    ]
    return {name: median(one[name] for one in rounds[1:]) for name in sides}


def freed() -> None:
    """Give back the memory of what went out of scope, before the next size is measured."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


# ---- rollout


def rollouts(plan: Plan) -> Iterator[dict]:
    """Yield rollouts of each size, in bfloat16 on all sides. Ours copies the float32 weights each
    time and keeps log-probs."""
    for size in plan.sizes:
        yield from rollout(size, plan)
        freed()


def rollout(size: str, plan: Plan) -> Iterator[dict]:
    import torch

    from common.rollout.local import generate
    from common.seeds import generator

    model, (ids, mask) = random_weights(size, plan), prompt_ids(size, plan)
    peer, end = random_weights(size, plan).to(torch.bfloat16), SIZES[size]["words"]

    def ours():
        batch = generate(
            model,
            ids,
            mask,
            group_size=plan.group,
            temperature=1.0,
            max_tokens=plan.tokens,
            eos_id=end,  # beyond the vocabulary: every row runs to the limit
            generator=generator("bench", 0),
            dtype=torch.bfloat16,
        )
        assert batch.response_ids.shape == (plan.prompts * plan.group, plan.tokens)

    @torch.inference_mode()
    def transformers():
        made = peer.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            max_new_tokens=plan.tokens,
            num_return_sequences=plan.group,
            eos_token_id=end,
            pad_token_id=0,
        )
        assert made.shape[1] == plan.length + plan.tokens

    sides, why = {"ours": ours, "transformers generate": transformers}, "not installed"
    with tempfile.TemporaryDirectory() as folder:
        if util.find_spec("vllm") is not None:
            try:
                sides["vllm"] = vllm_side(peer, Path(folder), ids.tolist(), plan)
            except Exception as error:  # vLLM cannot run it: the other sides are still measured
                why = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
        seconds = in_turn(sides, plan)
        if sides.pop("vllm", None) is not None:
            from vllm.distributed import cleanup_dist_env_and_memory

            cleanup_dist_env_and_memory()  # else the next size's engine finds the GPU full
    count = plan.prompts * plan.group * plan.tokens
    rates = {name: count / one for name, one in seconds.items()}
    peak = matmul_peak(torch.bfloat16, plan.matmul, device=plan.device)
    share = f"ours: {rates['ours'] * flops_a_token(model) / peak:.1%} of the matmul peak"
    name = f"rollout, {size}, {plan.prompts * plan.group} rows x {plan.tokens} tokens, bf16"
    yield row(
        name,
        rates["ours"],
        rates["transformers generate"],
        "tokens/s",
        f"peer: transformers generate; {share}",
    )
    note = "peer: vllm" if "vllm" in rates else f"no peer: vllm {why}"
    yield row(name, rates["ours"], rates.get("vllm"), "tokens/s", note)


def vllm_side(model, folder: Path, prompts: list[list[int]], plan: Plan) -> Callable:
    """Return a function that draws the same rollout with vLLM, without log-probs. vLLM takes 40 %
    of the GPU and leaves the rest to the other sides."""
    model.save_pretrained(folder)
    from common.rollout.vllm import engine

    memory = {"gpu_memory_utilization": 0.4} if plan.device == "cuda" else {}
    llm = engine(
        str(folder),
        temperature=1.0,
        device=plan.device,
        threads=1,
        skip_tokenizer_init=True,
        max_model_len=plan.length + plan.tokens,
        max_num_seqs=plan.prompts * plan.group,
        **memory,
    )
    from vllm import SamplingParams

    settings = SamplingParams(
        n=plan.group,
        temperature=1.0,
        max_tokens=plan.tokens,
        ignore_eos=True,
        detokenize=False,
    )

    def side():
        requests = [{"prompt_token_ids": one} for one in prompts]
        outputs = llm.generate(requests, settings, use_tqdm=False)
        made = [len(one.token_ids) for output in outputs for one in output.outputs]
        assert made == [plan.tokens] * (plan.prompts * plan.group)

    return side


# ---- training


def training(plan: Plan) -> Iterator[dict]:
    """Yield a training step of each size: forward, backward and AdamW in float32. The peer reads
    each prompt again with each of its responses and takes log_softmax of the logits, as one would
    write it first. A size that does not fit in memory has no row."""
    import torch

    for size in plan.sizes:
        try:
            yield training_step(size, plan)
        except torch.OutOfMemoryError:
            gib = torch.cuda.get_device_properties(0).total_memory / 2**30
            print(f"training step, {size}: does not fit in {gib:.0f} GiB, no row")
        freed()


def training_step(size: str, plan: Plan) -> dict:
    import torch

    from common.losses.aggregate import token_mean
    from common.losses.clip import ppo_clip
    from common.models.policy import log_probs
    from common.types import RolloutBatch

    model, (ids, mask) = random_weights(size, plan), prompt_ids(size, plan)
    prompts, group = min(8, plan.prompts), min(8, plan.group)
    ids, mask, rows = ids[:prompts], mask[:prompts], prompts * group
    drawn = torch.Generator().manual_seed(2)
    made = torch.randint(1, SIZES[size]["words"], (rows, plan.tokens), generator=drawn)
    made, A = made.to(plan.device), torch.randn(rows, 1, generator=drawn).to(plan.device)
    real = torch.ones(rows, plan.tokens, device=plan.device)
    stopped = torch.zeros(rows, dtype=torch.bool, device=plan.device)
    batch = RolloutBatch(ids, mask, made, real, torch.zeros_like(real), stopped)
    with torch.no_grad():
        old, _ = log_probs(model, batch, 1.0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)

    def step(log_prob) -> None:
        loss, _ = ppo_clip(log_prob, old, A, real, eps_low=0.2, eps_high=0.2)
        optimizer.zero_grad()
        (loss * token_mean(real)).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    def ours():
        step(log_probs(model, batch, 1.0)[0])

    def theirs():
        whole = torch.cat([ids.repeat_interleave(group, 0), made], 1)
        logits = model(input_ids=whole, use_cache=False, logits_to_keep=plan.tokens + 1).logits
        log_p = torch.log_softmax(logits[:, :-1].float(), -1)
        step(log_p.gather(2, made[..., None])[..., 0])

    seconds = in_turn({"ours": ours, "theirs": theirs}, plan)
    rates = [rows * plan.tokens / seconds[name] for name in ("ours", "theirs")]
    name = f"training step, {size}, {rows} rows x {plan.tokens} tokens, fp32"
    return row(name, *rates, "tokens/s", "peer: transformers' forward pass")


# ---- DLC and the simulation


def memory_networks(plan: Plan) -> Iterator[dict]:
    """Yield the seconds with and without a memory network, as bench/dlc.py. With shrink 2 it has
    about a quarter of the policy's parameters, with shrink 1 as many as the policy."""
    import torch

    from bench.dlc import seconds
    from common.rollout.dlc import MemoryNetwork

    for size in plan.sizes[:3]:  # two models of 1.5 B are a matter for vLLM
        policy, (ids, mask) = random_weights(size, plan), prompt_ids(size, plan)
        for shrink in (1,) if SIZES[size]["heads"] % 2 else (2, 1):
            memory = MemoryNetwork(policy, mu=0.5, lr=1e-3, start="random", shrink=shrink, seed=0)
            settings = dict(dtype=torch.bfloat16, tokens=plan.tokens)
            end = SIZES[size]["words"]
            both = seconds(policy, memory, ids, mask, plan.group, end, plan.rounds, **settings)
            name = f"dlc, {size}, {plan.prompts * plan.group} rows x {plan.tokens} tokens"
            note = f"overhead {both[0] / both[1]:.2f}; peer: the policy alone"
            yield row(f"{name}, shrink {shrink}", *both, "s", note)
            del memory
        freed()


def simulations(plan: Plan) -> Iterator[dict]:
    from bench.simulation import run

    yield from run(plan.steps, plan.rounds, device=plan.device, sizes=plan.groups)
