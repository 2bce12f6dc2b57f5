"""Prompts are given to a model as transformers gives them: behind a begin token, if the tokenizer
adds one by itself, and behind no second one."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from common.models.load import input_ids


def tokenizer(adds: bool, bos: str | None = "<s>") -> PreTrainedTokenizerFast:
    words = {"<s>": 0, "a": 1, "b": 2}
    made = Tokenizer(models.WordLevel(words, unk_token="a"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if adds:
        made.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token=bos)


@pytest.mark.parametrize("adds", [True, False])
def test_texts_begin_as_transformers_begins_them(adds):
    tok, texts = tokenizer(adds), ["a b", "b", ""]
    theirs = tok(texts)["input_ids"]
    assert input_ids(tok, texts)[:2] == theirs[:2]
    assert theirs[0] == [0, 1, 2][not adds :]
    assert input_ids(tok, texts)[2] == []  # and is refused
    assert input_ids(tok, ["<s> a b"]) == [[0, 1, 2]]
    assert input_ids(tok, []) == []


def test_a_tokenizer_without_a_begin_token_adds_none():
    assert input_ids(tokenizer(False, None), ["a b"]) == [[1, 2]]
