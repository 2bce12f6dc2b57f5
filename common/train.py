"""`rlvr train`: train one experiment of a paper (paper=NAME), or your own model on your own data
(docs/your-own.md) with the values of configs/train.yaml."""

from common.backends import command
from common.config.compose import CONFIGS
from common.config.files import known_paper
from common.config.words import split


def main(words: list[str]) -> None:
    given, others = split(words, {"paper": ""})
    if given["paper"]:
        command(known_paper(given["paper"]), words=others)
    else:
        command(CONFIGS, "train", others)
