"""Everything of FADE that this machine can run, ending with the comparison.

rlvr reproduce paper=fade [scale=smoke|laptop|laptop_maze|full] [workers=2]
"""

from pathlib import Path

from common.sweeps.plan import Reproduce
from common.sweeps.reproduce import MAZE, Task, command, compared, compared_on_mazes, part
from common.sweeps.schedule import run_all


def parts(config: Reproduce) -> list[Task]:
    """What is computed exactly (masses, entropy, pass@k scaling, multi-turn), and code rewards."""
    return [("theory", theory, (config,)), ("code rewards", code_rewards, (config,))]


def theory(config: Reproduce) -> None:
    from papers.fade.theory.__main__ import run

    run(Path(config.root))


def code_rewards(config: Reproduce) -> None:
    """Not a sweep: its first run makes the model of the others, another one than the sweeps'."""
    from papers.fade.code_rewards.runs import CodeRewards, run

    run(part(config, "code_rewards", CodeRewards), progress=False)


def weights(config: Reproduce) -> None:
    from papers.fade.weights.config import Geometry
    from papers.fade.weights.tables import run

    run(part(config, "weights", Geometry), progress=False)


def hidden_states(config: Reproduce) -> None:
    from papers.fade.hidden_states.config import States
    from papers.fade.hidden_states.tables import run

    run(part(config, "hidden_states", States), progress=False)


def finish(config: Reproduce) -> None:
    from papers.fade import figures
    from papers.fade.compare import SPEC

    if config.scale == MAZE:
        return compared_on_mazes(SPEC, Path(config.root), figures.mazes)
    from papers.fade.fits import tables as fits

    def measured(_root: Path) -> None:
        both = {"weight changes": weights, "hidden states": hidden_states}
        run_all([(title, task, (config,)) for title, task in both.items()], config.workers)

    compared(SPEC, Path(config.root), measured, fits.gather, figures.draw)


def main(words: list[str]) -> None:
    command("fade", words, finish, parts=parts)
