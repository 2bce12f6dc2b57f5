"""A description of what an experiment would do, before it runs: its sizes, and where it differs
from the paper. Needs no GPU. Without a network, the text says what could not be read."""

import math
from dataclasses import dataclass

from common.backends.printed import compared
from common.backends.prompts import prompts
from common.datasets.prompts import stated
from common.errors import UserError
from common.experiment import Experiment
from common.models.pretrain import random_model, tokenizer
from common.models.size import Size, narrowed

GB = 1e9
TEMPLATE_TOKENS = 1024  # limit of F-GRPO's prompts (App. H.1); assumed without a tokenizer


@dataclass(frozen=True)
class Known:
    """Facts about the prompts, read from the data sets or, if these cannot be read, stated by their
    configurations."""

    pool: int | None  # number of training prompts
    problems: int | None  # of all benchmarks together
    longest: int  # tokens of the longest prompt
    read: bool  # whether the data sets themselves were read
    assumed: str | None  # why `longest` is assumed; None where it was measured


def known(x: Experiment) -> Known:
    """Return the facts about the prompts, from the data sets and the tokenizer if they can be read,
    else from the configurations."""
    try:
        train, benchmarks = prompts(x)
    except UserError as error:
        counts = [stated(node) for node in x.data.benchmarks.values()]
        problems = None if None in counts else sum(counts)
        why = f"the data cannot be read here, counts are the configuration's: {error}"
        return Known(stated(x.data.train), problems, TEMPLATE_TOKENS, False, why)
    texts = [prompt.text for some in (train, *benchmarks.values()) for prompt in some]
    longest = longest_of(x, texts)
    why = None if longest else f"model.path={x.model.path}: its tokenizer cannot be read here"
    problems = sum(map(len, benchmarks.values()))
    return Known(len(train), problems, longest or TEMPLATE_TOKENS, True, why)


def longest_of(x: Experiment, texts: list[str]) -> int | None:
    """Return the tokens of the longest text; None where the tokenizer cannot be read."""
    from transformers import AutoTokenizer

    from common.models.load import only_cached

    path = x.model.path
    at: dict = {"revision": x.model.revision or "main"}
    if x.model.pretrain is None:
        at["local_files_only"] = only_cached(path, "model.path")
    try:
        pretrained = x.model.pretrain is not None
        encode = tokenizer() if pretrained else AutoTokenizer.from_pretrained(path, **at)
    except (OSError, ValueError):
        return None
    return max(len(ids) for ids in encode(texts, add_special_tokens=False)["input_ids"])


def text(x: Experiment, where: str, known: Known, rate: str, memory: list[str]) -> str:
    """Return the whole text. `where` names the machine, `memory` holds the lines of the backend's
    own section."""
    lines = [f"{x.run_id}: {x.label}, model {x.model.name}, backend={x.backend}, {where}", ""]
    lines += table(sizes(x, known, rate))
    lines += [f"  ({known.assumed})"] if known.assumed else []
    pool = known.pool if known.read else None  # a configuration does not say what is dropped
    return "\n".join([*lines, "", *memory, "", *compared(x, pool)])


def table(rows: list[tuple[str, str]]) -> list[str]:
    width = max((len(name) for name, _ in rows), default=0)
    return [f"  {name:<{width}}  {text}" for name, text in rows]


def sizes(x: Experiment, known: Known, rate: str) -> list[tuple[str, str]]:
    """Return rows about prompts, responses, optimiser steps and tokens; `rate` describes the
    learning rate."""
    s, responses = x.sampling, x.sampling.prompts * x.sampling.group_size
    updates = x.optim.steps * x.optim.mini_batches
    if known.pool is None:
        passes = "unknown: so is the number of prompts"
    else:
        passes = f"{x.optim.steps * s.prompts / known.pool:.2f} of {known.pool:,} prompts"
        passes += "" if known.read else ", before any is dropped"
    points = max(0, math.ceil(x.optim.steps / x.eval.every) - 1)
    evaluated = f"? problems x {x.eval.n}, {points} points x {x.eval.curve_n}"
    if known.problems is not None:
        samples = known.problems * (x.eval.n + points * x.eval.curve_n)
        evaluated = f"{samples:,}: {known.problems}{evaluated[1:]}"
    lag = [("weights that sample", f"{s.lag} optimiser updates old")] if s.lag else []
    return [
        *lag,
        ("prompts a step", f"{s.prompts:,}"),
        ("responses a step", f"{responses:,} = {s.prompts} x {s.group_size}"),
        ("optimiser steps a rollout", str(x.optim.mini_batches)),
        ("responses an optimiser step", f"{responses // x.optim.mini_batches:,}"),
        ("steps (rollouts)", f"{x.optim.steps:,}, {updates:,} optimiser steps"),
        ("passes over the data", passes),
        ("longest prompt", f"{known.longest:,} tokens" + (" (assumed)" if known.assumed else "")),
        ("response limit", f"{s.max_tokens:,} tokens, evaluation {x.eval.max_tokens:,}"),
        ("tokens a step, at most", f"{responses * (known.longest + s.max_tokens):,}"),
        ("learning rate", f"{rate}, warm-up {x.optim.warmup_steps} steps"),
        ("evaluation samples", evaluated),
    ]  # fmt: skip


def size_of(x: Experiment) -> Size | None:
    """Return the model's sizes from its configuration; None where that cannot be read."""
    import torch

    if x.model.pretrain is None:
        return _size_at(x.model.path, x.model.revision or "main")
    with torch.device("meta"):
        return _counted(random_model(x.model.pretrain, tokenizer()))


def memory_size_of(x: Experiment, size: Size) -> Size | None:
    """Return the sizes of DLC's memory network beside a policy of this size; None where the method
    has none, or where its configuration cannot be read."""
    sampler = x.method.sampler
    if sampler is None:
        return None
    if sampler.path is not None:
        return _size_at(sampler.path)
    return narrowed(size, sampler.shrink if sampler.start == "random" else 1)


def _size_at(path: str, revision: str = "main") -> Size | None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from common.models.load import only_cached

    cached = only_cached(path, "model.path")
    try:
        described = AutoConfig.from_pretrained(path, revision=revision, local_files_only=cached)
    except (OSError, ValueError):
        return None
    with torch.device("meta"):
        return _counted(AutoModelForCausalLM.from_config(described))


def _counted(model) -> Size:
    c = model.config
    head = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    heads = getattr(c, "num_key_value_heads", None) or c.num_attention_heads
    count = sum(parameter.numel() for parameter in model.parameters())
    return Size(
        parameters=count,
        layers=c.num_hidden_layers,
        hidden=c.hidden_size,
        kv_width=heads * head,
        vocab=c.vocab_size,
        context=c.max_position_embeddings,
    )


def network_rows(x: Experiment, network: Size | None, gpus: int) -> list[tuple[str, str]]:
    """Return the row about DLC's memory network on `gpus` GPUs; an empty list for other methods."""
    if x.method.sampler is None:
        return []
    which = x.method.sampler.path or x.method.sampler.start
    if network is None:
        return [("memory network", f"not counted: method.sampler.path={which} cannot be read here")]
    states = f"weights, gradients, AdamW {16 * network.parameters / gpus / GB:.3g} a GPU"
    return [("memory network", f"{network.parameters / GB:.3g} billion ({which}), {states}")]


def local(x: Experiment, *, nodes: int, gpus: int, gpu_gb: float) -> str:
    """Return the text for the local backend: one process, whatever the number of nodes and GPUs."""
    device = {"auto": "a GPU if there is one, else the CPU", "cuda": "one GPU", "cpu": "the CPU"}
    size, scaled = size_of(x), x.optim.equalise_to is not None
    rate = f"{x.optim.lr:.3g}" + (", times the largest weights' ratio at each step" * scaled)
    memory = ["Memory, one process in float32 (estimate, not measured):"]
    if size is None:
        memory.append(f"  unknown: model.path={x.model.path} cannot be read here")
    else:
        memory.append(f"  {size.parameters / GB:.3g} billion parameters; weights, gradients, AdamW")
        memory[-1] += f" {16 * size.parameters / GB:.3g} GB"
        memory += table(network_rows(x, memory_size_of(x, size), 1))
    where = f"one process on {device[x.device]}; {nodes} x {gpus} GPUs change nothing"
    return text(x, where, known(x), rate, memory)
