"""F-GRPO's theory: Figs. 1a, 2, 3 and 5, and checks of Prop. 3.2 and App. B.

    python -m papers.f_grpo.theory [results_dir=results]

Writes f_grpo/theory/{tail_miss.csv,one_step.csv.gz,lemma_b1.csv} and
f_grpo/figures/<figure>.{pdf,png,csv} below the results folder. Not drawn here: Figs 1b and 1c,
which need trained models (Table 3), and Fig. 4, which is the simulation of App. J.
"""

from pathlib import Path

from common.cli import on_results
from common.results.files import write_csv
from papers.f_grpo.theory import figures, tables


def run(root: Path) -> None:
    folder, drawn = root / "f_grpo" / "theory", root / "f_grpo" / "figures"
    write_csv(folder / "tail_miss.csv", tables.tail_miss_table())
    write_csv(folder / "one_step.csv.gz", tables.one_step_table(seeds=200))
    write_csv(folder / "lemma_b1.csv", tables.lemma_b1_table(seeds=10))
    figures.fig1a(drawn / "fig1a")
    figures.fig2(drawn / "fig2")
    figures.fig3(drawn / "fig3")
    figures.fig5(drawn / "fig5")


if __name__ == "__main__":
    on_results(run, __doc__)
