"""Write configs/kernels.yaml: how long vLLM's steps take on an H100, from measured kernels.

    PYTHON -m bench.kernels

PYTHON is that of an environment with `pip install aiconfigurator==0.12.0` (no GPU; the package pins
other versions than this project). It sums kernels that NVIDIA measured on an H100 SXM with vLLM
0.24.0, for one step of decoding and for one prefill. What the server adds (scheduling, sampling,
text) and what a training run does between its steps is left out.
"""

import json
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from bench.shapes import SHAPES

FILE = Path(__file__).parents[1] / "configs" / "kernels.yaml"
SYSTEM, VLLM = "h100_sxm", "0.24.0"
BATCHES = [1, 16, 64, 128, 256, 512]  # sequences that one engine decodes at once
CONTEXTS = [500, 2000, 8000, 24000]  # tokens of each sequence
PREFILL = 8192  # tokens of one pass: verl's max_num_batched_tokens
SPLIT = ("Qwen/Qwen2.5-7B", "Qwen/Qwen3-8B", "Qwen/Qwen3-14B", "facebook/cwm-sft")
HEAD = """\
# How long vLLM's steps take on H100s, from measured kernels: written by bench/kernels.py.
# step_ms: a step of decoding, a line for each of `batches`, a column for each of `contexts`.
"""


def main() -> None:
    with TemporaryDirectory() as folder:
        engines = [
            _engine(name, _described(Path(folder) / name, shape), gpus)
            for name, shape in SHAPES.items()
            for gpus in ((1, 2, 4) if name in SPLIT else (1,))
        ]
    said = {
        "source": f"aiconfigurator {version('aiconfigurator')}, {SYSTEM}, vllm {VLLM}",
        "batches": BATCHES,
        "contexts": CONTEXTS,
        "engines": engines,
    }
    FILE.write_text(HEAD + yaml.safe_dump(said, sort_keys=False, default_flow_style=None))


def _described(folder: Path, shape: dict) -> Path:
    """Write a folder with a config.json, which is how the package reads a model, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(shape))
    return folder


def _engine(name: str, model: Path, gpus: int) -> dict:
    def ask(mode: str, **sizes: int):
        from aiconfigurator.cli.api import cli_estimate

        where = {"backend_name": "vllm", "backend_version": VLLM, "tp_size": gpus}
        return cli_estimate(str(model), SYSTEM, mode=mode, **where, **sizes)

    def step_ms(batch: int, context: int) -> float:
        return round(ask("static_gen", batch_size=batch, isl=context, osl=2).tpot, 2)

    prefill_ms = ask("static_ctx", batch_size=8, isl=PREFILL // 8, osl=1).ttft
    return {
        "model": name,
        "tensor_parallel": gpus,
        "prefill_tokens_s": round(PREFILL / prefill_ms * 1000),
        "step_ms": [[step_ms(batch, context) for context in CONTEXTS] for batch in BATCHES],
    }


if __name__ == "__main__":
    main()
