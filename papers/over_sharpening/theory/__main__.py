"""How often each statement of over_sharpening Sec. 2 and 3.1 fails on random instances.

    python -m papers.over_sharpening.theory [results_dir=results]

Writes over_sharpening/theory/{checks,coupling}.csv below the results folder. Each run writes
the same bytes.
"""

from pathlib import Path

from common.cli import on_results
from common.results.files import write_csv
from papers.over_sharpening.theory import tables


def run(root: Path, thin: int = 1) -> None:
    """Write every table: 20 s on one core. `thin` > 1 checks 1/thin of the instances."""
    folder = root / "over_sharpening" / "theory"
    write_csv(folder / "checks.csv", tables.checks(tables.groups(thin), thin))
    write_csv(folder / "coupling.csv", tables.coupled(thin))


if __name__ == "__main__":
    on_results(run, __doc__)
