"""F-GRPO's theory: Figs. 1a, 2, 3 and 5, Lemma B.1, and checks of the one-step mass balance.

    python -m papers.f_grpo.theory [results_dir=results]

Writes f_grpo/theory/{tail_miss.csv,one_step.csv.gz,lemma_b1.csv} and f_grpo/figures/<figure>.{pdf,png,csv} below
the results folder. Not drawn here: Figs 1b and 1c, which need trained models (Table 3), and Fig. 4,
which is the simulation of App. J.
"""

from pathlib import Path

from common.cli import on_results
from common.results.files import write_csv
from papers.f_grpo.theory import figures, tables
from papers.f_grpo.theory.tables import BELOW


def run(root: Path) -> None:
    """Write every figure and table. Equal inputs give equal bytes. Takes about 15 s on one core."""
    folder, drawn = root / "f_grpo" / "theory", root / "f_grpo" / "figures"
    steps, lemma_b1 = tables.one_step_table(seeds=200), tables.lemma_b1_table(seeds=10)
    write_csv(folder / "tail_miss.csv", tables.tail_miss_table())
    write_csv(folder / "one_step.csv.gz", steps)
    write_csv(folder / "lemma_b1.csv", lemma_b1)
    figures.fig1a(drawn / "fig1a")
    figures.fig2(drawn / "fig2")
    figures.fig3(drawn / "fig3")
    figures.fig5(drawn / "fig5")
    figures.one_step(drawn / "one_step", steps)
    one = (lemma_b1["seed"] == 0) & ~lemma_b1["rewards"].isin([f"rewards {name}" for name in BELOW])
    figures.lemma_b1(drawn / "lemma_b1", lemma_b1[one].drop(columns=["seed", "stderrs_off"]))


if __name__ == "__main__":
    on_results(run, __doc__)
