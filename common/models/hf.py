"""The classes of transformers that read and make models, without scikit-learn and scipy, whose
import takes a quarter of the start of every command. Only assisted decoding and losses of object
detection, unused here, need them."""

import transformers.utils

for name in ("is_scipy_available", "is_sklearn_available"):  # the next line asks them
    setattr(transformers.utils, name, lambda: False)

from transformers import (  # noqa: E402, F401
    AutoModelForCausalLM,
    AutoTokenizer,
    DynamicCache,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2Tokenizer,
)
