"""The classes of transformers that read and make models, without scikit-learn, whose import takes a
fifth of the start of every command. Only assisted decoding, unused here, needs it."""

import transformers.utils

transformers.utils.is_sklearn_available = lambda: False  # before the next line, which asks it

from transformers import (  # noqa: E402, F401
    AutoModelForCausalLM,
    AutoTokenizer,
    DynamicCache,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2Tokenizer,
)
