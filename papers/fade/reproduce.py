"""Everything of FADE that this machine can do, ending with the comparison: `make reproduce-fade`.

python -m papers.fade.reproduce [scale=smoke|laptop|full] [workers=2]
"""

from pathlib import Path

from common.cli import main
from common.config.compose import compose
from common.config.strict import strict
from common.sweeps.plan import Reproduce
from common.sweeps.reproduce import Task, reproduce
from common.sweeps.schedule import run_all


def parts(config: Reproduce) -> list[Task]:
    """What is computed exactly (masses, entropy, pass@k scaling, multi-turn), and code rewards."""
    small = config.overrides("code_rewards")
    return [("theory", theory, (config.root,)), ("code rewards", code_rewards, (small,))]


def theory(root: str) -> None:
    from papers.fade import theory

    theory.run(Path(root))


def code_rewards(overrides: list[str]) -> None:
    """Not a sweep: its first run makes the model of the others, another one than the sweeps'."""
    from papers.fade import code_rewards

    chosen = compose("fade", overrides, "code_rewards")
    code_rewards.run(strict(code_rewards.CodeRewards, chosen), progress=False)


def weight_changes(root: str) -> None:
    from papers.fade import weights

    chosen = compose("fade", [f"results_dir={root}"], "weights")
    weights.run(strict(weights.Geometry, chosen), progress=False)


def hidden_states(root: str) -> None:
    from papers.fade import hidden_states

    chosen = compose("fade", [f"results_dir={root}"], "hidden_states")
    hidden_states.run(strict(hidden_states.States, chosen), progress=False)


def run(config: Reproduce) -> None:
    reproduce(config, parts, lambda root: finish(config, root))


def finish(config: Reproduce, root: Path) -> None:
    """Weight changes and hidden states of the runs, figures, comparison."""
    from common.comparison.compare import compare
    from common.comparison.gather import LAPTOP, gather
    from papers.fade import figures, weight_figures
    from papers.fade.compare import PAGE

    gather(root, PAGE.paper, LAPTOP)
    measured = {"weight changes": weight_changes, "hidden states": hidden_states}
    run_all([(title, task, (str(root),)) for title, task in measured.items()], config.workers)
    figures.draw(root)
    weight_figures.draw(root)
    compare(PAGE, root)


if __name__ == "__main__":
    main(run, Reproduce, "fade", "reproduce")
