"""Everything of FADE that this machine can run, ending with the comparison.

rlvr reproduce paper=fade [scale=smoke|laptop|laptop_maze|full] [workers=2]
"""

from pathlib import Path

from common.sweeps.plan import Reproduce
from common.sweeps.reproduce import Task, command, part
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
    from common.comparison.compare import compared
    from papers.fade import figures
    from papers.fade.compare import SPEC
    from papers.fade.fits import tables as fits

    def measured(_root: Path) -> None:
        both = {"weights": weights, "hidden_states": hidden_states}
        asked = config.scales[config.scale].parts
        tasks = [(name, task, (config,)) for name, task in both.items() if name in asked]
        run_all(tasks, config.workers)

    compared(SPEC, Path(config.root), measured, fits.measure, figures.draw)


def main(words: list[str]) -> None:
    command("fade", words, finish, parts=parts)
