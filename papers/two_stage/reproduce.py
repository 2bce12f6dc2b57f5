"""Everything of the two-stage paper that this machine can do, ending with the comparison: `make
reproduce-two_stage`.

    python -m papers.two_stage.reproduce [scale=smoke|laptop|full] [workers=2] [results_dir=results]
"""

from pathlib import Path

from common.config.compose import compose
from common.config.strict import strict
from common.sweeps.plan import Reproduce
from common.sweeps.reproduce import Task, command


def parts(config: Reproduce) -> list[Task]:
    """The toy (Algorithm 1) and the theory."""
    return [("toy", run_toy, (config,)), ("theory", theory, (config.root,))]


def run_toy(config: Reproduce) -> None:
    from papers.two_stage import toy

    toy.run(strict(toy.Toy, compose("two_stage", config.overrides("toy"), "toy")))


def theory(root: str) -> None:
    from papers.two_stage import theory_figures

    theory_figures.run(Path(root))


def finish(root: Path) -> None:
    from common.comparison.compare import compare
    from common.comparison.gather import LAPTOP, gather
    from papers.two_stage import case_study, figures, laptop
    from papers.two_stage.compare import PAGE

    gather(root, PAGE.paper, LAPTOP)
    laptop.gather(root)
    figures.draw(root)
    case_study.write_page(root)
    compare(PAGE, root)


if __name__ == "__main__":
    command("two_stage", parts, finish)
