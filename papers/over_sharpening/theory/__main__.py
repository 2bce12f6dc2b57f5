"""How often each statement of over_sharpening Sec. 2 and 3.1 fails on random instances.

    python -m papers.over_sharpening.theory [results_dir=results]

Writes over_sharpening/theory/{checks,coupling,kernel}.csv and the figures `partition` and
`coupling` below the results folder. Each run writes the same bytes.
"""

from pathlib import Path

from common.cli import on_results
from common.results.files import write_csv
from papers.over_sharpening.theory import figures, tables


def run(root: Path, thin: int = 1) -> None:
    """Write every table and figure: 20 s on one core. `thin` > 1 checks 1/thin of the instances."""
    folder = root / "over_sharpening"
    groups, coupled = tables.groups(thin), tables.coupled(thin)
    write_csv(folder / "theory" / "checks.csv", tables.checks(groups, thin))
    write_csv(folder / "theory" / "coupling.csv", coupled)
    write_csv(folder / "theory" / "kernel.csv", tables.kernel())
    figures.partition(groups[groups["beta"] == tables.BETA], folder / "figures" / "partition")
    figures.coupling(coupled, folder / "figures" / "coupling")


if __name__ == "__main__":
    on_results(run, __doc__)
