"""What an experiment would do through verl: sizes, memory, what is left out. Needs no verl."""

from common.backends import explain as shared
from common.backends.explain import GB, Shape, known, shape_of, table
from common.backends.verl import config
from common.errors import UserError
from common.experiment import Experiment

LEFT_OUT = {  # what the local backend does and this one does not
    "eval.rare_nll_samples": "the log-likelihood of rare right answers is not measured",
}


def explain(x: Experiment, *, nodes: int, gpus: int, gpu_gb: float) -> str:
    """The whole text, for `nodes` nodes of `gpus` GPUs with `gpu_gb` GB each."""
    shape, prompts = shape_of(x), known(x)
    lines = [f"GPU memory, of {gpu_gb:g} GB (estimate, not measured):"]
    if shape is None:
        lines.append(f"  unknown: model.path={x.model.path} cannot be read here")
    else:
        lines += table(memory(x, shape, prompts.longest, nodes * gpus, gpu_gb))
    left = [f"  {key}: {text}" for key, text in LEFT_OUT.items() if x.eval.rare_nll_samples > 0]
    lines += ["", "Not done by this backend:", *left] if left else []
    try:
        rate = f"{config.learning_rate(x):.3g}"
    except UserError as error:
        rate = f"refused: {error}"
    return shared.text(x, f"{nodes} x {gpus} GPUs", prompts, rate, lines)


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
