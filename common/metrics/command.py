"""Metrics and tests from tables of counts, as CSV on stdout.

    rlvr metrics counts=COUNTS.csv k=1,2,4,8,256
        unbiased pass@k (F-GRPO Eq. 25) and avg@n of each benchmark, means over problems in percent
        with standard errors and 95 % intervals over problems, and what pass@k looks like: a shifted
        power law over these k (FADE sec 12), Beta-binomials of the solve rates

    rlvr metrics a=A.csv b=B.csv k=1,256 [m=256] [iterations=50000] [seed=0]
        paired m-out-of-n subsampling test of A - B for each benchmark and k (F-GRPO App. I):
        difference in points, 95 % interval of the subsampling distribution, two-sided p

    rlvr metrics holm=TABLE.csv
        a table with a column p, such as the paired test's, and p_holm: p corrected for its rows
        (Holm), for each k on its own where there is a column k

Input: CSV with the columns benchmark,problem_id,n,c (n samples of the problem, c correct); other
columns are ignored. The counts.csv of a run folder is such a file.
"""

import sys
from pathlib import Path

import pandas as pd

from common.config.words import options
from common.errors import UserError, require

TEST = {"m": "256", "iterations": "50000", "seed": "0"}  # defaults of the paired test


def main(words: list[str]) -> None:
    keys = {word.partition("=")[0] for word in words}
    if "holm" in keys:
        table = _holm(Path(options(words, {"holm": ""})["holm"]))
    elif keys & {"a", "b"}:
        given = options(words, {"a": "", "b": "", "k": "", **TEST})
        for side in ("a", "b"):
            require(given[side] != "", side, "", f"is missing; give {side}=FILE")
        a, b = Path(given["a"]), Path(given["b"])
        numbers = {key: _number(key, given[key]) for key in TEST}
        table = _compare(_counts(a), _counts(b), files=(a, b), k=_ks(given["k"]), **numbers)
    else:
        given = options(words, {"counts": "", "k": ""})
        table = _of_counts(given["counts"], _ks(given["k"]))
    _show(table)


def _of_counts(file: str, k: list[int]):
    from common.metrics.report import from_counts

    require(file != "", "counts", "", "is missing; give counts=FILE")
    counts = _counts(Path(file))
    try:
        return from_counts(counts, k)
    except UserError as error:
        raise UserError(f"{file}: {error}") from error


def _show(table) -> None:
    table.to_csv(sys.stdout, index=False, float_format="%.10g", lineterminator="\n")


def _holm(file: Path):
    from common.metrics.bootstrap import holm

    table = _csv(file)
    if "p" not in table:
        raise UserError(f"{file}: no column p; give a table of tests, such as compare prints")
    p = pd.to_numeric(table["p"], errors="coerce")
    wrong = table["p"][p.isna() & (table["p"] != "")]
    if len(wrong):
        raise UserError(f"{file}: p={wrong.iloc[0]} is not a number; leave it empty where missing")
    groups = table["k"] if "k" in table else pd.Series("", index=table.index)
    try:
        return table.assign(p_holm=p.groupby(groups).transform(lambda part: holm(part)))
    except UserError as error:
        raise UserError(f"{file}: {error}") from error


def _compare(a, b, *, files, k, m, iterations, seed):
    from common.metrics.paired import subsampling_test
    from common.metrics.passk import check_benchmark

    rows = []
    names = list(dict.fromkeys([*a["benchmark"], *b["benchmark"]]))
    for benchmark in names:
        parts = []
        for file, counts in zip(files, (a, b), strict=True):
            part = counts[counts["benchmark"] == benchmark]
            if part.empty:
                raise UserError(f"{file}: has no benchmark {benchmark}, the other file has it")
            try:
                n = check_benchmark(benchmark, part)
            except UserError as error:
                raise UserError(f"{file}: {error}") from error
            parts.append((part.set_index("problem_id")["c"], n))
        (c_a, n), (c_b, n_b) = parts
        if n != n_b:
            raise UserError(
                f"benchmark {benchmark}: n={n} in {files[0]}, n={n_b} in {files[1]}; "
                "the test needs the same number of samples"
            )
        alone = sorted(set(c_a.index) ^ set(c_b.index))
        if alone:
            raise UserError(
                f"benchmark {benchmark}: problem_id={alone[0]} is in one file only "
                f"({len(alone)} such); compare runs on the same problems"
            )
        try:
            results = subsampling_test(c_a, c_b, n=n, ks=k, m=m, iterations=iterations, seed=seed)
        except UserError as error:
            raise UserError(f"benchmark {benchmark}: {error}") from error
        for row in results:
            rows.append({"benchmark": benchmark, **row, "n_problems": len(c_a), "n": n, "m": m})
    return pd.DataFrame(rows)


def _ks(text: str) -> list[int]:
    require(text != "", "k", "", "is missing; say which, as in k=1,256")
    return [_number("k", word) for word in text.split(",")]


def _number(key: str, text: str) -> int:
    least = 0 if key == "seed" else 1
    fits = text.isdecimal() and int(text) >= least
    require(fits, key, text, f"needs whole numbers from {least}, as in k=1,256 or m=256")
    return int(text)


def _csv(file: Path):
    """Return a table with every cell as text: problem 007 is not problem 7."""
    try:
        return pd.read_csv(file, dtype=str, keep_default_na=False)
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}; give a table of counts (see --help)") from error
    except ValueError as error:  # pandas' parser errors and wrong encodings
        raise UserError(f"{file}: not a CSV table ({error})") from error


def _counts(file: Path):
    from common.metrics.passk import pass_at_k

    columns = ["benchmark", "problem_id", "n", "c"]
    table = _csv(file)
    missing = [column for column in columns if column not in table]
    if missing:
        raise UserError(f"{file}: no column {missing[0]}; needs {','.join(columns)}")
    if table.empty:
        raise UserError(f"{file}: has no rows")
    for column in ("n", "c"):
        table[column] = pd.to_numeric(table[column], errors="coerce")
    names = (table["benchmark"] + "/" + table["problem_id"]).to_list()
    try:
        pass_at_k(table["c"], table["n"], [1], names)  # requires whole numbers with 0 <= c <= n
    except UserError as error:
        raise UserError(f"{file}: {error}") from error
    return table.astype({"n": int, "c": int})
