"""The smallest real experiment, which most tests train, the smallest random model, and where the
checkout is."""

from pathlib import Path

ROOT = Path(__file__).parents[2]

# A one-layer Qwen2 that writes valid expressions and is right two times in a hundred: about 3 s.
MODEL = [
    "model.name=test-qwen2",
    "model.pretrain.seed=0",  # one model for all seeds
    "model.pretrain.demonstrations=8000",
    "model.pretrain.batch_size=64",
    "model.pretrain.lr=0.03",
    "model.pretrain.embedding_lr=0.02",
    "model.pretrain.hidden_size=32",
    "model.pretrain.layers=1",
    "model.pretrain.heads=2",
    "model.pretrain.kv_heads=1",
    "model.pretrain.intermediate_size=64",
]
# A whole experiment on it in about a second.
TINY = [
    *MODEL,
    "device=cpu",
    "data.train.size=40",
    "data.benchmarks.natural.size=6",
    "data.benchmarks.rare.size=6",
    "sampling.prompts=4",
    "sampling.group_size=16",
    "optim.steps=6",
    "optim.lr=1e-3",
    "optim.warmup_steps=2",
    "optim.micro_batch=32",
    "eval.n=8",
    "eval.k=[1,4,8]",
    "eval.curve_n=4",
    "eval.every=3",
    "eval.batch=64",
    "eval.rare_nll_samples=16",
    "checkpoint_every=2",
]


# Of a model whose weights nobody trained.
SIZES = {
    "vocab_size": 23,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
}


def network(kind: str = "qwen2", **sizes):
    """A causal model of transformers with random weights and these SIZES, except for `sizes`."""
    import torch
    from transformers import AutoConfig

    from common.models.hf import AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **SIZES | sizes)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


def speaking(tokenizer, kind: str = "qwen2", **sizes):
    """A `network` of two heads for the tokens of `tokenizer`."""
    made = {"vocab_size": len(tokenizer), "num_attention_heads": 2, "num_key_value_heads": 1}
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    return network(kind, **made | ends | sizes)


def unsettled(model):
    """The model with no bias and no norm at its neutral value."""
    import torch

    for parameter in model.parameters():
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter, mean=parameter.mean().item(), std=0.3)
    return model
