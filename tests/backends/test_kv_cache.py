"""vLLM's cache in a training, by hand; tests/cluster/test_vllm_cache.py asks vLLM's scheduler."""

import pytest

from common.backends.verl.cache import cache_of, lengths, preemptions
from common.backends.verl.layout import Load, choose
from common.models.size import Size

SEVEN = Load(Size(7.62e9, 28, 3584, 512, 152_064, 131_072), 9892, 9892, False, False)


def test_the_cache_is_what_vllms_share_leaves():
    """7B at 0.6 of 80 GB: weights, the states of 9,892 tokens, the logits of 512 sequences and 2.5
    GB go off; a token takes keys and values of 512 in 28 layers, in bfloat16."""
    one = choose(SEVEN, nodes=1, gpus=8, gpu_gb=80, given={})
    free = 48e9 - 2 * 7.62e9 - 32 * 3584 * 9892 - 12 * 512 * 152_064 - 2.5e9
    blocks = int(free / (16 * 2 * 2 * 28 * 512))
    found = cache_of(SEVEN, one, 80)
    assert found.tokens == 16 * blocks
    assert found.whole == pytest.approx(blocks / 619)  # 9,892 tokens in blocks of 16


def test_lengths_have_their_mean_and_no_more_than_the_limit():
    drawn = lengths(1000, 500, 8192)
    assert sum(drawn) / 1000 == pytest.approx(500, rel=0.02)
    assert max(drawn) > 5 * 500
    assert max(lengths(1000, 500, 800)) == 800


@pytest.mark.parametrize(("tokens", "times"), [(96, 0), (80, 1)])
def test_a_full_cache_takes_blocks_away(tokens, times):
    """Two responses of 32 tokens and their prompts of 16 grow to three blocks each: with five, one
    of them waits until the other has ended."""
    assert preemptions(2, 1e9, 32, 16, tokens) == times


def test_a_cache_for_less_than_one_response_is_refused():
    with pytest.raises(ValueError, match="32"):
        preemptions(2, 1e9, 32, 16, 32)
