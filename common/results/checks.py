"""Leave out rows and counts that cannot be results, and name each by file and line.

`place` is the file as the messages name it. The index of a frame counts the file's lines after the
header.
"""

import gzip
import io
import re
import zlib
from pathlib import Path

import numpy as np
import pandas as pd

from common.errors import UserError, nearest
from common.results.columns import CELL, EVALUATION, KEY

SHOWN = 5  # the most names or messages that are shown


def check_rows(rows: pd.DataFrame, place: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows that can be results, as numbers, and a message for each row that is left out.

    A row is left out if its value is not a finite number, if it is a pass@k or avg@k outside 0..100
    percent or of fewer than k samples, if rows with the same KEY have different values, or if it
    repeats an earlier row. Where no share of a printed table is above 1 percent, its shares are
    taken for fractions.
    """
    number = pd.to_numeric(rows["value"], errors="coerce")
    share = (rows["unit"] == "percent") & rows["metric"].astype(str).str.match("(pass|avg)@", False)
    k = rows["metric"].astype(str).str.extract(r"^(?:pass|avg)@(\d+)", flags=re.I)[0].astype(float)
    n = pd.to_numeric(rows.get("n_samples", k), errors="coerce")
    fractions = "n_samples" not in rows and number[share].max() <= 1
    key = [name for name in KEY if name in rows]
    messages, bad = [], np.zeros(len(rows), bool)
    again, several = rows.duplicated(key).to_numpy(), np.zeros_like(bad)
    if again.any():
        values = rows.groupby(key, dropna=False)["value"].transform("nunique", dropna=False)
        several = (values > 1).to_numpy()
    reasons = [
        (number.isna() | np.isinf(number), "value={value} is not a number"),
        (share & ((number < 0) | (number > 100)), "value={value} percent lies outside 0..100"),
        (
            share & fractions & (number > 0),
            "value={value} percent is a fraction; multiply it by 100",
        ),
        (k > n, "{metric} of fewer than k samples; sample more, or drop this k"),
        (several, "this row appears again with another value; both are ignored"),
        (again & ~several, "this row repeats an earlier row, which counts"),
    ]
    for hits, reason in reasons:
        for i in np.flatnonzero(np.asarray(hits) & ~bad):
            row = rows.iloc[i]
            text = reason.format(value=row["value"], metric=row["metric"])
            messages.append(f"{place}:{rows.index[i] + 2}: {text} ({_which(row)}); left out")
            bad[i] = True
    return rows[~bad].assign(value=number[~bad]), messages


def check_counts(counts: pd.DataFrame, place: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the counts of the evaluations without a fault, and messages on those left out.

    `counts` has the columns problem_id, n, c and some of EVALUATION. A whole evaluation is left out
    if a line has c > n or no valid count, if a problem occurs twice, or if its problems have
    different n.
    """
    key = [name for name in EVALUATION if name in counts]
    n, c = (pd.to_numeric(counts[name], errors="coerce") for name in ("n", "c"))
    fine = (n >= 1) & (c >= 0) & (c <= n) & (c % 1 == 0) & (n % 1 == 0)
    twice = counts.duplicated([*key, "problem_id"])
    if fine.all() and not twice.any() and n.nunique() <= 1:
        return counts, []
    groups = counts.assign(number=n).groupby(key, dropna=False)
    usual = groups["number"].transform("first")
    reasons = [
        (~fine, _no_counts),
        (twice, lambda row: "the problem appears twice"),
        (fine & (n != usual), lambda row: f"n={row['n']}: the other problems have another n"),
    ]
    messages, number = [], groups.ngroup()
    left_out: set[int] = set()
    for hits, reason in reasons:
        at = np.flatnonzero(hits)
        for group, lines in pd.Series(at).groupby(number.to_numpy()[at]):
            row = counts.iloc[lines.iloc[0]]
            more = f", and {len(lines) - 1} more lines" if len(lines) > 1 else ""
            messages.append(
                f"{place}:{counts.index[lines.iloc[0]] + 2}: problem {row['problem_id']}: "
                f"{reason(row)}{more} ({_which(row)}); this evaluation's counts are left out"
            )
            left_out.add(group)
    if not left_out:
        return counts, []
    kept = ~number.isin(left_out)
    return counts[kept].assign(n=n[kept].astype(int), c=c[kept].astype(int)), messages


def check_names(
    rows: pd.DataFrame,
    printed: pd.DataFrame,
    place: str,
    ours: set[str],
    shared: dict[str, set] | None = None,
) -> list[str]:
    """Return a message for each model, method or benchmark in `rows` that no printed cell has.

    Only rows of printed tables are checked. A name is known if it is in the printed table itself or
    in a table that reuses its runs (`shared`, by table), or if it is "training" or one of `ours`,
    the names that only reruns have.
    """
    messages = []
    for table, part in rows[rows["table"].isin(printed["table"])].groupby("table", sort=False):
        there = printed[printed["table"].isin({table, *(shared or {}).get(table, ())})]
        for column in ("model", "method", "benchmark"):
            known = [str(name) for name in there[column].dropna().unique()]
            for name in sorted(
                set(part[column].dropna().astype(str)) - {*known, *ours, "training"}
            ):
                near = nearest(name, known, cutoff=0.5)
                hint = f"did you mean {near}?" if near else f"it has {', '.join(known[:SHOWN])}"
                line = part.index[(part[column].astype(str) == name).to_numpy()][0] + 2
                messages.append(
                    f"{place}:{line}: {column}={name} is not in {table}; {hint} Its rows match no "
                    "printed cell"
                )
    return messages


def _no_counts(row: pd.Series) -> str:
    said = f"c={row['c']}, n={row['n']}: needs whole numbers, 0 <= c <= n"
    share = pd.to_numeric(row["c"], errors="coerce") % 1 > 0
    return said + "; c is how many samples were right, not their share" * bool(share)


def checked_counts(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """Return (the valid counts in a CSV file, plain or gzipped; what was left out). A file that is
    missing or damaged anywhere has no counts: even the lines before the damage are not trusted."""
    if not path.exists():
        return pd.DataFrame(), []
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        table = pd.read_csv(io.BytesIO(data), dtype={"problem_id": str})
    except (OSError, EOFError, zlib.error, ValueError) as error:
        what = "its counts are left out, so intervals are over seeds only"
        return pd.DataFrame(), [f"{path}: cannot be read ({error}); {what}"]
    return check_counts(table, str(path))


def require_none(messages: list[str]) -> None:
    if messages:
        more = f"\nand {len(messages) - SHOWN} more" if len(messages) > SHOWN else ""
        raise UserError("\n".join(messages[:SHOWN]) + more)


def _which(row: pd.Series) -> str:
    names = [*CELL, "seed", "step"]
    return ", ".join(f"{name}={row[name]}" for name in names if name in row and pd.notna(row[name]))
