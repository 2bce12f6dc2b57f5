"""A description of what an experiment would do with verl: sizes, memory, what verl leaves out. This
module needs no verl."""

from common.backends import explain as shared
from common.backends.explain import GB, known, memory_size_of, network_rows, size_of, table
from common.backends.verl import config, layout, tuning
from common.errors import UserError
from common.experiment import Experiment
from common.models.size import Size

LEFT_OUT = {  # what the local backend does and this backend does not
    "eval.rare_nll_samples": "not measured in a training; eval=rare_correct is a job of its own",
}

WHERE = {
    "gpu": "on the GPUs",
    "between": "on the GPUs in training, in main memory while vLLM samples",
    "cpu": "in main memory, where the CPU steps too",
}


def explain(x: Experiment, *, nodes: int, gpus: int, gpu_gb: float) -> str:
    """Return the whole text, for `nodes` nodes of `gpus` GPUs with `gpu_gb` GB each. Raises
    UserError for what the run would refuse."""
    config.check(x, nodes=nodes, gpus=gpus)
    size, prompts = size_of(x), known(x)
    lines = [f"GPU memory, of {gpu_gb:g} GB (estimate, not measured):"]
    if size is None:
        lines.append(f"  unknown: model.path={x.model.path} cannot be read here")
    else:
        lines += table(memory(x, size, prompts.longest, nodes, gpus, gpu_gb))
    left = [f"  {key}: {text}" for key, text in LEFT_OUT.items() if x.eval.rare_nll_samples > 0]
    lines += ["", "Not done by this backend:", *left] if left else []
    try:
        rate = f"{config.learning_rate(x):.3g}"
    except UserError as error:
        rate = f"refused: {error}"
    return shared.text(x, f"{nodes} x {gpus} GPUs", prompts, rate, lines)


def memory(
    x: Experiment, size: Size, prompt: int, nodes: int, gpus: int, gpu_gb: float
) -> list[tuple[str, str]]:
    """Return rows with the GB that the trainer and vLLM need on each GPU. The two take turns (verl
    puts vLLM to sleep). layout.py lays them out here as it does when the backend runs on such
    GPUs."""
    network = memory_size_of(x, size)
    load = layout.load_of(x, size, prompt=prompt, memory=network)
    given = tuning.chosen(x)
    one = layout.choose(load, nodes=nodes, gpus=gpus, gpu_gb=gpu_gb, given=given)
    states = layout.STATE_BYTES * size.parameters / (nodes * gpus) / GB
    verdict = "fits" if one.fits else "does not fit: more GPUs, or shorter responses"
    return [
        ("parameters", f"{size.parameters / GB:.3g} billion"),
        ("weights, gradients, AdamW", f"{states:.1f}, {WHERE[one.states]}"),
        *network_rows(x, network, nodes * gpus),
        (f"a pass of {one.tokens:,} tokens", f"{one.training_gb:.1f} with what is held beside it"),
        ("vLLM weights", f"{one.vllm_gb:.1f}, each vLLM on {one.parallel} GPU(s)"),
        ("main memory", f"{one.host_gb:.0f} over all nodes"),
        ("most at once", f"{one.peak_gb:.1f}: {verdict}"),
    ]
