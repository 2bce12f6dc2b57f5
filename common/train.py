"""`rlvr train`: train one experiment of a paper (paper=NAME), or your own model on your own data
(docs/your-own.md) with the values of configs/train.yaml. seed=1,2,3 trains one run after another,
each a run of its own. All are checked before the first begins."""

import sys
from shlex import quote

from common.backends import run_experiment
from common.cli import main as hydra
from common.config.compose import CONFIGS, compose
from common.config.files import studies
from common.config.words import split
from common.errors import one_of
from common.experiment import Experiment
from common.results.summary import summary


def main(words: list[str]) -> None:
    given, others = split(words, {"paper": "", "seed": ""})
    paper, name = given["paper"], "config"
    if paper:
        one_of("paper", paper, studies())
    else:
        paper, name = CONFIGS, "train"
    seeds = [f"seed={seed}" for seed in given["seed"].split(",")] if given["seed"] else []
    first, *later = [[*others, seed] for seed in seeds] or [others]

    def in_turn(x: Experiment) -> None:
        from common.config.strict import strict  # imported here: --help must not wait for it

        more = [strict(Experiment, compose(paper, one, name)) for one in later]
        for one in (x, *more):  # all of them are checked before the first is trained
            train(one)

    hydra(in_turn, Experiment, paper, name, first)


def train(x: Experiment) -> None:
    from common.comparison.lines import placed  # imported here: --help must not wait for it

    path = run_experiment(placed(x))
    sampled = f"rlvr evaluate model=huggingface model.path={quote(str(path / 'model'))} eval=..."
    print(summary(path, sampled), file=sys.stderr)
    print(path)
