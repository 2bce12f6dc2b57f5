"""The page and the figure of a testbed, from its tables alone."""

from pathlib import Path

import pandas as pd

from common.palette import look
from common.plotting import COLORS, panels, save
from common.results.tables import markdown as to_markdown
from papers.yardstick.controls import carries
from papers.yardstick.protocol import (
    AS_FIRST_DECLARED,
    BEST,
    DISTINCT,
    EQUAL_ACCURACY,
    EQUAL_ENTROPY,
    EQUAL_KL,
    GRPO,
    LEVELS,
    MARGIN,
    NEXT,
    OWN,
    PASS64,
    PRIMARY,
    SAME,
)

BEST_HEAD = [
    *["method", "rate", "minus GRPO", "p (Holm)", "verdict", "seeds"],
    *["as first declared, to +10", "natural pass@64", "natural distinct right answers"],
    *["at equal entropy", "at equal KL"],
]
RELIABLE = 0.5  # split-half reliability below which nothing is ranked
HEAD = """# The yardstick: {task}

**Does a method beat a smaller learning rate?** Each method at the rate that is best for it on dev
prompts, against GRPO at the rate that is best for GRPO: rare pass@64, averaged over a rise of
pass@1 from +{low} to +{high} points above each run's own base model (docs/evidence.md has the
rules). Seeds: {seeds}, each from a base model of its own. Differences are in points (distinct right
answers: in answers a problem) with 95 % intervals over seeds and problems; p is corrected (Holm);
*equivalent*: the interval lies within {margin:g} points. Columns to the right of the seeds decide
nothing, and no correction is in their intervals. What has not run yet is not in the tables.

![difference from GRPO at its best rate](figures/areas.png)
"""


def markdown(task: str, ranking: pd.DataFrame, last: pd.DataFrame, controls: pd.DataFrame) -> str:
    low, high = last["n_seeds"].min(), last["n_seeds"].max()
    seeds = f"{low}" if low == high else f"{low} to {high}"
    levels = {"low": min(LEVELS[EQUAL_ACCURACY]), "high": max(LEVELS[EQUAL_ACCURACY])}
    parts = [HEAD.format(task=task, seeds=seeds, margin=MARGIN, **levels), _controls(controls)]
    parts.append(_best(ranking))
    own = ranking[ranking["reading"].isin((OWN, NEXT))]
    parts.append(_plain(own, "GRPO's own rates", "rate"))
    parts.append(_plain(ranking[ranking["reading"] == SAME], "At the same rate", "method"))
    parts.append(_last(last))
    return "\n".join(part for part in parts if part)


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


def best_lines(ranking: pd.DataFrame) -> list[list[str]]:
    """Return the table lines under BEST_HEAD, one for each method."""
    tested = _ordered(ranking)
    beside = [(AS_FIRST_DECLARED, PRIMARY), (EQUAL_ACCURACY, PASS64), (EQUAL_ACCURACY, DISTINCT)]
    beside += [(EQUAL_ENTROPY, PRIMARY), (EQUAL_KL, PRIMARY)]
    lines = []
    for row in tested.to_dict("records"):
        others = [
            rows_of(ranking, BEST, *one).set_index("method").loc[row["method"]] for one in beside
        ]
        line = [
            row["method"],
            "none reads enough levels" if pd.isna(row["rate"]) else row["rate"],
            _gap(row),
            _p(row),
            row["verdict"],
            str(row["n_seeds"]),
        ]
        lines.append([*line, *map(_gap, others)])
    return lines


def _ordered(ranking: pd.DataFrame) -> pd.DataFrame:
    """Return the test's rows, ranked where their order is reliable, else sorted by name."""
    tested = rows_of(ranking, BEST)
    ranked = (tested["reliability"] >= RELIABLE).any()
    return tested.sort_values("difference" if ranked else "method", ascending=not ranked)


def _best(ranking: pd.DataFrame) -> str:
    tested = rows_of(ranking, BEST)
    if tested.empty:
        return ""
    r, against = tested[["reliability", "against"]].iloc[0]
    said = "unknown" if pd.isna(r) else f"{r:.2f}"
    by_name = f"in alphabetical order, for below {RELIABLE:g} none is ranked"
    order = "ranked" if r >= RELIABLE else by_name
    text = f"Split-half reliability of the order: {said}; the methods are {order}."
    table = to_markdown(BEST_HEAD, best_lines(ranking), "llrrlrrrrrr")
    return f"## Best rates\n\nGRPO at {against}. {text}\n\n{table}"


def _plain(ranking: pd.DataFrame, title: str, by: str) -> str:
    shown = ranking.dropna(subset=["difference"])
    if shown.empty:
        return ""
    lines = [
        [
            *[row["method"], row["rate"], row["against"], f"{row['benchmark']} {row['metric']}"],
            *[_gap(row), _p(row), row["verdict"]],
        ]
        for row in shown.sort_values(["rate", by]).to_dict("records")
    ]
    head = ["method", "rate", f"{GRPO} at", "measure", "difference", "p (Holm)", "verdict"]
    return f"## {title}\n\n{to_markdown(head, lines, 'llllrrl')}"


def _last(last: pd.DataFrame) -> str:
    if last.empty:
        return ""
    names = [*dict.fromkeys(zip(last["benchmark"], last["metric"], strict=True))]
    lines = []
    for (rate, method), part in last.groupby(["rate", "method"], sort=False):
        cells = part.set_index(["benchmark", "metric"])
        lines.append([method, rate, *(_gap(cells.loc[name]) for name in names)])
    head = ["method", "rate", *(" ".join(name) for name in names)]
    table = to_markdown(head, lines, "ll" + "r" * len(names))
    return f"## After the last step, minus the base model\n\n{table}"


def _controls(controls: pd.DataFrame) -> str:
    lines = [
        [row["control"], row["rate"], _gap(row, low="low", high="high"), row["verdict"]]
        for row in controls.to_dict("records")
    ]
    head = ["control", "rate", "difference (dev prompts)", "verdict"]
    said = f"Every control passes at: {', '.join(carries(controls)) or 'no rate'}.\n\n"
    return f"## Positive controls\n\n{said}{to_markdown(head, lines, 'llrl')}"


def _gap(row, low: str = "difference_low", high: str = "difference_high") -> str:
    if pd.isna(row["difference"]):
        return "–"
    digits = 2 if row.get("metric") == DISTINCT[1] else 1  # answers, not points
    value = f"{row['difference']:+.{digits}f}"
    return (
        value if pd.isna(row[low]) else f"{value} [{row[low]:.{digits}f}, {row[high]:.{digits}f}]"
    )


def _p(row) -> str:
    return "–" if pd.isna(row["p_holm"]) else f"{row['p_holm']:.2g}"


def figure(task: str, ranking: pd.DataFrame, path: Path) -> None:
    """Draw the test as a dot with its interval for each method and, below these, the positive
    control: GRPO's own slower rates. The grey band is the margin."""
    own = rows_of(ranking, OWN)
    says = [
        f"{GRPO}, {rate.split()[-1]} minus {against.split()[-1]}"
        for rate, against in zip(own["rate"], own["against"], strict=True)
    ]
    best = _ordered(ranking)
    shown = pd.concat([best.assign(label=best["method"]), own.assign(label=says)])
    shown = shown.dropna(subset=["difference"]).iloc[::-1]  # the first on top
    drawn, axes = panels(1, width=6.4, height=0.9 + 0.22 * max(len(shown), 4))
    axis = axes[0, 0]
    axis.axvspan(-MARGIN, MARGIN, color=COLORS[6], alpha=0.12, lw=0)
    axis.axvline(0, color=COLORS[6], lw=0.8)
    axis.axhline(shown["reading"].eq(OWN).sum() - 0.5, color=COLORS[6], lw=0.8, ls=":")
    for place, row in enumerate(shown.to_dict("records")):
        mark = look(row["method"])
        ends = [row["difference_low"], row["difference_high"]]
        axis.plot(ends, [place, place], color=mark.color, lw=1.2)
        axis.plot(row["difference"], place, mark.marker, color=mark.color, ms=5.5)
    axis.set_yticks(range(len(shown)), shown["label"])
    axis.set_ylim(-0.7, max(len(shown), 1) - 0.3)
    low, high = min(LEVELS[EQUAL_ACCURACY]), max(LEVELS[EQUAL_ACCURACY])
    axis.set_xlabel(f"rare pass@64 from +{low} to +{high} points of pass@1: difference in points")
    title = f"Right of 0: keeps more than GRPO at its best rate ({task})"
    drawn.suptitle(f"{title}\nbelow: GRPO's own smaller rates, the positive control", fontsize=9)
    save(drawn, path, shown)
