"""Everything of F-GRPO that this machine can do, ending with the comparison: `make
reproduce-f_grpo`.

    python -m papers.f_grpo.reproduce [scale=smoke|laptop|full] [workers=2] [results_dir=results]
"""

from pathlib import Path

from common.config.compose import compose
from common.config.strict import strict
from common.sweeps.plan import Reproduce
from common.sweeps.reproduce import Task, command


def parts(config: Reproduce) -> list[Task]:
    """The categorical simulation (App. J) and the theory."""
    return [("simulation", simulate, (config,)), ("theory", theory, (config.root,))]


def simulate(config: Reproduce) -> None:
    from papers.f_grpo import simulation

    overrides = [*config.overrides("simulation"), "workers=1"]
    composed = compose("f_grpo", overrides, "simulation")
    simulation.run(strict(simulation.Simulation, composed))


def theory(root: str) -> None:
    from papers.f_grpo import theory_figures

    theory_figures.run(Path(root))


def finish(root: Path) -> None:
    from common.comparison.compare import compare
    from common.comparison.gather import LAPTOP, gather
    from papers.f_grpo import figures
    from papers.f_grpo.compare import PAGE

    gather(root, PAGE.paper, LAPTOP)
    figures.draw(root)
    compare(PAGE, root)


if __name__ == "__main__":
    command("f_grpo", parts, finish)
