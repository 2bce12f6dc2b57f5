"""The joint model as vLLM runs it: two of vLLM's own models side by side. Only vLLM imports it.

    logits = f_theta - mu f_phi

Each layer of either model has its own paged cache. vLLM 0.24 captures CUDA graphs of `forward`;
`compute_logits`, with mu, is called outside them. Left out: pipeline parallelism, LoRA, quantised
weights.
"""

import copy
from collections.abc import Iterable

import torch
from torch import nn
from transformers import CONFIG_MAPPING
from vllm.compilation.backends import set_model_tag
from vllm.model_executor.layers import utils as layers
from vllm.model_executor.models.utils import (
    AutoWeightsLoader,
    init_vllm_registered_model,
    maybe_prefix,
)
from vllm.platforms import current_platform

from common.rollout.vllm_dlc import PREFIX


class CalibratedForCausalLM(nn.Module):
    def __init__(self, *, vllm_config, prefix: str = ""):
        super().__init__()
        if current_platform.is_cpu():
            layers.dispatch_cpu_unquantized_gemm = _plain
        config = copy.deepcopy(vllm_config.model_config.hf_config)
        # vLLM would take the memory's lm_head in the checkpoint for the policy's own.
        config.tie_word_embeddings = config.policy_tied
        memory = CONFIG_MAPPING[config.memory_config["model_type"]].from_dict(config.memory_config)
        self.mu = float(config.memory_mu)
        self.sizes = [config.hidden_size, memory.hidden_size]
        self.policy = init_vllm_registered_model(
            vllm_config,
            prefix=maybe_prefix(prefix, "policy"),
            hf_config=config,
            architectures=[config.policy_architecture],
        )
        with set_model_tag("memory"):  # so that its compiled code is its own
            self.memory = init_vllm_registered_model(
                vllm_config,
                prefix=maybe_prefix(prefix, "memory"),
                hf_config=memory,
                architectures=[config.memory_architecture],
            )

    @property
    def model(self) -> nn.Module:
        """The policy's body, in which verl looks for expert layers that it would have to patch."""
        return self.policy.model

    def embed_input_ids(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.policy.embed_input_ids(input_ids)

    def forward(self, input_ids, positions, intermediate_tensors=None, inputs_embeds=None):
        """Return the hidden states of both models side by side; `inputs_embeds` is always None
        here.

        Both are cloned: vLLM frees the output of a compiled body's last CUDA graph early, as if no
        other body's graph ran before it is read (vllm 0.24, models/gemma3n.py does the same).
        """
        both = [model(input_ids, positions).clone() for model in (self.policy, self.memory)]
        return torch.cat(both, -1)

    def compute_logits(self, hidden_states: torch.Tensor) -> torch.Tensor | None:
        states = hidden_states.split(self.sizes, -1)
        policy = self.policy.compute_logits(states[0])
        memory = self.memory.compute_logits(states[1])
        return None if policy is None else policy - self.mu * memory  # None: not the first rank

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> set[str]:
        """Load `memory.*` into the memory, all others into the policy; either may come alone."""
        named = (
            (name if name.startswith(PREFIX) else f"policy.{name}", tensor)
            for name, tensor in weights
        )
        return AutoWeightsLoader(self).load_weights(named)


def _plain(layer, remove_weight: bool) -> None:
    """Keep a linear layer's weight: vLLM on a CPU packs and drops it, and later weights need its
    place."""
    layer.cpu_linear = nn.functional.linear
