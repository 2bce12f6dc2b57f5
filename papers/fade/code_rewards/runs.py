"""Code rewards on a laptop: GRPO and FADE on tiny program synthesis, judged by the sandboxed
verifier that the cluster's runs use (FADE Sec. 3).

The task is common/tasks/expressions.py. Without bubblewrap no program can be run in isolation: a
message says so, and nothing is run. The runs follow one another: the first makes the model of all.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from common.config.schema import Folder
from common.errors import UserError
from common.experiment import load


@dataclass(frozen=True)
class CodeRewards:
    experiments: list[str]
    seeds: list[int]
    overrides: list[str]  # of each experiment
    results_dir: Folder


def run(config: CodeRewards, progress: bool = False) -> list[Path]:
    """The run folders; none, and a line on stderr, where the sandbox is missing."""
    from common.backends import run_experiment
    from common.verifiers.code import verifier

    where = f"results_dir={config.results_dir}"
    runs = [
        load([f"experiment={name}", f"seed={seed}", where, *config.overrides], "fade")
        for seed in config.seeds
        for name in config.experiments
    ]
    try:
        verifier.prepare()
    except UserError as error:
        print(f"code rewards are left out: {error}", file=sys.stderr)
        return []
    return [run_experiment(x, progress=progress) for x in runs]
