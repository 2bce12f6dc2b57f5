"""The memory that layouts are chosen by, beside what PyTorch's tracker counts."""

import pytest

from bench import fsdp, memory
from bench.shapes import SHAPES
from common.backends.verl import layout
from common.sweeps.assumptions import size_of_config

WITHIN = 0.15


def rows() -> list[tuple[str, float, int, float, str]]:
    """The rows of docs/memory.md: model, GB of a GPU, bytes of a logit, GB counted, the line."""
    table = memory.PAGE.read_text().split(memory.START)[1].split(memory.END)[0]
    lines = table.strip().splitlines()[2:]
    assert len(lines) == len(memory.ROWS)
    counted = [float(line.split("|")[7].removesuffix("GB ")) for line in lines]
    return [(*row, *found) for row, *found in zip(memory.ROWS, counted, lines, strict=True)]


@pytest.mark.parametrize("model", ["Qwen/Qwen2.5-1.5B", "Qwen/Qwen2.5-7B", "Qwen/Qwen3-14B"])
def test_the_formula_is_near_what_the_tracker_counts(model):
    """Four layers of true size on one of eight GPUs; docs/memory.md has whole models."""
    shape = SHAPES[model] | {"num_hidden_layers": 4}
    size = size_of_config(shape)
    held = fsdp.peak_gb(shape, gpus=8, tokens=16_384)
    formula = layout.STATE_BYTES * size.parameters / 8 + layout.pass_bytes(size, 16_384)
    assert formula / 1e9 == pytest.approx(held, rel=WITHIN)


def test_what_else_of_the_logits_is_kept():
    """A temperature, and an entropy bonus, which keeps more and so hides it."""
    shape = SHAPES["Qwen/Qwen2.5-1.5B"] | {"num_hidden_layers": 1}
    size = size_of_config(shape)
    for loss, logit_bytes in (
        ({"tempered": True}, layout.TEMPERED_BYTES),
        ({"bonus": True, "tempered": True}, layout.BONUS_BYTES),
    ):
        held = fsdp.peak_gb(shape, gpus=8, tokens=16_384, **loss)
        pass_gb = layout.pass_bytes(size, 16_384, logit_bytes) / 1e9
        states = layout.STATE_BYTES * size.parameters / 8 / 1e9
        assert pass_gb + states == pytest.approx(held, rel=WITHIN)


@pytest.mark.parametrize(("model", "gpu_gb", "logit_bytes", "counted", "line"), rows())
def test_the_page_holds_whole_models(model, gpu_gb, logit_bytes, counted, line):
    one = memory.laid_out(model, gpu_gb, logit_bytes)
    assert one.fits
    assert one.training_gb == pytest.approx(counted, rel=WITHIN)
    assert memory.said(model, gpu_gb, logit_bytes, counted) == line, "python -m bench.memory"
