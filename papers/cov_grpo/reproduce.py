"""Everything of CW-GRPO that this machine can run, ending with the comparison.

rlvr reproduce paper=cov_grpo [scale=smoke|laptop|laptop_maze|full] [workers=2]
"""

from pathlib import Path

from common.sweeps.plan import Reproduce
from common.sweeps.reproduce import MAZE, Task, command, compared, compared_on_mazes, part


def later(config: Reproduce) -> list[Task]:
    """The covariance statistics, on the model that the RL runs start from."""
    return [("covariance", covariance, (config,))]


def covariance(config: Reproduce) -> None:
    from papers.cov_grpo.covariance.config import Covariance
    from papers.cov_grpo.covariance.tables import run

    run(part(config, "covariance", Covariance))


def finish(config: Reproduce) -> None:
    from papers.cov_grpo import figures
    from papers.cov_grpo.compare import SPEC

    if config.scale == MAZE:
        return compared_on_mazes(SPEC, Path(config.root), figures.mazes)

    compared(SPEC, Path(config.root), figures.draw)


def main(words: list[str]) -> None:
    command("cov_grpo", words, finish, later=later)
