"""Tables that check Theorem 1, Remark 2 and Proposition 1.

    python -m papers.two_stage.theory [results_dir=results]

Writes two_stage/theory/{theorem1,remark2,proposition1,kernel}.csv below the results
folder. The random policies and networks, their sizes and distributions are our choice.
"""

from pathlib import Path

from common.cli import on_results
from common.results.files import write_csv
from papers.two_stage.theory import tables


def run(root: Path) -> None:
    made = {
        "theorem1": tables.theorem1_table(),
        "remark2": tables.remark2_table(),
        "proposition1": tables.proposition1_table(),
        "kernel": tables.kernel_table(steps=2000, eta=0.1),
    }
    for name, table in made.items():
        write_csv(root / "two_stage" / "theory" / f"{name}.csv", table)


if __name__ == "__main__":
    on_results(run, __doc__)
