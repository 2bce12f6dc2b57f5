"""The config.json of models in configs/cost.yaml, as far as memory and speed depend on it. This
module imports nothing, so that it can be read in any environment."""


def _shape(family, hidden, intermediate, layers, heads, shared, vocab, tied) -> dict:
    return {
        "architectures": [f"{family}ForCausalLM"],
        "model_type": family.lower(),
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": shared,
        "head_dim": 128,
        "vocab_size": vocab,
        "tie_word_embeddings": tied,
        "max_position_embeddings": 131_072,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "torch_dtype": "bfloat16",
    }


SHAPES = {
    "Qwen/Qwen2.5-1.5B": _shape("Qwen2", 1536, 8960, 28, 12, 2, 151_936, True),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": _shape(
        "Qwen2", 1536, 8960, 28, 12, 2, 151_936, False
    ),
    "Qwen/Qwen3-1.7B": _shape("Qwen3", 2048, 6144, 28, 16, 8, 151_936, True),
    "meta-llama/Llama-3.2-3B-Instruct": _shape("Llama", 3072, 8192, 28, 24, 8, 128_256, True),
    "Qwen/Qwen3-4B": _shape("Qwen3", 2560, 9728, 36, 32, 8, 151_936, True),
    "Qwen/Qwen2.5-7B": _shape("Qwen2", 3584, 18_944, 28, 28, 4, 152_064, False),
    "Qwen/Qwen3-8B": _shape("Qwen3", 4096, 12_288, 36, 32, 8, 151_936, False),
    "Qwen/Qwen3-14B": _shape("Qwen3", 5120, 17_408, 40, 40, 8, 151_936, False),
    "facebook/cwm-sft": _shape("Llama", 6144, 21_504, 64, 48, 8, 128_256, False),
}
