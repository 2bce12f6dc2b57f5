"""The generated parts of README.md, docs/*.md and papers/study/README.md (`make docs`), from the
committed results."""

from __future__ import annotations

import textwrap
from collections import Counter
from inspect import signature
from pathlib import Path

import pandas as pd

from common.claims.file import LAPTOP, PUBLISHED
from common.claims.kinds import KINDS
from common.claims.text import difference
from common.comparison.frontier import ACCURACY, ANSWERS, BASE, DIVERSITY, FEW, GRPO, LOWER, RATE
from common.comparison.text import effect, table_title
from common.config.files import STUDY
from common.config.rows import rows as rows_of
from common.experiment import load
from common.report.verdicts import Paper
from common.results.tables import markdown
from common.sweeps.cost import Range

METHODS = {  # paper -> its method in the study
    "f_grpo": "F-GRPO (gamma=0.5)",
    "fade": "FADE",
    "over_sharpening": "IAC",
    "cov_grpo": "CW-GRPO (by group)",
    "two_stage": "GRPO-N",
}
HEAD = ["method", "claim", "printed", "here [95 %]", "verdict"]
CLAIMS = 2  # of each paper in README.md
# parameters of an advantage beside rewards, as the column "needs" names them
NEEDS = {"lengths": "lengths", "outcomes": "outcomes", "log_probs": "log-probs"}
GPUS, WEEK_HOURS = 16, 7 * 24  # of docs/cluster-week.md
WEEK_HEAD = [
    *["paper", "part", "GPU-hours, one seed", "weeks", "trainings in a week"],
    *["GPU-hours, three seeds", "weeks", "trainings in a week"],
    *["claims", "recognised by one seed", "by three"],
]
METHODS_HEAD = ["pass@1", "rare pass@64", "rare pass@64 at equal pass@1"]
METHODS_HEAD += ["the same, from GRPO at 3e-6", "pass@8", "answers"]
METHODS_HEAD += ["it keeps, against GRPO / GRPO at 3e-6", "needs"]
LAST, EQUAL = "after the last step", "at equal pass@1"  # readings of methods.csv
PLACE = ["reading", "metric", "against"]  # names a row of a method at a rate
NONE = pd.DataFrame(columns=["rate", "method", "n_seeds", *PLACE])
RUNGS = [  # PLACE of each column of the size ladder
    *((LAST, metric, BASE) for _, metric in (ACCURACY, DIVERSITY)),
    *((LAST, metric, f"{GRPO} {RATE}") for _, metric in (ACCURACY, DIVERSITY)),
    (EQUAL, DIVERSITY[1], f"{GRPO} {RATE}"),
]
LADDER = [(rate, GRPO) for rate in ("lr 3e-5", RATE, LOWER)]
LADDER += [(RATE, f"F-GRPO (gamma={gamma})") for gamma in ("0.5", "1")]
LADDER += [(RATE, "IAC"), (RATE, "Power (alpha=2)")]
LADDER_HEAD = ["parameters", "row", "seeds", "pass@1, above the base"]
LADDER_HEAD += ["rare pass@64, above the base"]
LADDER_HEAD += ["pass@1, beyond GRPO", "rare pass@64, beyond GRPO", "the same at equal pass@1"]
TESTBEDS = {"confirmatory": "Countdown, declared", "confirmatory_maze": "mazes, declared"}
TESTBEDS |= {"study": "Countdown, exploratory", "study_maze": "mazes, exploratory"}
CONTROLLED = ("passes", "open", "fails", "identical", "not run")
WORDS = ("more", "practically equal", "identical", "unclear", "less", "not measured")
OPEN = "open after correction"
EQUIVALENT = 2.0  # points; both ends of an interval that says "practically equal" lie within
SHOWN = ("holds", "fails", "inconclusive", "mechanism not engaged", "not run")


def answers(papers: list[Paper], reference: Path) -> str:
    """Return README's table: the first CLAIMS headline claims of each paper that it prints a number
    for and that a small model's training decides. Below it: which methods keep more diversity at
    equal pass@1 than GRPO one rate lower."""
    found = {one.name: one for one in papers}
    lines, keeps, seeds = [], {word: [] for word in (*WORDS, OPEN)}, set()
    judged = reference / "confirmatory" / "hypotheses.csv"
    declared = pd.read_csv(judged).set_index("claim")[LAPTOP] if judged.exists() else {}
    for name, method in METHODS.items():
        gaps = pd.read_csv(reference / name / "gaps.csv")
        names = gaps.groupby(["claim", "scope"])["metric"].first().str.partition(" from +")[0]
        scopes = gaps.groupby("claim")["scope"].agg(set).to_dict()
        link = f"[{method}](papers/{name}/README.md)"
        both = [c for c in found[name].headlines if {PUBLISHED, LAPTOP} <= scopes.get(c.id, set())]
        for claim in both[:CLAIMS]:
            word = claim.findings[LAPTOP].word
            printed, here = (
                f"{names[claim.id, scope]} {effect(gaps, claim.id, scope)}"
                for scope in (PUBLISHED, LAPTOP)
            )
            lines.append([link, claim.headline, printed, here, f"**{word}**"])
            link = ""
        known = (_rows(_stored(reference / folder), method) for folder in ("confirmatory", "study"))
        mine = next(filter(len, known))
        word = _in_words(mine).split(" / ")[-1]
        verdict = declared.get(f"{method} keeps more than GRPO one rate lower")
        keeps[OPEN if (word, verdict) == ("more", "inconclusive") else word].append(method)
        seeds.add(int(mine.loc[(EQUAL, DIVERSITY[1], f"{GRPO} {LOWER}"), "n_seeds"]))
    said = "; ".join(f"{word}: {', '.join(names)}" for word, names in keeps.items() if names)
    span = " to ".join(map(str, dict.fromkeys((min(seeds - {0}), max(seeds)))))
    lower = "Rare pass@64 kept at equal pass@1, against GRPO at a third of the learning rate"
    below = textwrap.fill(f"{lower} ({span} seeds) - {said}.", 120, break_on_hyphens=False)
    return f"{markdown(HEAD, lines, 'lllll')}\n{below}\n"


def week(papers: list[Paper], reference: Path) -> str:
    """Return the table of docs/cluster-week.md from gpu_hours.csv (rlvr_papers/docs.py): what
    reruns take and recognise, with one seed and with three, and how many of their trainings end in
    a week, each on its profile's GPUs and as long as the mean."""
    titles, lines = {one.name: one.about.paper for one in papers}, []
    stored = pd.read_csv(reference / "gpu_hours.csv")
    for (paper, part), rows in stored.groupby(["paper", "part"], sort=False):
        line = [titles[paper], "all" if part == "all" else table_title(part)]
        for row in rows.to_dict("records"):
            hours, count = Range(row["low"], row["high"]), row["trainings"]
            places, each = GPUS // row["gpus"], count * WEEK_HOURS * row["gpus"]
            ends = (min(count, places * int(each / end)) for end in (hours.high, hours.low))
            weeks = hours * (1 / (GPUS * WEEK_HOURS))
            weeks = Range(*(float(f"{end:.2g}") for end in (weeks.low, weeks.high)))
            line += [str(hours), str(weeks), f"{Range(*ends)} of {count}"]
        known = ["not known" if pd.isna(x) else f"{100 * x:.0f} %" for x in rows["recognised"]]
        lines.append([*line, str(rows["claims"].iloc[0]), *known])
    return markdown(WEEK_HEAD, lines, "llrrrrrrrrr")


def _stored(folder: Path) -> pd.DataFrame:
    """Return the rows of methods.csv that tables show: of a metric after the last step one set of
    prompts, and at equal pass@1 the rare ones alone."""
    path = folder / "methods.csv"
    if not path.exists():
        return NONE
    rows = pd.read_csv(path)
    rare = (rows["benchmark"] == DIVERSITY[0]) & (rows["metric"] == DIVERSITY[1])
    natural = (rows["benchmark"] == ACCURACY[0]) & (rows["metric"] != DIVERSITY[1])
    last = rows["reading"] == LAST
    return rows[(rare & (last | (rows["reading"] == EQUAL))) | (natural & last)]


def public(runs: pd.DataFrame) -> str:
    """Return the table of docs/speed.md from public_runs.csv with the prediction."""
    lines = []
    for row in runs.to_dict("records"):
        reported = dict.fromkeys(str(row[f"reported_{end}"]) for end in ("low", "high"))
        predicted, ratio = Range(row["low"], row["high"]), row["reported_low"] / row["high"]
        line = [row["run"], f"{row['gpus']} {row['accelerator'].upper()}", " to ".join(reported)]
        lines.append([*line, str(predicted), f"{ratio:.2g}", row["use"], row["source"]])
    head = ["run", "GPUs", "reported, s a step", "predicted", "reported / high end"]
    head += ["use", "source"]
    return markdown(head, lines, "llrrrll")


def _rows(study: pd.DataFrame, method: str) -> pd.DataFrame:
    return study[study["method"] == method].set_index(PLACE, drop=False)


def _cells(mine: pd.DataFrame, places: list[tuple[str, str, str]]) -> list[str]:
    return [difference(mine.loc[place]) if place in mine.index else "not run" for place in places]


def _beyond(mine: pd.DataFrame, *more: tuple[str, str]) -> list[str]:
    """Return what a method has beyond GRPO at its rate: pass@1 and rare pass@64 after the last
    step; rare pass@64 at equal pass@1, also against one rate lower; `more` measures after the last
    step."""
    last = [(LAST, metric, f"{GRPO} {RATE}") for _, metric in (ACCURACY, DIVERSITY, *more)]
    equal = [(EQUAL, DIVERSITY[1], f"{GRPO} {rate}") for rate in (RATE, LOWER)]
    return _cells(mine, [*last[:2], *equal, *last[2:]])


def study(reference: Path) -> str:
    """Return the tables of papers/study/README.md: the hypotheses of the confirmatory study once
    they are judged, every method on each testbed, how many controls pass, and the size ladder."""
    passed = []
    testbeds = {x: y for x, y in TESTBEDS.items() if (reference / x / "methods.csv").exists()}
    for folder, name in testbeds.items():
        judged = pd.read_csv(reference / folder / "controls.csv")
        for rate, one in judged.groupby("rate", sort=False):
            count = one["verdict"].value_counts()
            passed.append([name, rate, *(str(count.get(word, 0)) for word in CONTROLLED)])
    made = hypotheses(reference / "confirmatory" / "hypotheses.csv")
    made += [every_method(name, reference / folder) for folder, name in testbeds.items()]
    made += [markdown(["testbed", "rate", *CONTROLLED], passed, "llrrrrr"), ladder(reference)]
    return "\n".join(made)


def hypotheses(judged: Path) -> list[str]:
    """Return the table of the declared hypotheses; none before they are judged."""
    if not judged.exists():
        return []
    rows = pd.read_csv(judged, keep_default_na=False)[["claim", "laptop", "laptop_numbers"]]
    lines = [
        [claim, f"**{word}**", "" if word == "not run" else numbers]
        for claim, word, numbers in rows.to_numpy()
    ]
    return [markdown(["declared hypothesis", "verdict", "numbers"], lines, "lll")]


def every_method(testbed: str, folder: Path) -> str:
    """Return the table of all methods of a testbed, with links to the papers."""
    papers = {method: f"[{method}](../{paper}/README.md)" for paper, method in METHODS.items()}
    lines = [[papers.get(name, name), *cells] for name, *cells in method_lines(folder)]
    return markdown([f"method, on {testbed}", *METHODS_HEAD], lines, "lrrrrrrll")


def method_lines(folder: Path, own: pd.DataFrame = NONE) -> list[list[str]]:
    """Return (name, METHODS_HEAD) of each method of a testbed at the study's rate: what it has
    beyond GRPO, and what its advantage reads. Those that keep most of rare pass@64 at equal pass@1
    come first. `own` are rows of methods that are not stored."""
    stored, yours = _stored(folder), set(own["method"])
    stored = stored[(stored["rate"] == RATE) & ~stored["method"].isin(yours)]
    stored = pd.concat([stored, own], ignore_index=True) if yours else stored
    equal = (stored["reading"] == EQUAL) & (stored["against"] == f"{GRPO} {RATE}")
    order = stored[equal].sort_values(["difference", "method"], ascending=[False, True])["method"]
    lines = []
    for method in order:
        mine = _rows(stored, method)
        about = [_in_words(mine), "yours" if method in yours else needs(method)]
        lines.append([method, *_beyond(mine, FEW, ANSWERS), *about])
    return lines


def own_methods(root: Path, reference: Path) -> tuple[list[tuple[str, list]], list[str]]:
    """Return (runs, their `method_lines`) on Countdown, first of the declared runs and then of the
    exploratory ones with the runs below `root` (the scale `own`); and a sentence on each of
    these."""
    found, said = _stored(root / "confirmatory"), []
    declared = {row["label"] for row in rows_of(STUDY).values()}
    own = found[(found["rate"] == RATE) & ~found["method"].isin(declared)]
    for method, mine in own.groupby("method", sort=False):
        equal, lower = _in_words(_rows(mine, method)).partition(" / ")[::2]
        said.append(
            f"{method} keeps of rare pass@64 at equal pass@1 (seeds: {mine['n_seeds'].max()}): "
            f"against GRPO {equal}, against GRPO one rate lower {lower or equal}. Yours has 240 "
            "problems a set and 1,200 steps; the other exploratory rows have seeds 1 to 9, 60 "
            "problems a set and as many steps."
        )
    tables = []
    for folder, rows in (("confirmatory", NONE), ("study", own)):
        if (reference / folder / "methods.csv").exists():
            tables.append((TESTBEDS[folder], method_lines(reference / folder, rows)))
    return tables, said


def needs(label: str) -> str:
    """Return what the advantage of the study's first row with this label reads: rewards, and those
    of NEEDS that are parameters of its function."""
    row = next(name for name, one in rows_of(STUDY).items() if one["label"] == label)
    given = signature(load([f"experiment={row}"], STUDY).bound.advantage).parameters
    return ", ".join(["rewards", *(said for name, said in NEEDS.items() if name in given)])


def ladder(reference: Path) -> str:
    """Return the table of the size ladder (docs/gpu.md): its rows on the laptop's model and, for
    each GPU that ran some, on the larger model."""
    sizes = {"0.4 M": reference / "study"}
    found = sorted(reference.glob("gpu/*/study_ladder")) or [reference / "gpu" / "none" / "ladder"]
    sizes |= {f"10.6 M, {folder.parent.name}".removesuffix(", none"): folder for folder in found}
    lines = []
    for size, folder in sizes.items():
        stored = _stored(folder)
        for rate, method in LADDER:
            name = f"{method}, {rate.removeprefix('lr ')}" if method == GRPO else method
            mine = _rows(stored[stored["rate"] == rate], method)
            cells = _cells(mine, RUNGS)
            if (rate, method) == (RATE, GRPO):  # it is what the others are compared with
                cells[2:] = ["-"] * 3
            lines.append([size, name, str(mine["n_seeds"].max() if len(mine) else 0), *cells])
    return markdown(LADDER_HEAD, lines, "llrrrrrr")


def _in_words(mine: pd.DataFrame) -> str:
    """Say whether a method keeps more at equal pass@1 than GRPO at its rate / one rate lower, in
    the words of papers/study/PROTOCOL.md, reading 4."""
    said = []
    for rate in (RATE, LOWER):
        place = (EQUAL, DIVERSITY[1], f"{GRPO} {rate}")
        row = mine.loc[place] if place in mine.index else None
        if row is None or (pd.isna(row["low"]) and row["difference"] != 0):
            return "not measured"
        apart = "more" if row["low"] > 0 else "less" if row["high"] < 0 else "unclear"
        if apart == "unclear" and max(-row["low"], row["high"]) < EQUIVALENT:
            apart = "practically equal"
        said.append("identical" if pd.isna(row["low"]) else apart)
    return " / ".join(said)


def verdicts(papers: list[Paper]) -> str:
    """Return the table of docs/evidence.md: counts of laptop verdicts by what they rest on, with
    our own readings apart from the papers' claims."""
    lines = []
    for kind in KINDS:
        for ours in (False, True):
            claims = [c for one in papers for c in one.claims if (c.kind, c.ours) == (kind, ours)]
            count = Counter(claim.findings[LAPTOP].word for claim in claims)
            whose = "our readings" if ours else "the papers' claims"
            lines.append([kind, whose, *(str(count[word]) for word in SHOWN), str(len(claims))])
    return markdown(["decided on", "", *SHOWN, "all"], lines, "llrrrrrr")
