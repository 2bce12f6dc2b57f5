"""Everything of over-sharpening that this machine can do, ending with the comparison: `make
reproduce-over_sharpening`.

    python -m papers.over_sharpening.reproduce [scale=smoke|laptop|full] [workers=2]
"""

from pathlib import Path

from common.config.compose import compose
from common.config.strict import strict
from common.sweeps.plan import Reproduce
from common.sweeps.reproduce import Task, command


def parts(config: Reproduce) -> list[Task]:
    """The softmax toy (Sec. 2.4, App. G, H) and the theory."""
    thin = 20 if config.scale == "smoke" else 1
    return [("toy", play, (config,)), ("theory", theory, (config.root, thin))]


def play(config: Reproduce) -> None:
    from papers.over_sharpening import toy

    toy.run(strict(toy.Toy, compose("over_sharpening", config.overrides("toy"), "toy")))


def theory(root: str, thin: int) -> None:
    from papers.over_sharpening import theory_check

    theory_check.run(Path(root), thin)


def finish(root: Path) -> None:
    from common.comparison.compare import compare
    from common.comparison.gather import LAPTOP, gather
    from papers.over_sharpening import figures
    from papers.over_sharpening.compare import PAGE

    gather(root, PAGE.paper, LAPTOP)
    figures.draw(root)
    compare(PAGE, root)


if __name__ == "__main__":
    command("over_sharpening", parts, finish)
