"""Milliseconds of one RL step with a paper's method compared with GRPO: what the method costs.

The steps are those of bench/step.py: the same prompts, sizes and random model. The methods take
turns, step by step, in one process, and each round begins with another method. F-GRPO's abstract
says that its weight has no computational cost.
"""

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from bench import row, timed
from bench.step import PROMPTS, SAMPLES, TOKENS, experiment, verify
from common.backends.local import Loop
from common.experiment import load

METHODS = ("f_grpo", "fade", "iac", "negative_only", "cw_grpo")
GRPO = "grpo"


def run(rounds: int = 40, warm_up: int = 8) -> list[dict]:
    """Return one row per method. Every method's first `warm_up` steps are left out."""
    with tempfile.TemporaryDirectory() as folder:
        loops = {name: loop(Path(folder) / name, name) for name in (GRPO, *METHODS)}
        rows = []
        for done in range(warm_up + rounds):
            first = done % len(loops)  # each round begins with another method
            order = [*loops][first:] + [*loops][:first]
            rows.append({name: timed(partial(loops[name].one_step, done + 1)) for name in order})
    times = rows[warm_up:]
    ms = {name: 1e3 * median(one[name] for one in times) for name in loops}
    size = f"{PROMPTS * SAMPLES} sequences x {TOKENS} tokens"
    return [row(f"RL step, {name}, {size}", ms[name], ms[GRPO], "ms", GRPO) for name in METHODS]


def loop(folder: Path, method: str) -> Loop:
    folder.mkdir()
    x = replace(experiment(folder), method=load([f"method={method}"], "f_grpo").method)
    return Loop(x, folder, lambda pairs: [verify(*pair) for pair in pairs])
