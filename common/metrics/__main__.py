"""Metrics and tests from tables of counts, as CSV on stdout.

  python -m common.metrics passk COUNTS.csv k=1,2,256
      unbiased pass@k of each benchmark (F-GRPO Eq. 25), mean over problems in percent, with its
      standard error over problems

  python -m common.metrics compare A.csv B.csv k=1,256 [m=256] [iterations=50000] [seed=0]
      paired m-out-of-n subsampling test of A - B for each benchmark and k (F-GRPO App. I):
      difference in points, 95 % interval of the subsampling distribution, two-sided p

  python -m common.metrics report COUNTS.csv k=1,2,4,8,256
      pass@k and avg@n with 95 % intervals over problems, and what pass@k looks like: a shifted
      power law over these k (FADE sec 12), Beta-binomials of the solve rates

  python -m common.metrics holm TABLE.csv
      a table with a column p, such as compare's, and p_holm: p corrected for its rows (Holm), for
      each k on its own where there is a column k

Input: CSV with the columns benchmark,problem_id,n,c (n samples of the problem, c correct); other
columns are ignored. The counts.csv of a run folder is such a file.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from common.cli import guard
from common.config.words import pairs
from common.errors import UserError, unknown

OPTIONS: dict[str, dict] = {
    "passk": {"k": None},
    "compare": {"k": None, "m": 256, "iterations": 50000, "seed": 0},
    "report": {"k": None},
    "holm": {},
}
FILES = {"passk": 1, "compare": 2, "report": 1, "holm": 1}


def main(arguments: list[str]) -> None:
    if not arguments or {"-h", "--help"} & set(arguments):
        print(__doc__.strip())
        return
    command, *rest = arguments
    if command not in OPTIONS:
        raise UserError(f"unknown command {command}; known: {', '.join(OPTIONS)} (see --help)")
    files = [Path(word) for word in rest if "=" not in word or Path(word).exists()]
    options = _options(command, [word for word in rest if Path(word) not in files])
    if len(files) != FILES[command]:
        raise UserError(f"{command} takes {FILES[command]} file(s), got {len(files)} (see --help)")
    if command == "holm":
        table = _holm(files[0])
    else:
        commands: dict[str, Callable] = {"passk": _passk, "compare": _compare, "report": _report}
        table = commands[command](*map(_counts, files), files=files, **options)
    table.to_csv(sys.stdout, index=False, float_format="%.10g", lineterminator="\n")


def _passk(counts, *, files, k):
    from common.metrics.passk import report

    try:
        return report(counts, k)
    except UserError as error:
        raise UserError(f"{files[0]}: {error}") from error


def _report(counts, *, files, k):
    from common.metrics.report import from_counts

    try:
        return from_counts(counts, k)
    except UserError as error:
        raise UserError(f"{files[0]}: {error}") from error


def _holm(file: Path):
    import pandas as pd

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
    import pandas as pd

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


def _options(command: str, words: list[str]) -> dict:
    options = dict(OPTIONS[command])
    for key, text in pairs(words).items():
        if key not in options:
            raise unknown(key, text, options)
        try:
            values = [int(word) for word in text.split(",")] if key == "k" else [int(text)]
        except ValueError:
            raise UserError(f"{key}={text}: needs whole numbers, as in k=1,256 or m=256") from None
        if min(values) < (0 if key == "seed" else 1):
            raise UserError(f"{key}={text}: is too small")
        options[key] = values if key == "k" else values[0]
    if "k" in options and options["k"] is None:
        raise UserError("k is missing; say which, as in k=1,256")
    return options


def _csv(file: Path):
    """A table with every cell as text: problem 007 is not problem 7."""
    import pandas as pd

    try:
        return pd.read_csv(file, dtype=str, keep_default_na=False)
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}; give a table of counts (see --help)") from error
    except ValueError as error:  # pandas' parser errors and wrong encodings
        raise UserError(f"{file}: not a CSV table ({error})") from error


def _counts(file: Path):
    import pandas as pd

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
        pass_at_k(table["c"], table["n"], [1], names)  # whole numbers with 0 <= c <= n
    except UserError as error:
        raise UserError(f"{file}: {error}") from error
    return table.astype({"n": int, "c": int})


if __name__ == "__main__":
    guard(lambda: main(sys.argv[1:]))
