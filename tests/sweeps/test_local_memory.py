"""What a pass of the local backend leaves for its backward pass, beside the dry run's formula."""

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from common.models.policy import log_probs
from common.sweeps.assumptions import size_of_config
from common.sweeps.fits import activation_bytes
from common.types import RolloutBatch

PROMPTS, GROUP, PROMPT, RESPONSE, VOCAB = 2, 4, 32, 128, 500


def kept_bytes(config: Qwen2Config, checkpointing: bool) -> float:
    """A token, apart from weights and logits."""
    model = Qwen2ForCausalLM(config).eval()
    if checkpointing:
        model.gradient_checkpointing_enable()
    rows = PROMPTS * GROUP
    batch = RolloutBatch(
        torch.zeros(PROMPTS, PROMPT, dtype=torch.long),
        torch.ones(PROMPTS, PROMPT, dtype=torch.long),
        torch.zeros(rows, RESPONSE, dtype=torch.long),
        torch.ones(rows, RESPONSE),
        torch.zeros(rows, RESPONSE),
        torch.ones(rows, dtype=torch.bool),
    )
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    found = {}  # tensors, which keeps their storage from being used again

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights and tensor.shape[-1:] != (VOCAB,):
            found[storage.data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        log_probs(model, batch, 1.0)
    tokens = PROMPTS * PROMPT + rows * (RESPONSE - 1)
    return sum(tensor.untyped_storage().nbytes() for tensor in found.values()) / tokens


@pytest.mark.parametrize(("wide", "layers"), [(2, 2), (5, 4), (8, 2)])
def test_activations_of_the_local_backend(wide, layers):
    sizes = {"hidden_size": 256, "intermediate_size": 256 * wide, "num_hidden_layers": layers}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    config = Qwen2Config(vocab_size=VOCAB, tie_word_embeddings=True, **sizes, **heads)
    size = size_of_config(config.to_dict())
    formula = activation_bytes(size, checkpointing=False)
    assert formula == pytest.approx(kept_bytes(config, False), rel=0.15)
    # with checkpointing one block is computed again, beside the inputs of all
    inputs = activation_bytes(size, checkpointing=True) - formula / layers
    assert inputs == pytest.approx(kept_bytes(config, True), rel=0.8)
    assert kept_bytes(config, True) < kept_bytes(config, False) / 5
