"""The sizes of an experiment's models, from their configurations."""

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from common.experiment import Experiment
from common.models.load import only_cached, read_tokenizer, reading
from common.models.pretrain import random_model, tokenizer
from common.models.size import Size, with_memory


def facts(path: str, key: str) -> tuple:
    """Return (tokenizer, configuration) of the model at a folder or hub id, which `key` names."""
    with reading(path, key) as cached:
        described = AutoConfig.from_pretrained(path, local_files_only=cached)
    return read_tokenizer(path, key=key), described


def sizes_of(x: Experiment) -> list[Size]:
    """Return the sizes of the policy and, with DLC, of its memory network; [] if not readable."""
    if x.model.pretrain is None:
        size = _size_at(str(x.model.path), x.model.revision or "main")
    else:
        with torch.device("meta"):
            size = _counted(random_model(x.model.pretrain, tokenizer()))
    return with_memory(size, x.method.sampler, _size_at) if size else []


def _size_at(path: str, revision: str = "main") -> Size | None:
    cached = only_cached(path, "model.path")
    try:
        described = AutoConfig.from_pretrained(path, revision=revision, local_files_only=cached)
    except (OSError, ValueError):
        return None
    with torch.device("meta"):
        return _counted(AutoModelForCausalLM.from_config(described))


def _counted(model) -> Size:
    c = model.config
    head = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    heads = getattr(c, "num_key_value_heads", None) or c.num_attention_heads
    count = sum(parameter.numel() for parameter in model.parameters())
    return Size(
        parameters=count,
        layers=c.num_hidden_layers,
        hidden=c.hidden_size,
        kv_width=heads * head,
        vocab=c.vocab_size,
        context=c.max_position_embeddings,
    )
