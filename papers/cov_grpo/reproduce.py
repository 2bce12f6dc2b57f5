"""Everything of CW-GRPO that this machine can do, ending with the comparison: `make
reproduce-cov_grpo`.

    python -m papers.cov_grpo.reproduce [scale=smoke|laptop|full] [workers=2] [results_dir=results]
"""

from pathlib import Path

from common.config.compose import compose
from common.config.strict import strict
from common.sweeps.plan import Reproduce
from common.sweeps.reproduce import Task, command, none


def later(config: Reproduce) -> list[Task]:
    """The covariance statistics, on the model that the RL runs start from."""
    return [("covariance", statistics, (config,))]


def statistics(config: Reproduce) -> None:
    from papers.cov_grpo import covariance

    composed = compose("cov_grpo", config.overrides("covariance"), "covariance")
    covariance.run(strict(covariance.Covariance, composed))


def finish(root: Path) -> None:
    from common.comparison.compare import compare
    from common.comparison.gather import LAPTOP, gather
    from papers.cov_grpo import figures, laptop
    from papers.cov_grpo.compare import PAGE

    gather(root, PAGE.paper, LAPTOP)
    laptop.gather(root)
    figures.draw(root)
    compare(PAGE, root)


if __name__ == "__main__":
    command("cov_grpo", none, finish, later=later)
