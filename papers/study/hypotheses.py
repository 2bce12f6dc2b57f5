"""The hypotheses of the confirmatory study, judged by PROTOCOL.md on the runs that the repository
keeps (common/results/kept.py)."""

from pathlib import Path

import pandas as pd

from common.claims.file import load
from common.comparison.confirmed import confirmed

PARTS = "ADB"  # those that hypotheses read


def verdicts(root: Path) -> tuple[pd.DataFrame, str]:
    """Return (a row for each hypothesis, as `judge` returns them; how many seeds are whole) of the
    runs that are kept below `root`."""
    found = confirmed(root, PARTS, load(Path(__file__).with_name("hypotheses.yaml")))
    return found.verdicts, "; ".join([found.said, *found.left_out])
