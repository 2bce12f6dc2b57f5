"""`rlvr evaluate`: sample a model on a benchmark, verify, measure."""

import sys
from shlex import quote

from common.cli import main as hydra_main
from common.config.compose import CONFIGS
from common.evaluation.config import Evaluate
from common.results.summary import summary


def main(words: list[str]) -> None:
    hydra_main(_sampled, Evaluate, CONFIGS, "evaluate", words)


def _sampled(x: Evaluate) -> None:
    from common.evaluation.run import evaluate  # --help does not wait for torch

    path = evaluate(x)
    if x.row is None:
        print(summary(path, f"rlvr rescore run={quote(str(path))}"), file=sys.stderr)
    print(path)
