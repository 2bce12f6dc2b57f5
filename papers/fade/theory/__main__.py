"""Compute FADE's exact statements exactly: masses, entropy, pass@k scaling, multi-turn.

    python -m papers.fade.theory [results_dir=results]

Writes weights/{masses,table8,sec14,kish}.csv, theory/{entropy,entropy_summary,scaling,
multi_turn}.csv and their figures to <results_dir>/fade/. It takes under a minute and trains
nothing.
"""

from pathlib import Path

from common.cli import on_results
from common.results.files import write_csv
from papers.fade.theory import entropy, figures, masses, multi_turn, scaling

DIGITS = 6  # significant digits of the tables that are drawn and stored


def run(root: Path) -> None:
    weights, theory, drawn = (root / "fade" / name for name in ("weights", "theory", "figures"))
    table = rounded(masses.mass_table())
    tables = {
        "masses": table,
        "table8": masses.table_8(),
        "sec14": masses.sec_14_1(),
        "kish": masses.kish(),
    }
    written(tables, weights)
    figures.fig_2(table, drawn / "fig2")
    figures.fig_7(rounded(masses.fig_7()), drawn / "fig7")

    checked = entropy.checks()
    tables = {
        "entropy": checked,
        "entropy_summary": entropy.summary(checked),
        "scaling": scaling.theorem_12_1(),
        "multi_turn": multi_turn.simulate(),
    }
    tables = written(tables, theory)
    figures.entropy(tables["entropy"], drawn / "theorem_13_1")


def written(tables: dict, folder: Path) -> dict:
    tables = {name: rounded(frame) for name, frame in tables.items()}
    for name, frame in tables.items():
        write_csv(folder / f"{name}.csv", frame)
    return tables


def rounded(frame):
    """Round floats to DIGITS significant digits: the tables stay small, and nothing needs more."""
    numbers = frame.select_dtypes("float").columns
    text = f"{{:.{DIGITS}g}}"
    return frame.assign(
        **{name: frame[name].map(lambda x: float(text.format(x))) for name in numbers}
    )


if __name__ == "__main__":
    on_results(run, __doc__)
