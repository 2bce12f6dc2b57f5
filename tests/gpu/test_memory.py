import pytest
from tracked_memory import SHAPES, held_gb, peak_gb

pytestmark = pytest.mark.trains
NARROW = dict(hidden_size=384, intermediate_size=2240, num_hidden_layers=2, vocab_size=2048)
SHAPE = SHAPES["Qwen/Qwen2.5-1.5B"] | NARROW | {"num_attention_heads": 3, "num_key_value_heads": 1}


@pytest.mark.parametrize("loss", [{}, {"bonus": True}], ids=str)
def test_what_is_counted_is_what_a_gpu_holds(loss):
    counted = peak_gb(SHAPE, gpus=1, tokens=256, **loss)
    allocated, reserved = held_gb(SHAPE, tokens=256, **loss)
    assert allocated == pytest.approx(counted, rel=0.1)
    assert reserved >= allocated
