"""`rlvr train`: train one experiment of a paper (paper=NAME), or your own model on your own data
(docs/your-own.md) with the values of configs/train.yaml. seed=1,2,3 trains three separate runs, all
checked before the first begins."""

import sys
from pathlib import Path
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
    print(summary(path, following(x, path)), file=sys.stderr)
    print(path)


def following(x: Experiment, run: Path) -> str:
    """Return the command that evaluates a run's model, on its first benchmark if that is a file."""
    words = ["rlvr evaluate model=huggingface", f"model.path={quote(str(run / 'model'))}"]
    words += [f"model.chat={quote(x.model.chat)}"] if x.model.chat else []
    first = next(iter(x.data.benchmarks.values()), {})
    if not first.get("_target_", "").endswith(".prompts.jsonl"):
        return " ".join([*words, "eval=NAME   (rlvr evaluate --help lists them)"])
    given = {key: first[key] for key in ("path", "instruction", "fields") if key in first}
    prompts = [f"eval.prompts.{key}={quote(_as_word(value))}" for key, value in given.items()]
    drawn = [f"n={x.eval.n}", f"max_tokens={x.eval.max_tokens}"]
    return " ".join([*words, "eval=jsonl", *prompts, *drawn])


def _as_word(value) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{name}" for key, name in value.items()) + "}"
    return str(value)
