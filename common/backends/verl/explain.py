"""What an experiment would do on a cluster, before it runs: sizes, memory, what differs from the
paper. Needs no GPU, no network and no verl."""

import csv
import math
import re
from dataclasses import dataclass

from common.backends.verl import config, data
from common.config.compose import ROOT
from common.experiment import Experiment
from common.models.pretrain import random_model, tokenizer

GB = 1e9
TEMPLATE_TOKENS = 1024  # prompts of F-GRPO are at most this long (App. H.1); used without tokenizer
LEFT_OUT = {  # what the local backend does and this one does not
    "eval.rare_nll_samples": "the log-likelihood of rare right answers is not measured",
}


@dataclass(frozen=True)
class Shape:
    """What memory depends on."""

    parameters: int
    layers: int
    hidden: int
    kv_width: int  # key-value heads x their size
    vocabulary: int


def explain(x: Experiment, *, nodes: int, gpus: int, gpu_gb: float) -> str:
    """The whole text, for `nodes` nodes of `gpus` GPUs with `gpu_gb` GB each."""
    train, benchmarks = data.prompts(x)
    shape, prompt = shape_of(x), longest(x, train, benchmarks)
    lines = [f"{x.run_id}: {x.label}, model {x.model.name}, {nodes} x {gpus} GPUs", ""]
    lines += _table(sizes(x, prompt, len(train), benchmarks))
    lines += ["", f"GPU memory, of {gpu_gb:g} GB (estimate, not measured):"]
    if shape is None:
        lines.append(f"  unknown: model.path={x.model.path} cannot be read here")
    else:
        lines += _table(memory(x, shape, prompt, nodes * gpus, gpu_gb))
    lines += ["", f"Values that differ from those printed in papers/{x.paper}:"]
    lines += _table(differences(x, len(train))) or ["  none of those that can be compared"]
    left = [f"  {key}: {text}" for key, text in LEFT_OUT.items() if x.eval.rare_nll_samples > 0]
    return "\n".join(lines + (["", "Not done by this backend:", *left] if left else []))


def _table(rows: list[tuple[str, str]]) -> list[str]:
    width = max((len(name) for name, _ in rows), default=0)
    return [f"  {name:<{width}}  {text}" for name, text in rows]


def sizes(x: Experiment, prompt: int, pool: int, benchmarks: dict) -> list[tuple[str, str]]:
    """Prompts, responses, optimiser steps and tokens."""
    s, responses = x.sampling, x.sampling.prompts * x.sampling.group_size
    updates = x.optim.steps * x.optim.mini_batches
    problems = sum(map(len, benchmarks.values()))
    points = max(0, math.ceil(x.optim.steps / x.eval.every) - 1)
    samples = problems * (x.eval.n + points * x.eval.curve_n)
    return [
        ("prompts a step", f"{s.prompts:,}"),
        ("responses a step", f"{responses:,} = {s.prompts} x {s.group_size}"),
        ("optimiser steps a rollout", str(x.optim.mini_batches)),
        ("responses an optimiser step", f"{responses // x.optim.mini_batches:,}"),
        ("steps (rollouts)", f"{x.optim.steps:,}, {updates:,} optimiser steps"),
        ("passes over the data", f"{x.optim.steps * s.prompts / pool:.2f} of {pool:,} prompts"),
        ("longest prompt", f"{prompt:,} tokens"),
        ("response limit", f"{s.max_tokens:,} tokens, evaluation {x.eval.max_tokens:,}"),
        ("tokens a step, at most", f"{responses * (prompt + s.max_tokens):,}"),
        ("learning rate", f"{config.learning_rate(x):.3g}, warm-up {x.optim.warmup_steps} steps"),
        ("evaluation samples", f"{samples:,}: {problems} problems x {x.eval.n}, {points} points "
         f"x {x.eval.curve_n}"),
    ]  # fmt: skip


def memory(
    x: Experiment, shape: Shape, prompt: int, gpus: int, gpu_gb: float
) -> list[tuple[str, str]]:
    """GB a GPU, of the trainer and of vLLM, which take turns (verl puts vLLM to sleep).

    Trainer: float32 weights, gradients and AdamW's two moments over all GPUs, a bfloat16 copy of
    the largest layer, and of the longest packed pass one hidden state a layer (gradient
    checkpointing) and three float32 copies of the logits. vLLM: bfloat16 weights, the rest of its
    share is cache.
    """
    total = prompt + max(x.sampling.max_tokens, x.eval.max_tokens)
    packed = max(16_384, 2 * total)
    states = 16 * shape.parameters / gpus / GB
    hidden = 2 * packed * shape.hidden * shape.layers / GB
    logits = 3 * 4 * packed * shape.vocabulary / GB
    weights, share = 2 * shape.parameters / GB, 0.6 * gpu_gb
    sequence = 4 * shape.layers * shape.kv_width * total / GB  # keys and values in bfloat16
    peak = max(states + hidden + logits, states + share)
    verdict = "fits" if peak < gpu_gb else "does not fit: more GPUs, or shorter responses"
    return [
        ("parameters", f"{shape.parameters / GB:.3g} billion"),
        ("weights, gradients, AdamW", f"{states:.1f}"),
        (f"a pass of {packed:,} tokens", f"{hidden + logits:.1f}, of it logits {logits:.1f}"),
        ("vLLM weights", f"{weights:.1f}"),
        ("vLLM cache", f"{max(0.0, share - weights):.1f}, about "
         f"{max(0, int((share - weights) / sequence)):,} responses of full length at once"),
        ("most at once", f"{peak:.1f}: {verdict}"),
    ]  # fmt: skip


def shape_of(x: Experiment) -> Shape | None:
    """The model's sizes from its configuration; None where that cannot be read."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        if x.model.pretrain is not None:
            model = random_model(x.model.pretrain, tokenizer())
        else:
            try:
                described = AutoConfig.from_pretrained(x.model.path)
            except (OSError, ValueError):
                return None
            model = AutoModelForCausalLM.from_config(described)
    c = model.config
    head = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    heads = getattr(c, "num_key_value_heads", None) or c.num_attention_heads
    count = sum(parameter.numel() for parameter in model.parameters())
    return Shape(count, c.num_hidden_layers, c.hidden_size, heads * head, c.vocab_size)


def longest(x: Experiment, train: list, benchmarks: dict) -> int:
    """Tokens of the longest prompt; TEMPLATE_TOKENS where the tokenizer cannot be read."""
    from transformers import AutoTokenizer

    try:
        pretrained = x.model.pretrain is not None
        known = tokenizer() if pretrained else AutoTokenizer.from_pretrained(x.model.path)
    except (OSError, ValueError):
        return TEMPLATE_TOKENS
    texts = [prompt.text for some in (train, *benchmarks.values()) for prompt in some]
    return max(len(ids) for ids in known(texts, add_special_tokens=False)["input_ids"])


def values(x: Experiment, pool: int) -> dict[str, object]:
    """Ours by the names under which the papers' tables print them."""
    s, o, e = x.sampling, x.optim, x.eval
    loss = x.method.loss
    found = {
        ("learning rate",): o.lr,
        ("adam betas",): o.betas,
        ("weight decay",): o.weight_decay,
        ("gradient norm clipping",): o.grad_clip,
        ("warmup steps",): o.warmup_steps,
        ("global batch size", "prompt batch size", "batch size"): s.prompts,
        ("mini-batch size",): s.prompts // o.mini_batches,
        ("epochs",): round(o.steps * s.prompts / pool, 2),
        ("steps", "training steps"): o.steps,
        ("sampling temperature", "temperature"): s.temperature,
        ("top-p", "top-p (all models)"): 1.0,
        ("top-k", "top-k (all models)"): -1,
        ("group size n", "group size g", "rollouts per prompt g"): s.group_size,
        ("number of generations",): s.group_size,
        ("kl coefficient beta",): x.method.kl_coef,
        ("kl penalty coefficient (all algorithms)",): x.method.kl_coef,
        ("entropy bonus coefficient (all algorithms)",): x.method.entropy_coef,
        ("max completion length", "max response length"): s.max_tokens,
        ("reward correct / wrong",): (x.reward.correct, x.reward.wrong),
        ("temperature (all models)",): e.temperature,
        ("samples per problem n (protocol)", "samples per prompt n"): e.n,
        ("max length",): e.max_tokens,
        ("clip epsilon low", "clip ratio"): loss.get("eps_low"),
        ("clip epsilon high",): loss.get("eps_high"),
    }
    return {name: value for names, value in found.items() for name in names}


def differences(x: Experiment, pool: int) -> list[tuple[str, str]]:
    """(parameter, "ours, printed, where") of every printed value that is another than ours.

    Compared are the numbers with which a printed value starts, of rows whose name `values` knows;
    rows of a method or a model count only where they are this experiment's.
    """
    table = ROOT / "papers" / x.paper / "published" / "hyperparameters.csv"
    if not table.is_file():
        return [("(no table)", f"papers/{x.paper}/published/hyperparameters.csv is missing")]
    with open(table, newline="") as file:
        printed = [row for row in csv.DictReader(file) if _concerns(x, row)]
    ours, found = values(x, pool), []
    for row in printed:
        name = _name(row["parameter"])
        value = ours.get(name)
        if row["scope"] == "evaluation" and name in ("temperature", "max tokens"):
            value = ours.get(f"{name} (all models)")
        if value is None:
            continue
        mine = list(value) if isinstance(value, tuple) else [value]
        theirs = [float(number) for number in NUMBER.findall(row["value"])][: len(mine)]
        if theirs and theirs != [float(number) for number in mine]:
            text = f"{value}, printed {row['value'][:60]} ({row['source']})"
            found.append((f"{row['scope']}: {row['parameter']}", text))
    return found


NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w])")
SIZED = ("max response length", "max length")  # printed once a model


def _name(parameter: str) -> str:
    lower = parameter.lower()
    return next((name for name in SIZED if lower.startswith(name)), lower)


def _concerns(x: Experiment, row: dict) -> bool:
    """Whether a printed row is about this experiment's method and model."""
    if row["scope"] not in ("training", "evaluation"):
        own = x.method.name.removeprefix("f_").replace("_", "-")
        return row["scope"].lower() == own
    name = _name(row["parameter"])
    if name not in SIZED:
        return True
    which = re.sub(r"[^a-z0-9]", "", row["parameter"].lower().removeprefix(name))
    model = re.sub(r"[^a-z0-9]", "", x.model.name.lower())
    math_model = "15bmath" in model
    return which in model if which != "othermodels" else not math_model
