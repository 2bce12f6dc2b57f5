"""Seconds that a command takes to answer `--help`, process start included."""

import subprocess
import sys
from statistics import median

from bench import row, timed
from common.config.files import ROOT

BAR = 1.5  # the most seconds wanted, on a laptop


def run(rounds: int = 5) -> list[dict]:
    command = [sys.executable, "-m", "papers.f_grpo", "--help"]

    def ask():
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)

    ask()  # the first start reads the files from disk
    seconds = median(timed(ask) for _ in range(rounds))
    return [row("python -m papers.f_grpo --help", seconds, BAR, "s", "peer: the bar")]
