"""Predicts what it takes to sample an evaluation (evaluation/): one chunk of problems after
another, on as many engines as have enough chunks."""

import math
from dataclasses import replace

from common.backends.verl import layout
from common.datasets.prompts import stated
from common.errors import require
from common.evaluation.config import Evaluate
from common.experiment import Experiment
from common.models.size import Size
from common.sweeps.assumptions import Accelerator, Assumptions, accelerator, model_size
from common.sweeps.cost import Estimate, priced
from common.sweeps.cost_checks import check_prompt
from common.sweeps.profiles import Profile
from common.sweeps.sampling_time import Engine, Sampled, joined, measured_kernels, sampling_s

CHUNKS = 8  # at least so many chunks of an evaluation for each engine


def estimate_evaluation(
    e: Evaluate, trained: Experiment, profile: Profile, a: Assumptions
) -> Estimate:
    """Return the predicted cost of one evaluation of a model that `trained` makes. Its GPUs
    (`evaluation_gpus`) form the engines that draw its chunks. Raises as `estimate`."""
    size, unit = model_size(trained, a), accelerator(profile, a)
    prompts = a.prompts(e.eval.name, trained.data.name)
    check_prompt(prompts.longest, size, e.model.name)
    width = evaluation_width(e, size, unit, profile, a)
    memory = 2 * size.parameters / width / 1e9
    require(
        memory <= a.usable_memory * unit.memory_gb,
        "accelerator",
        profile.accelerator,
        f"the weights of {e.model.name} take {width * memory:.0f} GB, and an engine has {width} "
        f"GPU(s) of {unit.memory_gb:g} GB: choose a profile with more memory",
    )
    asked = stated(e.eval.prompts) or a.benchmark_problems
    gpus, chunks = evaluation_gpus(e, profile, a, width), math.ceil(asked / e.per_chunk)
    engines = gpus // width
    _check_engine(e, size, gpus, profile, a)
    rounds = math.ceil(chunks / engines)  # chunks of the busiest engine; the last is not full
    responses = min(asked, rounds * e.per_chunk) * e.n
    batch = min(a.decode_batch, e.per_chunk * e.n)
    kernels = measured_kernels(size, width, a) if e.engine == "vllm" else None
    engine = Engine(joined(unit, width), 1, batch, a.usable_memory, kernels)
    ends = a.responses(trained.model, e.eval.name, e.max_tokens)
    drawn = [
        Sampled(responses, mean, responses / e.n, prompts.typical, e.max_tokens, rounds)
        for mean in ends
    ]
    seconds = [sampling_s([one], size, None, engine, end) for end, one in enumerate(drawn)]
    least = a.start(profile) + seconds[0] / rounds
    require(
        least < 60 * profile.time_min,
        "batch",
        e.batch,
        f"a chunk of so many samples takes {least / 60:,.0f} minutes at least, and an attempt on "
        f"profile {profile.name} ends after {profile.time_min}; lower it, or raise time_min",
    )
    tokens = [asked * e.n * mean for mean in ends]
    stored = tokens[1] * a.samples_bytes_per_token
    one = priced(seconds, gpus, stored, memory, tokens, profile, a)
    return replace(one, tensor_parallel=width)


def evaluation_width(
    e: Evaluate, size: Size, unit: Accelerator, profile: Profile, a: Assumptions
) -> int:
    """Return how many GPUs share one vLLM: the number that the evaluation states, else as few as
    training would take. Raises UserError for more than a node has."""
    if e.engine != "vllm":
        return 1
    node = max(1, profile.gpus_per_node)
    share = a.usable_memory * unit.memory_gb
    width = e.tensor_parallel or layout.fewest(size.parameters, node, share)
    remedy = f"a node of profile {profile.name} has {node} GPU(s); lower it"
    require(width <= node, "tensor_parallel", width, remedy)
    return width


def evaluation_gpus(e: Evaluate, profile: Profile, a: Assumptions, width: int = 1) -> int:
    """Return how many GPUs of one node an evaluation asks for: as many engines of `width` GPUs as
    have `CHUNKS` chunks each, so that few are idle in the last round. Without SLURM it is one
    engine, since other jobs run beside it; so it is for the local engine."""
    chunks = math.ceil((stated(e.eval.prompts) or a.benchmark_problems) / e.per_chunk)
    several = e.engine == "vllm" and profile.executor == "slurm"
    most = profile.gpus_per_node // width if several else 1
    return width * max(1, min(most, chunks // CHUNKS))


def _check_engine(e: Evaluate, size: Size, gpus: int, profile: Profile, a: Assumptions) -> None:
    """Check that main memory holds the trainer's model in float32, with which vLLM is first
    compared."""
    if e.engine != "vllm":
        return
    held, share = 4 * size.parameters / 1e9, gpus / max(1, profile.gpus_per_node)
    require(
        held <= a.usable_memory * share * profile.memory_gb,
        "memory_gb",
        profile.memory_gb,
        f"{e.model.name} takes {held:.0f} GB of main memory to be compared with vLLM's, and "
        f"{gpus} GPU(s) have {share * profile.memory_gb:.0f} of it on profile {profile.name}; "
        "raise it, or tensor_parallel",
    )
