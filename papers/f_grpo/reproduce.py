"""Everything of F-GRPO that this machine can run, ending with the comparison.

rlvr reproduce paper=f_grpo [scale=smoke|laptop|laptop_maze|full|gpu|gpu_smoke]
    [workers=2] [budget=4h] [results_dir=results]
"""

from pathlib import Path

from common.sweeps.plan import Reproduce
from common.sweeps.reproduce import Task, command, part


def parts(config: Reproduce) -> list[Task]:
    """The categorical simulation (App. J) and the theory."""
    return [("simulation", simulation, (config,)), ("theory", theory, (config,))]


def simulation(config: Reproduce) -> None:
    from papers.f_grpo.simulation.config import Simulation
    from papers.f_grpo.simulation.tables import run

    run(part(config, "simulation", Simulation, "workers=1"))


def theory(config: Reproduce) -> None:
    from papers.f_grpo.theory.__main__ import run

    run(Path(config.root))


def finish(config: Reproduce) -> None:
    from common.comparison.compare import compared
    from papers.f_grpo import figures
    from papers.f_grpo.compare import SPEC

    compared(SPEC, Path(config.root), figures.draw)


def main(words: list[str]) -> None:
    command("f_grpo", words, finish, parts=parts)
