"""What FADE states exactly, computed exactly: masses, entropy, pass@k scaling, multi-turn.

    python -m papers.fade.theory [results_dir=results]

Writes weights/{masses,table7,table8,fig7,sec14,kish}.csv, theory/{entropy,entropy_summary,scaling,
recovered,multi_turn}.csv and their figures to <results_dir>/fade/. Under a minute; nothing is
trained.
"""

from pathlib import Path

from common.cli import guard, options
from common.results.files import write_csv

DIGITS = 6  # significant, of the tables that are drawn and kept


def run(root: Path) -> None:
    from papers.fade import entropy, masses, masses_figures, multi_turn, scaling, theory_figures

    weights, theory, figures = (root / "fade" / name for name in ("weights", "theory", "figures"))
    table = rounded(masses.mass_table())
    tables = {
        "masses": table,
        "table7": masses.table_7(table),
        "table8": masses.table_8(),
        "fig7": masses.fig_7(),
        "sec14": masses.sec_14_1(),
        "kish": masses.kish(),
    }
    tables = {name: rounded(frame) for name, frame in tables.items()}
    for name, frame in tables.items():
        write_csv(weights / f"{name}.csv", frame)
    masses_figures.fig_2(table, figures / "fig2")
    masses_figures.table_1(table, figures / "table1")
    masses_figures.fig_7(tables["fig7"], figures / "fig7")
    masses_figures.best_alpha(tables["sec14"], figures / "sec14_alpha")

    checked = entropy.checks()
    tables = {
        "entropy": checked,
        "entropy_summary": entropy.summary(checked),
        "scaling": scaling.theorem_12_1(),
        "recovered": scaling.recovered(),
        "multi_turn": multi_turn.simulate(),
    }
    tables = {name: rounded(frame) for name, frame in tables.items()}
    for name, frame in tables.items():
        write_csv(theory / f"{name}.csv", frame)
    theory_figures.entropy(tables["entropy"], figures / "theorem_13_1")
    theory_figures.scaling(tables["scaling"], figures / "theorem_12_1")
    theory_figures.multi_turn(tables["multi_turn"], figures / "retry")


def rounded(frame):
    """Numbers to DIGITS significant digits: the tables stay small, and nothing needs more."""
    numbers = frame.select_dtypes("float").columns
    text = f"{{:.{DIGITS}g}}"
    return frame.assign(
        **{name: frame[name].map(lambda x: float(text.format(x))) for name in numbers}
    )


if __name__ == "__main__":
    guard(lambda: run(Path(options(__doc__, {"results_dir": "results"})["results_dir"])))
