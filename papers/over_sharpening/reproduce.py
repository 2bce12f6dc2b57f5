"""Everything of over-sharpening that this machine can run, ending with the comparison.

rlvr reproduce paper=over_sharpening [scale=smoke|laptop|laptop_maze|full] [workers=2]
"""

from pathlib import Path

from common.sweeps.plan import Reproduce
from common.sweeps.reproduce import MAZE, Task, command, compared, compared_on_mazes, part


def parts(config: Reproduce) -> list[Task]:
    """The softmax toy (Sec. 2.4, App. G, H) and the theory."""
    return [("toy", toy, (config,)), ("theory", theory, (config,))]


def toy(config: Reproduce) -> None:
    from papers.over_sharpening.toy.config import Toy
    from papers.over_sharpening.toy.tables import run

    run(part(config, "toy", Toy))


def theory(config: Reproduce) -> None:
    from papers.over_sharpening.theory.__main__ import run

    run(Path(config.root), thin=20 if config.scale == "smoke" else 1)


def finish(config: Reproduce) -> None:
    from papers.over_sharpening import figures
    from papers.over_sharpening.compare import SPEC

    if config.scale == MAZE:
        return compared_on_mazes(SPEC, Path(config.root), figures.mazes)

    compared(SPEC, Path(config.root), figures.draw)


def main(words: list[str]) -> None:
    command("over_sharpening", words, finish, parts=parts)
