"""Run everything of one paper that this machine can run, and end with the comparison.

    rlvr reproduce paper=NAME [scale=smoke|laptop|full] [workers=2] [budget=4h]
                   [rows=NAME,NAME] [seeds=10] [results_dir=results]

papers/NAME/configs/reproduce.yaml says what a scale runs: rows (named experiment configurations),
seeds and the paper's own parts. With paper=NAME, --help shows it. seeds=10 runs the seeds 1 to 10
of each row instead, seeds=6-10 and seeds=1,3 those, seed by seed: whenever the command is stopped,
the seeds that it has passed are complete.
"""

from pathlib import Path

from common.cli import main as hydra
from common.config.files import papers, studies
from common.config.words import split
from common.errors import one_of
from common.sweeps.plan import Reproduce, experiments, only
from common.sweeps.reproduce import parts, reproduce
from common.sweeps.schedule import run_all


def main(words: list[str]) -> None:
    given, others = split(words, {"paper": "", "rows": "", "seeds": ""})

    def run(config: Reproduce) -> None:
        config = only(config, given["rows"], given["seeds"])
        runs = experiments(config)
        if given["seeds"]:
            runs.sort(key=lambda x: (x.seed, x.optim.steps > 0))
        reproduce(config, finish, runs)

    one_of("paper", given["paper"], studies())
    hydra(run, Reproduce, given["paper"], "reproduce", others)


def finish(config: Reproduce) -> None:
    """Run the remaining measurements, draw the figures and write the comparison."""
    from common.comparison.compare import compared
    from common.comparison.figures import draw_paper
    from common.comparison.spec import spec_of

    def measured(_root: Path) -> None:
        if tasks := parts(config, "runs"):
            run_all(tasks, config.workers)

    def drawn(root: Path) -> None:
        draw_paper(config.paper, root)

    if config.paper in papers():
        compared(spec_of(config.paper), Path(config.root), measured, drawn)
    else:
        drawn(Path(config.root))  # it has no claims, and gathers its runs itself
    if config.scale == "smoke":
        print("scale=smoke ran every part once, with a few steps: its numbers mean nothing")
