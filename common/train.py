"""`rlvr train`: train one experiment of a paper (paper=NAME), or your own model on your own data
(docs/your-own.md) with the values of configs/train.yaml."""

import re
import sys

from common.backends import module_of, run_experiment
from common.cli import main as hydra
from common.config.compose import CONFIGS
from common.config.files import studies
from common.config.words import split
from common.errors import one_of, require
from common.experiment import Experiment
from common.results.summary import summary


def main(words: list[str]) -> None:
    given, others = split(words, {"paper": ""})
    if given["paper"]:
        one_of("paper", given["paper"], studies())
        command(given["paper"], words=others)
    else:
        command(CONFIGS, "train", others)


def command(paper: str, config_name: str = "config", words: list[str] | None = None) -> None:
    """Run `python -m papers.<paper> [experiment=NAME] [key=value ...] [explain[=NODESxGPUSxGB]]`.
    `words` are its command-line arguments; None means the arguments of this process.

    With `explain` nothing runs. It prints what the experiment's backend would do on so many nodes,
    each with so many GPUs of so much memory (default 1x8x80), and where it differs from the paper.
    """
    own, others = split(sys.argv[1:] if words is None else words, {"explain": "no"})

    def run(x: Experiment) -> None:
        if own["explain"] != "no":
            print(_explained(x, own["explain"] or "1x8x80"))
            return
        from common.sweeps.plan import placed  # imported here: --help must not wait for it

        path = run_experiment(placed(x))
        sampled = f"rlvr evaluate model=huggingface model.path={path / 'model'} eval=..."
        print(summary(path, sampled), file=sys.stderr)
        print(path)

    hydra(run, Experiment, paper, config_name, others)


def _explained(x: Experiment, size: str) -> str:
    numbers = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)x([1-9]\d*)", size)
    require(numbers is not None, "explain", size, "give NODESxGPUSxGB, as in 2x8x80")
    nodes, gpus, gpu_gb = map(int, numbers.groups())
    return module_of(x.backend).explain(x, nodes=nodes, gpus=gpus, gpu_gb=gpu_gb)
