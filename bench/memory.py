"""Write the table of docs/memory.md: GPU memory in training as PyTorch's tracker counts it
(bench/fsdp.py), beside the formula that the dry run and backend=verl use
(common/backends/verl/layout.py).

    python -m bench.memory        # two to five minutes, no GPU
"""

from dataclasses import replace
from functools import cache

from bench.fsdp import peak_gb
from bench.shapes import SHAPES
from common.backends.verl.layout import (
    BONUS_BYTES,
    LOGIT_BYTES,
    TEMPERED_BYTES,
    Layout,
    Load,
    choose,
)
from common.config.files import ROOT
from common.sweeps.assumptions import assumptions

PAGE = ROOT / "docs" / "memory.md"
START, END = "<!-- written by bench/memory.py -->", "<!-- end -->"
HEAD = "| model | GPUs | temperature | entropy bonus | states | pass | counted | formula |"
GPUS, PROMPT, LIMIT = 8, 1700, 8192  # PROMPT and LIMIT are tokens, as in F-GRPO's rows
LOSSES = {LOGIT_BYTES: ("1", "no"), TEMPERED_BYTES: ("0.7", "no"), BONUS_BYTES: ("1", "yes")}
ROWS = [  # model, GB of a GPU, bytes per logit
    ("Qwen/Qwen2.5-1.5B", 48, LOGIT_BYTES),
    ("Qwen/Qwen2.5-1.5B", 80, LOGIT_BYTES),
    ("Qwen/Qwen2.5-7B", 48, LOGIT_BYTES),
    ("Qwen/Qwen2.5-7B", 80, LOGIT_BYTES),
    ("Qwen/Qwen2.5-7B", 80, TEMPERED_BYTES),
    ("Qwen/Qwen2.5-7B", 80, BONUS_BYTES),
    ("Qwen/Qwen3-14B", 48, LOGIT_BYTES),
    ("Qwen/Qwen3-14B", 80, LOGIT_BYTES),
]


def main() -> None:
    before, rest = PAGE.read_text().split(START, 1)
    lines = [said(*row, counted(*row)) for row in ROWS]
    table = "\n".join([HEAD, "| --- |" + " ---: |" * 7, *lines])
    PAGE.write_text(f"{before}{START}\n{table}\n{END}{rest.split(END, 1)[1]}")


def said(model: str, gpu_gb: float, logit_bytes: int, found: float) -> str:
    """Return a line of the table, with what the tracker `found`."""
    one, (temperature, bonus) = laid_out(model, gpu_gb, logit_bytes), LOSSES[logit_bytes]
    sizes = f"{one.states} | {one.tokens:,} | {found:.1f} GB | {one.training_gb:.1f} GB"
    return f"| {model} | {GPUS} x {gpu_gb:g} GB | {temperature} | {bonus} | {sizes} |"


def laid_out(model: str, gpu_gb: float, logit_bytes: int) -> Layout:
    size = assumptions().models[model]
    length = min(PROMPT + LIMIT, size.context)
    load = Load(size, length, length, reference=False)
    load = replace(load, logit_bytes=logit_bytes)
    return choose(load, nodes=1, gpus=GPUS, gpu_gb=gpu_gb, given={})


def counted(model: str, gpu_gb: float, logit_bytes: int) -> float:
    return _counted(model, laid_out(model, gpu_gb, logit_bytes).tokens, logit_bytes)


@cache
def _counted(model: str, tokens: int, logit_bytes: int) -> float:
    loss = {"bonus": logit_bytes == BONUS_BYTES, "tempered": logit_bytes == TEMPERED_BYTES}
    return peak_gb(SHAPES[model], gpus=GPUS, tokens=tokens, **loss)


if __name__ == "__main__":
    main()
