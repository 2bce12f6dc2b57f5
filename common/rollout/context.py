"""Check that prompts and responses fit the model's context, before anything is sampled."""

from common.errors import require
from common.models.load import input_ids

LOOKED_AT = 1000  # longest prompts that are checked: a million would take minutes


def require_context(model, tokenizer, texts: list[str], max_tokens: int, key: str) -> None:
    """Raise UserError, naming `key`, if a prompt and a response of `max_tokens` exceed the model's
    context: with rotary positions it would go on without a warning, but worse. Of many prompts only
    the longest texts are checked; a model that states no context is not."""
    context = getattr(model.config, "max_position_embeddings", None)
    if context is None or not texts:
        return
    longest = sorted(texts, key=len)[-LOOKED_AT:]
    length = max(map(len, input_ids(tokenizer, longest)))
    room = context - length
    require(
        max_tokens <= room,
        key,
        max_tokens,
        f"the longest prompt has {length} tokens and the model's context is {context}: "
        + (f"at most {room}" if room > 0 else "drop the prompts that fill it")
        + ", or take a model with a longer context",
    )
