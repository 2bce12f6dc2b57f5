"""The text in each paper's README on the row (named experiment) to try first: how long three of its
steps take and how much memory they need, as the dry run predicts. `rlvr docs` writes it.
"""

from dataclasses import replace
from pathlib import Path

from common.config.files import ROOT
from common.experiment import Experiment
from common.results.tables import replaced
from common.sweeps.assumptions import assumptions
from common.sweeps.cost import estimate
from common.sweeps.plan import Reproduce, runs_of, scales_of, tried
from common.sweeps.profiles import load_profile, on

# A row of each paper's smallest model; F-GRPO's has the shortest context.
SMALLEST = {
    "f_grpo": "qwen15b_math_grpo",
    "two_stage": "llama3b_grpo",
    "cov_grpo": "distill15b_grpo",
    "over_sharpening": "qwen3_4b_grpo",
    "fade": "qwen7b_grpo",
}
STEPS, PROFILE = 3, "h100-1x8"
START, END = "<!-- smallest row: written by `rlvr docs` -->", "<!-- end of smallest row -->"


def readme(paper: str) -> tuple[Path, str]:
    """Return (the path of the paper's README.md, its text with the row between the marks). Raises
    UserError where the marks are missing."""
    path = ROOT / "papers" / paper / "README.md"
    return path, replaced(str(path), path.read_text(), (START, END), f"{said(paper)}\n")


def said(paper: str) -> str:
    config, profile, a = scales_of(paper, "scale=cluster"), load_profile(PROFILE), assumptions()
    whole, few = (
        estimate(on(_run(one, SMALLEST[paper]), profile, {}), profile, a)
        for one in (config, tried(config, STEPS))
    )
    minutes = f"{60 * few.hours.low:.0f} to {60 * few.hours.high:.0f} minutes"
    words = f"paper={paper} row={SMALLEST[paper]} optim.steps={STEPS} profile={PROFILE}"
    return (
        f"The smallest row is `{SMALLEST[paper]}`. `rlvr submit {words}`\n"
        f"trains {STEPS} steps of its own size, in {minutes} and {few.memory_gb:.0f} GB of each "
        f"GPU as predicted, and evaluates one\nsample a problem, in `results/trial`. The whole "
        f"training takes {whole.hours} hours there."
    )


def _run(config: Reproduce, row: str) -> Experiment:
    name = f"cluster/{row}"
    sweep = next(one for one in config.sweeps if name in one.rows)
    return runs_of(config, replace(sweep, rows=[name], seeds=sweep.seeds[:1]))[0]
