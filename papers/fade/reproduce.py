"""Everything of FADE that this machine can do, ending with the comparison: `make reproduce-fade`.

python -m papers.fade.reproduce [scale=smoke|laptop|full] [workers=2]
"""

from pathlib import Path

from common.cli import compose
from common.experiment import strict
from common.reproduce import Reproduce, Task, command


def parts(config: Reproduce) -> list[Task]:
    """What is computed exactly: masses, entropy, pass@k scaling, multi-turn."""
    return [("theory", theory, (config.root,))]


def theory(root: str) -> None:
    from papers.fade import theory

    theory.run(Path(root))


def finish(root: Path) -> None:
    """Weight changes and hidden states of the runs, figures, comparison."""
    from common.compare import LAPTOP, compare, gather
    from papers.fade import figures, hidden_states, weight_figures, weights
    from papers.fade.compare import PAGE

    gather(root, PAGE.paper, LAPTOP)
    where = [f"results_dir={root}"]
    weights.run(strict(weights.Geometry, compose("fade", where, "weights")), progress=False)
    chosen = compose("fade", where, "hidden_states")
    hidden_states.run(strict(hidden_states.States, chosen), progress=False)
    figures.draw(root)
    weight_figures.draw(root)
    compare(PAGE, root)


if __name__ == "__main__":
    command("fade", parts, finish)
