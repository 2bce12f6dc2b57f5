"""`rlvr train`: train one experiment of a paper (paper=NAME), or your own model on your own data
(docs/your-own.md) with the values of configs/train.yaml."""

import sys
from shlex import quote

from common.backends import run_experiment
from common.cli import main as hydra
from common.config.compose import CONFIGS
from common.config.files import studies
from common.config.words import split
from common.errors import one_of
from common.experiment import Experiment
from common.results.summary import summary


def main(words: list[str]) -> None:
    given, others = split(words, {"paper": ""})
    if paper := given["paper"]:
        one_of("paper", paper, studies())
        hydra(train, Experiment, paper, words=others)
    else:
        hydra(train, Experiment, CONFIGS, "train", others)


def train(x: Experiment) -> None:
    from common.comparison.lines import placed  # imported here: --help must not wait for it

    path = run_experiment(placed(x))
    sampled = f"rlvr evaluate model=huggingface model.path={quote(str(path / 'model'))} eval=..."
    print(summary(path, sampled), file=sys.stderr)
    print(path)
