"""Does any method beat a smaller learning rate? A sentence on each testbed, from its ranking.csv,
states the result of the test and of its positive control (docs/evidence.md).

`rlvr docs` writes the sentences with their figures into the README and docs/yardstick.md.
"""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import fill

import pandas as pd

from common.results.tables import replaced
from common.yardstick.areas import BEST, NEXT, OWN, SAME
from common.yardstick.table import spread
from common.yardstick.third import DISTINCT, EDITIONS, EQUAL_ACCURACY, GRPO, PRIMARY, SEEDS, Third

MARKS = ("<!-- yardstick: written by `rlvr docs` -->", "<!-- end of yardstick -->")
FIGURE = Path("figures") / "areas.png"
SAID = {  # words for one method, for several
    "better": ("keeps more", "keep more"),
    "worse": ("keeps less", "keep less"),
    "equivalent": ("keeps as much", "keep as much"),
    "undecided": ("is undecided", "are undecided"),
    "not read": ("could not be read", "could not be read"),
}
FEW = 3  # so many methods are named; more are counted


def rows_of(
    ranking: pd.DataFrame,
    reading: str,
    equal: str = EQUAL_ACCURACY,
    measure: tuple[str, str] = PRIMARY,
) -> pd.DataFrame:
    """Return the rows of a ranking for one reading and measure, the default being the test's
    measure."""
    same = (ranking["benchmark"] == measure[0]) & (ranking["metric"] == measure[1])
    return ranking[same & (ranking["reading"] == reading) & (ranking["equal"] == equal)]


def sentence(edition: Third, ranking: pd.DataFrame) -> str:
    """Return sentences on how many methods keep more diversity than GRPO, and whether GRPO does at
    slower rates."""
    best = rows_of(ranking, BEST)
    if (best["verdict"] == "not read").all():  # also where there is none
        return f"On {edition.task} no method has been compared yet."
    read = best.loc[best["verdict"] != "not read", "n_seeds"].astype(int)
    seeds = spread(read) + (f" of {SEEDS} seeds so far" if max(read) < SEEDS else " seeds")
    rate = best["against"].iloc[0].split()[-1]
    better = best[best["verdict"] == "better"].sort_values("difference", ascending=False)["method"]
    verb = SAID["better"][len(better) > 1] if len(better) else "is shown to keep more"
    said = (
        f"On {edition.task} ({seeds}, each from its own base model), {len(better) or 'none'} of "
        f"{len(best)} methods, each at its best rate, {verb} rare pass@64 than {GRPO} at its best "
        f"rate ({rate}){': ' if len(better) else ''}{', '.join(better)}."
    )
    others = []
    for word, verbs in list(SAID.items())[1:]:
        names = best.loc[best["verdict"] == word, "method"].tolist()
        if names:
            who = ", ".join(names) if len(names) <= FEW else str(len(names))
            others.append(f"{who} {verbs[len(names) > 1]}")
    parts = [said, *([f"{'; '.join(others)}."] if others else []), *narrow(ranking)]
    return " ".join([*parts, *smallest(ranking, rate), control(ranking)])


def smallest(ranking: pd.DataFrame, best: str) -> list[str]:
    """Return a caveat if GRPO's best rate is the smallest at which it ran, with what the last step
    down in rate gained."""
    own = rows_of(ranking, OWN)
    rates = [text.split()[-1] for text in [*own["rate"], *own["against"]]]
    if not rates or float(best) > min(map(float, rates)):
        return []
    said = [f"{best} is the smallest rate that {GRPO} ran at, and a smaller one may keep as much."]
    for row in rows_of(ranking, NEXT).dropna(subset="difference").itertuples():
        low, high = row.difference_low, row.difference_high
        step = f"From {row.against.split()[-1]} to {row.rate.split()[-1]} {GRPO} gains"
        said.append(f"{step} {row.difference:.1f} [{low:.1f}, {high:.1f}] points.")
    return said


def narrow(ranking: pd.DataFrame) -> list[str]:
    """Return a sentence for each learning rate that is the only one of some methods, if GRPO ran at
    several."""
    rates = rows_of(ranking, SAME).groupby("method")["rate"].agg(list)
    single = rates[rates.map(len) == 1].map(lambda of_one: of_one[0].split()[-1])
    if rows_of(ranking, OWN).empty:
        return []
    return [
        f"{n} {'methods' if n > 1 else 'method'} ran at {rate} alone."
        for rate, n in single.value_counts().items()
    ]


def secondary(ranking: pd.DataFrame) -> str:
    """Return a sentence on distinct right answers, a reading that decides nothing
    (docs/evidence.md); "" where there is none."""
    words = rows_of(ranking, BEST, measure=DISTINCT)["verdict"].value_counts().to_dict()
    if not words:
        return ""
    counts = [f"{n} {SAID[word][n > 1]}" for word, n in words.items()]
    where = "In distinct right answers to natural prompts, a secondary reading"
    return f"{where}, {', '.join(counts)}; {control(ranking, DISTINCT)}"


def control(ranking: pd.DataFrame, measure: tuple[str, str] = PRIMARY) -> str:
    """Return a sentence on a measure's positive control: whether GRPO keeps more at slower rates
    than at its fastest."""
    own = rows_of(ranking, OWN, measure=measure)
    if own.empty:
        return f"{GRPO}'s own rates could not be compared."
    fastest = own["against"].iloc[0].split()[-1]
    rates = [rate.split()[-1] for rate in own.loc[own["verdict"] == "better", "rate"]]
    if rates:
        return f"{GRPO} itself keeps more at {' and '.join(rates)} than at {fastest}."
    return f"{GRPO}'s own smaller rates are not shown to keep more than {fastest}."


def stored(reference: Path) -> dict[str, pd.DataFrame]:
    """Return ranking.csv of each testbed for which more than the controls is stored."""
    files = {name: reference / name / "ranking.csv" for name in EDITIONS}
    return {name: pd.read_csv(file) for name, file in files.items() if file.exists()}


def written(page: Path, reference: Path) -> str:
    """Return the text of a page with the sentences and figures between its marks. Raises UserError
    where it has no marks."""
    home = Path(os.path.relpath(reference, page.parent))
    parts = [
        f"{fill(sentence(EDITIONS[name], ranking), 120)}\n\n"
        f"![what each method keeps beyond {GRPO}]({(home / name / FIGURE).as_posix()})\n"
        for name, ranking in stored(reference).items()
    ]
    return replaced(page.name, page.read_text(), MARKS, "\n".join(parts))
