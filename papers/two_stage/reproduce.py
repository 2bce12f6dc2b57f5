"""Everything of the two-stage paper that this machine can run, ending with the comparison.

rlvr reproduce paper=two_stage [scale=smoke|laptop|laptop_maze|full] [workers=2]
"""

from pathlib import Path

from common.sweeps.plan import Reproduce
from common.sweeps.reproduce import MAZE, Task, command, compared, compared_on_mazes, part


def parts(config: Reproduce) -> list[Task]:
    """The toy (Algorithm 1) and the theory."""
    return [("toy", toy, (config,)), ("theory", theory, (config,))]


def toy(config: Reproduce) -> None:
    from papers.two_stage.toy.config import Toy
    from papers.two_stage.toy.tables import run

    run(part(config, "toy", Toy))


def theory(config: Reproduce) -> None:
    from papers.two_stage.theory.__main__ import run

    run(Path(config.root))


def finish(config: Reproduce) -> None:
    from papers.two_stage import case_study, figures
    from papers.two_stage.compare import SPEC

    if config.scale == MAZE:
        return compared_on_mazes(SPEC, Path(config.root), figures.mazes)

    compared(SPEC, Path(config.root), figures.draw, case_study.write_page)


def main(words: list[str]) -> None:
    command("two_stage", words, finish, parts=parts)
