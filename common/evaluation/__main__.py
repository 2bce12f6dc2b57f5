"""The command `python -m common.evaluate`: draw samples, rescore stored ones, import others."""

from __future__ import annotations

import sys

from common.cli import guard
from common.cli import main as hydra_main
from common.config.compose import CONFIGS
from common.evaluation.config import Evaluate
from common.evaluation.run import evaluate


def main() -> None:
    """`python -m common.evaluate`: rescore= and import= read samples, anything else draws them."""
    given = dict(word.partition("=")[::2] for word in sys.argv[1:])
    if "rescore" in given:
        from common.evaluation.rescore import rescore

        guard(lambda: rescore(sys.argv[1:]))
    elif "import" in given:
        from common.evaluation.import_samples import import_samples

        guard(lambda: import_samples(sys.argv[1:]))
    else:
        hydra_main(_sampled, Evaluate, CONFIGS, "evaluate")


def _sampled(x: Evaluate) -> None:
    print(evaluate(x))
