"""Code rewards on a laptop: GRPO and FADE on tiny program synthesis, judged by the same sandboxed
verifier as the cluster runs (FADE Sec. 3).

The task is common/tasks/expressions.py. Without bubblewrap no program can run in isolation, so a
message is printed and nothing is trained. The runs go one after another, because the first one
makes the base model of all of them.
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
    overrides: list[str]  # added to each experiment
    results_dir: Folder


def run(config: CodeRewards, progress: bool = False) -> list[Path]:
    """Train every experiment with every seed and return the run folders.

    Without a sandbox, print one line to stderr and return an empty list.
    """
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
