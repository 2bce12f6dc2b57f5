"""Copy the results that git keeps, tables and pictures of finished runs, to results/reference/.

    rlvr keep paper=NAME [results_dir=results] [into=results/reference]

A file from an earlier copy stays even if its source is gone. NAME is a paper or another folder of
<results_dir>, such as yardstick.
"""

import shutil
from pathlib import Path

from common.config.words import options
from common.errors import require

KEPT = ("theory", "toy", "simulation", "covariance", "weights", "laptop", "laptop_maze", "figures")
KEPT = (*KEPT, "*.csv", "*.csv.gz", "*.md")


def main(words: list[str]) -> None:
    given = options(words, {"paper": "", "results_dir": "results", "into": "results/reference"})
    source, target = (Path(given[key]) / given["paper"] for key in ("results_dir", "into"))
    require(given["paper"] != "", "paper", "", "is missing; give paper=NAME")
    require(source.is_dir(), "paper", given["paper"], f"has no results below {source.parent}")
    keep(source, target)


def keep(source: Path, target: Path) -> None:
    """Copy the files of `source` that match KEPT, without PDFs of figures."""
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(path for name in KEPT for path in source.glob(name)):
        if path.is_dir():
            shutil.copytree(path, target / path.name, dirs_exist_ok=True)
        else:
            shutil.copy(path, target)
    for path in (target / "figures").glob("*.pdf"):
        path.unlink()
