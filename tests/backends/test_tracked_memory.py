import pytest
from late import Late

from common.backends.verl import layout
from common.sweeps.assumptions import size_of_config

tracked = Late("tracked_memory")
WITHIN = 0.15


@pytest.mark.parametrize("model", ["Qwen/Qwen2.5-1.5B", "Qwen/Qwen2.5-7B", "Qwen/Qwen3-14B"])
def test_the_formula_is_near_what_the_tracker_counts(model):
    """Four layers of true size on one of eight GPUs; docs/speed.md has whole models."""
    shape = tracked.SHAPES[model] | {"num_hidden_layers": 4}
    size = size_of_config(shape)
    held = tracked.peak_gb(shape, gpus=8, tokens=16_384)
    formula = layout.STATE_BYTES * size.parameters / 8 + layout.pass_bytes(size, 16_384)
    assert formula / 1e9 == pytest.approx(held, rel=WITHIN)


def test_what_else_of_the_logits_is_kept():
    """A temperature, and an entropy bonus, which keeps more and so hides it."""
    shape = tracked.SHAPES["Qwen/Qwen2.5-1.5B"] | {"num_hidden_layers": 1}
    size = size_of_config(shape)
    for loss, logit_bytes in (
        ({"tempered": True}, layout.TEMPERED_BYTES),
        ({"bonus": True, "tempered": True}, layout.BONUS_BYTES),
    ):
        held = tracked.peak_gb(shape, gpus=8, tokens=16_384, **loss)
        pass_gb = layout.pass_bytes(size, 16_384, logit_bytes) / 1e9
        states = layout.STATE_BYTES * size.parameters / 8 / 1e9
        assert pass_gb + states == pytest.approx(held, rel=WITHIN)
