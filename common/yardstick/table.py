"""The yardstick's table as markdown, from ranking.csv alone."""

import pandas as pd

from common.results.tables import markdown as to_markdown
from common.yardstick.protocol import AGAINST_LOWER, EQUALISED, LOWER, PLAIN, PRIMARY, Protocol

TITLES = {
    AGAINST_LOWER: "Against GRPO at a third of the learning rate",
    PLAIN: "At the same learning rate",
    EQUALISED: "At equalised effective learning rate",
    LOWER: "Both at a third of the learning rate",
}
HEAD = """# The yardstick: every method under one protocol

**What this is:** {model}, one task ({task}), one short training
recipe (configs/{name}.yaml), seeds: {seeds}. It shows how the methods compare there, and says
nothing about 7 B models. Methods run with the values of their files in configs/method/ (gamma, k,
alpha, ...), not tuned.

Every run is read where its pass@1 on natural prompts first reaches **{level}**, linearly between
checkpoints: a method that merely learns less would otherwise look as if it kept more diversity.
Values are means ± half a 95 % interval over seeds and problems. **Bold with an arrow:** above or
below GRPO on the same seeds and problems, which is known better than the values themselves, after
Holm's correction over all methods of the column (p < 0.05; the spread between seeds is averaged
over methods). "steps": rollout steps to that pass@1. "4 of 5" seeds: only four reached it, so the
method is not ranked. Ranks follow the mean of rare pass@64; the intervals say how little a few
places mean.

{rates}

![{drawn} against natural pass@1 along training](figures/frontier.png)
"""
OF_EQUALISED = """\
The equalised rate is the plain one times GRPO's largest weight over the method's; where that is 1,
both tables show the same runs. AdamW divides by the size of the gradient, so at the same rate a
method of small weights does not simply learn less."""
OF_LOWER = """\
The first table asks whether a method beats a smaller step: methods at the plain rate against GRPO
at a third of it (ours). The second has all at the plain rate, the third all at a third of it, so
that each method's gain stands beside its twin's. cover@0.5: problems of which at least half the
samples are right (arXiv 2510.08325). "groups alike": training groups without a gradient, % over the
whole run, the advantage collapse rate (arXiv 2605.21125).

![what each method gains over GRPO at a third of the learning rate](figures/gain.png)"""


def markdown(protocol: Protocol, ranking: pd.DataFrame, absent: dict[str, str]) -> str:
    """Return the page: one table for each ranking, in the order of rank. absent: method that is in
    no table -> the reason."""
    first, *others = ranking["level"].drop_duplicates()
    ranks, *more = protocol.measures.values()
    also = [f"{ranks} at {protocol.named(level)}" for level in others]
    titles = [ranks, "minus GRPO", *more, *also]
    about = {"task": protocol.task, "model": protocol.model, "name": protocol.name}
    about["drawn"] = " ".join(protocol.drawn)
    about["rates"] = OF_LOWER if LOWER in protocol.rates else OF_EQUALISED
    parts = [HEAD.format(level=protocol.named(first), seeds=spread(ranking["n_seeds"]), **about)]
    for rate in protocol.rankings:
        title = TITLES[rate]
        ranked = ranking[ranking["rate"] == rate]
        if ranked.empty:
            continue
        cells = ranked.set_index(["level", "benchmark", "metric", "method"]).sort_index()
        lines = []
        order = ranked[(ranked["level"] == first) & (ranked["benchmark"] == PRIMARY[0])]
        for row in order[order["metric"] == PRIMARY[1]].to_dict("records"):
            name, number, size = row["method"], row["rank"], row["n_seeds"]
            line = ["" if pd.isna(number) else str(number), f"`{name}`"]
            line += [_cell(row, PRIMARY[1]), _plus_minus(row, "difference", 1)]
            line += [_cell(cells.loc[(first, *m, name)], m[1]) for m in list(protocol.measures)[1:]]
            line += [_cell(cells.loc[(at, *PRIMARY, name)], PRIMARY[1]) for at in others]
            reached = row["n_reached"]
            lines.append([*line, str(size) if reached == size else f"{reached} of {size}"])
        head = ["", "method", *titles, "seeds"]
        table = to_markdown(head, lines, "rl" + "r" * len(head[2:]))
        parts.append(f"\n## {title}\n\n{table}")
    if absent:
        parts.append("\nNot in the tables:\n\n")
        reasons: dict[str, list[str]] = {}
        for name, reason in absent.items():
            reasons.setdefault(reason, []).append(f"`{name}`")
        parts += [f"- {', '.join(names)}: {reason}\n" for reason, names in reasons.items()]
    return "".join(parts)


def spread(numbers: pd.Series) -> str:
    """Return the range of the numbers as text, such as "3" or "2 to 3", low to high."""
    low, high = numbers.min(), numbers.max()
    return f"{low}" if low == high else f"{low} to {high}"


def _cell(row, metric: str) -> str:
    """Return the value; bold with an arrow where it differs from GRPO after Holm's correction."""
    text = _plus_minus(row, "value", {"token_entropy": 3, "distinct_correct": 2}.get(metric, 1))
    if pd.isna(row["p_holm"]) or row["p_holm"] >= 0.05:
        return text
    return f"**{text}** {'↑' if row['difference'] > 0 else '↓'}"


def _plus_minus(row, column: str, digits: int) -> str:
    """Return a number and half its interval; a dash where it is missing."""
    if pd.isna(row[column]):
        return "–"
    high = row["high" if column == "value" else "difference_high"]
    half = "" if pd.isna(high) else f" ± {high - row[column]:.{digits}f}"
    return f"{row[column]:{'+' if column == 'difference' else ''}.{digits}f}{half}"
