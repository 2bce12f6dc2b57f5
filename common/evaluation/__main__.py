"""The command `python -m common.evaluate`: draw samples, rescore stored ones, import others."""

from __future__ import annotations

import sys

from common.cli import guard
from common.cli import main as hydra_main
from common.config.compose import CONFIGS
from common.config.words import split
from common.evaluation.config import Evaluate
from common.evaluation.run import evaluate
from common.results.summary import summary


def main() -> None:
    """`python -m common.evaluate`: rescore= and import= read samples, anything else draws them."""
    asked, _ = split(sys.argv[1:], {"rescore": "", "import": ""})
    if asked["rescore"]:
        from common.evaluation.rescore import rescore

        guard(lambda: rescore(sys.argv[1:]))
    elif asked["import"]:
        from common.evaluation.import_samples import import_samples

        guard(lambda: import_samples(sys.argv[1:]))
    else:
        hydra_main(_sampled, Evaluate, CONFIGS, "evaluate")


def _sampled(x: Evaluate) -> None:
    path = evaluate(x)
    if x.row is None:
        rescored = f"python -m common.evaluate rescore={path} [eval.verifier.OPTION=VALUE]"
        print(summary(path, rescored), file=sys.stderr)
    print(path)
