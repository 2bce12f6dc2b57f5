"""Everything of F-GRPO that this machine can run, ending with the comparison.

rlvr reproduce paper=f_grpo [scale=smoke|laptop|laptop_maze|full|gpu|gpu_smoke]
    [workers=2] [budget=4h] [results_dir=results]
"""

from pathlib import Path

from common.sweeps.plan import Reproduce
from common.sweeps.reproduce import MAZE, Task, command, compared, compared_on_mazes, part


def parts(config: Reproduce) -> list[Task]:
    """The categorical simulation (App. J) and the theory; the mazes are without them."""
    if on_gpu(config):
        return []
    return [("simulation", simulation, (config,)), ("theory", theory, (config,))]


def simulation(config: Reproduce) -> None:
    from papers.f_grpo.simulation.config import Simulation
    from papers.f_grpo.simulation.tables import run

    run(part(config, "simulation", Simulation, "workers=1"))


def theory(config: Reproduce) -> None:
    from papers.f_grpo.theory.__main__ import run

    run(Path(config.root))


def finish(config: Reproduce) -> None:
    from papers.f_grpo import figures
    from papers.f_grpo.compare import SPEC

    if config.scale == MAZE:
        return compared_on_mazes(SPEC, Path(config.root), figures.mazes)

    compared(SPEC, Path(config.root), *([] if on_gpu(config) else [figures.draw]))


def on_gpu(config: Reproduce) -> bool:
    return config.scale.startswith("gpu")


def main(words: list[str]) -> None:
    command("f_grpo", words, finish, parts=parts)
