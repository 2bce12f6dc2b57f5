"""What the two forward passes written here (training, decoding) share."""

import torch

LLAMA_FAMILY = ("LlamaForCausalLM", "Qwen2ForCausalLM", "MistralForCausalLM")


def is_plain_llama(model) -> bool:
    """Whether `model` does nothing that our own forward passes leave out: SiLU, full attention,
    bias on q, k, v only."""
    if type(model).__name__ not in LLAMA_FAMILY or model.config.hidden_act != "silu":
        return False
    if getattr(model.config, "sliding_window", None):  # Mistral's default; Qwen2: if it is used
        return False
    biases = [name for name, _ in model.named_parameters() if name.endswith(".bias")]
    return all(name.split(".")[-2] in ("q_proj", "k_proj", "v_proj") for name in biases)


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.cat([-x[..., half:], x[..., :half]], -1)
