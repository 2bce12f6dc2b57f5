from types import SimpleNamespace

from refuses import refuses

from common.rollout.context import require_context


def tokenizer(texts, add_special_tokens):
    assert not add_special_tokens
    return {"input_ids": [list(text) for text in texts]}


def looked_at(texts, max_tokens, context=10) -> None:
    config = SimpleNamespace(max_position_embeddings=context)
    require_context(SimpleNamespace(config=config), tokenizer, texts, max_tokens, "max_tokens")


def test_what_fits_to_the_last_token_passes():
    looked_at(["abcd", "ab"], 6)
    looked_at([], 100)
    looked_at(["abcd"], 100, context=None)


def test_one_token_more_is_refused_with_what_would_fit():
    with refuses("max_tokens", 7):
        looked_at(["abcd", "ab"], 7)
    with refuses("max_tokens", 1):
        looked_at(["abcd", "a" * 10], 1)
