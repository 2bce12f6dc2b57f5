"""Compare two methods, or two sets of runs, by paired differences with their intervals.

    rlvr diff A B [metrics=pass@1,pass@64]
    rlvr diff A B paper=NAME [table=TABLE] [scope=laptop|cluster] [results_dir=results]
    rlvr diff A [...]                                the mean of A alone, over its seeds

A and B are quoted globs of finished run folders, one run per seed, or with paper=NAME two methods
of the paper's results, named as in `rlvr compare`:

    rlvr diff 'results/own/grpo-*' 'results/own/mine-*'
    rlvr diff 'F-GRPO (gamma=0.5)' GRPO paper=f_grpo results_dir=results/reference

The line above the table says what else differs between A and B. Each line is a benchmark and a
metric that both have: by default pass@k for the smallest k (pass@1) and for the largest k. Runs are
read at their last step. The interval is over seeds and problems, both taken as random; runs with
equal seeds are paired, and "1, 2" seeds are one of A and two of B. p is corrected for the number of
lines in the table (Holm). An interval needs three seeds. For A alone, the table has the mean of
every metric, or of `metrics`.

For two evaluations (`rlvr evaluate`, `rlvr rescore`) it also says what lies behind a difference:
the problems, the samples and their settings, the extraction of answers, truncation, the verifier.
"""

import glob
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from common.claims.gaps import GAPS, combine, on_shared_seeds, row
from common.claims.select import PER_PROBLEM, indexed, select, tidy
from common.comparison.frontier import GRPO
from common.comparison.gather import LAPTOP, RERUNS, gather, gathered, joined, of_study
from common.comparison.lines import BASE_SEED, differing, settings
from common.config.files import STUDY, known_paper
from common.config.words import options
from common.errors import UserError, one_of, require
from common.evaluation.store import stored
from common.metrics.bootstrap import holm
from common.metrics.passk import estimator
from common.results.collect import collect, config_of, counts_of, verify
from common.results.files import read_csv
from common.results.tables import markdown

WORDS = {"metrics": "", "paper": "", "table": "", "scope": "laptop", "results_dir": "results"}
ALONE = ["benchmark", "metric", "mean [95 %]", "seeds", "problems"]
HEAD = ["benchmark", "metric", "A", "B", "A - B [95 %]", "p (Holm)", "seeds", "problems"]


def main(words: list[str]) -> None:
    sides = words[: 1 + (len(words) > 1 and not _option(words[1]))]
    remedy = "give one or two methods or globs of run folders"
    require(bool(sides) and not _option(sides[0]), "diff", " ".join(words), remedy)
    given = options(words[len(sides) :], WORDS)
    runs = [] if given["paper"] else [_runs(side) for side in sides]
    found = [_of_runs(side) for side in runs] or _of_paper(sides, given)
    metrics = [name for name in given["metrics"].split(",") if name]
    table = compared(found, metrics)
    print("\n".join(f"{name}: {side}" for name, side in zip("AB", sides, strict=False)))
    if len(sides) == 1:
        lines = [_line(one, ".4g") for one in table.to_dict("records")]
        print("shares in percent; the mean over seeds after the last step\n")
        print(markdown(ALONE, lines, "llrrr"), end="")
        return
    homes = [Path(given["results_dir"]) / name for name in (given["paper"], STUDY)]
    folders = runs or [
        [home / run for run in side[0]["run_id"].unique() for home in homes] for side in found
    ]
    lines = [_line(one, ".2f", "+") for one in table.to_dict("records")]
    print("values in percent, differences in points")
    others = [f"{key} ({values})" for key, values in apart(folders[0], folders[1]).items()]
    print(f"A and B differ also in {', '.join(others)}\n" if others else "")
    print(markdown(HEAD, lines, "llrrrrrr"), end="")
    scored = [len(x) == 1 and "verifier" in config_of(x[0]).get("eval", {}) for x in runs]
    if runs and all(scored):  # two evaluations
        print()
        for part, said in reasons(runs[0][0], runs[1][0]).items():
            print(f"{part:11} {said}")


def _option(word: str) -> bool:
    """Return whether a word sets an option; the name of a method may have an = too."""
    return word.partition("=")[0] in WORDS


def apart(a: list[Path], b: list[Path]) -> dict[str, str]:
    """Return the settings, besides the method, that differ between two sets of training runs."""
    runs = ([run for run in side if "optim" in config_of(run)] for side in (a, b))
    sides = [{config_of(run).get("seed"): settings(run) for run in side} for side in runs]
    shared, found = [seed for seed in sides[0] if seed in sides[1]], {}
    for key in differing([*sides[0].values(), *sides[1].values()]) if all(sides) else ():
        both = [shared if key == BASE_SEED else one for one in sides]
        said = [{str(sides[i][seed].get(key)): None for seed in both[i]} for i in (0, 1)]
        if said[0] != said[1] and not key.startswith("method."):
            found[key] = ", ".join(" and ".join(values) for values in said)
    return found


Side = tuple[pd.DataFrame, pd.DataFrame]  # rows of one method, one run per seed; their counts


def compared(sides: Sequence[Side], metrics: list[str]) -> pd.DataFrame:
    """Return claims.GAPS of A - B, or of A alone, with the mean of each side (`means`) and `seeds`,
    for each benchmark and metric of `_wanted`. Raises UserError if a side has a seed twice."""
    wanted = _wanted([rows for rows, _ in sides], metrics)
    tables = [(tidy(rows), indexed(counts)) for rows, counts in sides]
    lines = []
    for benchmark, metric in wanted:
        selector = {"benchmark": benchmark, "metric": metric}
        named = zip("AB", tables, strict=False)
        found = on_shared_seeds([select(name, selector, *table) for name, table in named])
        gap = combine(list(zip((1.0, -1.0), found, strict=False)))
        line = row(gap, 0.0) | {"means": [side.values.mean() for side in found]}
        if len(sides) == 1 and estimator(metric):  # a share: no end below 0 or above 100 %
            line["low"], line["high"] = gap.interval.of_difference(0.0)
        sizes = [str(len(side.seeds or ())) for side in found]
        paired = found[0].seeds == found[-1].seeds
        lines.append(line | {"seeds": sizes[0] if paired else ", ".join(sizes)})
    table = pd.DataFrame(lines, columns=[*GAPS, "means", "seeds"])
    return table.assign(p_holm=holm(table["p"].astype(float).to_list()))


def _wanted(sides: list[pd.DataFrame], metrics: list[str]) -> list[tuple[str, str]]:
    """Return the benchmarks and metrics that all sides have: all of A alone, of A and B pass@k for
    the smallest and the largest k, or those of `metrics`. Raises UserError if there are none."""
    pairs = [dict.fromkeys(zip(x["benchmark"], x["metric"], strict=True)) for x in sides]
    shared = [pair for pair in pairs[0] if all(pair in of for of in pairs)]
    for name in metrics:
        one_of("metrics", name, dict.fromkeys(metric for _, metric in shared))
    if metrics or len(sides) == 1:
        return [pair for pair in shared if not metrics or pair[1] in metrics]
    wanted = []
    for benchmark in dict.fromkeys(benchmark for benchmark, _ in shared):
        ks = [m for name, m in shared if name == benchmark and m.startswith("pass@")]
        ks = sorted((m for m in ks if m[5:].isdecimal()), key=lambda m: int(m[5:]))
        wanted += [(benchmark, metric) for metric in dict.fromkeys(ks[:1] + ks[-1:])]
    require(bool(wanted), "diff", "A B", "have no pass@k of one benchmark in common")
    return wanted


def reasons(a: Path, b: Path) -> dict[str, str]:
    """Return, as text, what may explain a difference of two evaluations, step by step."""
    sides, configs = [stored(run) for run in (a, b)], [config_of(run) for run in (a, b)]
    problems = [set(side["problem_id"]) for side in sides]
    both = problems[0] & problems[1]
    right = [side["outcome"].eq("correct")[side["problem_id"].isin(both)] for side in sides]
    shared = [
        100 * x.groupby(side["problem_id"]).mean().mean()
        for x, side in zip(right, sides, strict=True)
    ]
    said = {"problems": f"{len(problems[0])} and {len(problems[1])}; {len(both)} are in both"}
    if both:
        said["problems"] += f", where A scores {shared[0]:.1f} % and B {shared[1]:.1f} %"
    names = {config.get("rescored", run.name) for run, config in zip((a, b), configs, strict=True)}
    drawn = "the same"
    if len(names) == 2:
        settings = [{**x.get("sampling", {}), **x["eval"]["prompts"]} for x in configs]
        drawn = "others" + _changed(*settings)
    sizes = [len(side) / len(of) for side, of in zip(sides, problems, strict=True)]
    said["samples"] = f"{sizes[0]:g} and {sizes[1]:g} a problem, {drawn}"
    shares = {
        "extraction": ("without an answer", [x["outcome"] == "unparsed" for x in sides]),
        "truncation": ("cut off", [~x["stopped"].astype(bool) for x in sides]),
    }
    for part, (what, flags) in shares.items():
        first, second = (100 * one.mean() for one in flags)
        said[part] = f"{first:.1f} % and {second:.1f} % {what}"
    verifiers = [config["eval"]["verifier"] for config in configs]
    same = verifiers[0] == verifiers[1]
    said["verifier"] = "the same" if same else "another" + _changed(*verifiers)
    if len(names) == 1:
        again = sides[0].merge(sides[1], on=["problem_id", "sample"], suffixes=("", "_b"))
        moved = again[again["outcome"] != again["outcome_b"]]
        answers = (moved["parsed"].fillna("") != moved["parsed_b"].fillna("")).sum()
        said["verifier"] += f"; {len(moved)} of {len(again)} verdicts differ"
        said["verifier"] += f", {answers} of them with another answer extracted"
    return said


def _changed(a: dict, b: dict) -> str:
    words = [f"{key} {a.get(key)} and {b.get(key)}" for key in a | b if a.get(key) != b.get(key)]
    return f": {', '.join(words)}" if words else ""


def _runs(pattern: str) -> list[Path]:
    """Return the runs of a glob. Raises UserError if one is damaged or unfinished."""
    named = glob.glob(pattern) or glob.glob(pattern.replace("[", "[[]"))  # brackets in names
    runs = [Path(name) for name in sorted(named) if Path(name, "metrics.csv").exists()]
    remedy = "matches no folder of a run; quote the glob, or give paper=NAME with a method"
    require(bool(runs), "diff", pattern, remedy)
    for run in runs:
        for problem in verify(run):
            raise UserError(problem)
    return runs


def _of_runs(runs: list[Path]) -> Side:
    found, _ = collect(runs)
    same = {"table": "", "model": "", "method": ""}
    rows, counts = [], []
    for run, part in found.items():
        drawn, _ = counts_of(run)
        if drawn.empty:  # an evaluation run
            whole = read_csv(run / "counts.csv", ["benchmark", "problem_id", "n", "c"])
            drawn = whole.assign(step=part["step"].iloc[0])
        rows.append(part.assign(**same))
        drawn = drawn.assign(**same, seed=part["seed"].iloc[0])
        counts.append(drawn.reindex(columns=PER_PROBLEM))
    return pd.concat(rows, ignore_index=True), pd.concat(counts, ignore_index=True)


def _of_paper(methods: list[str], given: dict[str, str]) -> list[Side]:
    paper, root = known_paper(given["paper"]), Path(given["results_dir"])
    one_of("scope", given["scope"], RERUNS)
    whole, _ = gathered(root, paper, given["scope"], gather(root, paper))
    if given["scope"] == LAPTOP:
        whole = joined(whole, of_study(root, {*methods, GRPO})[0])  # a wrong name meets a known one
    require(
        len(whole.rows) > 0, "results_dir", str(root), f"has no {given['scope']} runs of {paper}"
    )
    tables = {name: set(part["method"]) for name, part in whole.rows.groupby("table")}
    there = sorted(set().union(*tables.values()))
    for method in methods:
        one_of("diff", method, there)
    fit = [name for name, known in tables.items() if {*methods} <= known]
    table = given["table"] or (fit[0] if len(fit) == 1 else "")
    remedy = f"give one that has {' and '.join(methods)}: {', '.join(fit) or 'none'}"
    require(table in fit, "table", table, remedy)
    whole_table = [x[x["table"] == table] for x in (whole.rows, whole.counts)]
    return [tuple(x[x["method"] == method] for x in whole_table) for method in methods]


def _line(one: dict, form: str, sign: str = "") -> list[str]:
    """Return the cells of ALONE, or where `one` is of two sides those of HEAD."""
    known, numbers = not pd.isna(one["low"]), f"{one['difference']:{sign}z{form}}"
    if known:
        numbers += f" [{one['low']:z{form}}, {one['high']:z{form}}]"
    more = [numbers]
    if len(one["means"]) == 2:
        p = f"{one['p_holm']:.2g}" if known else ""
        more = [*(f"{mean:.1f}" for mean in one["means"]), numbers, p]
    problems = "" if pd.isna(one["n_problems"]) else f"{one['n_problems']:.0f}"
    return [one["benchmark"], one["metric"], *more, one["seeds"], problems]
