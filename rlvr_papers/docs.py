"""Write the generated tables of the documentation.

    make docs

README.md has the table of the papers' methods, docs/evidence.md the counts of verdicts, and
docs/cluster-week.md what reruns take, all from the committed results. The deviations in the papers'
READMEs come from the papers' configurations.
"""

from dataclasses import replace

import pandas as pd

from common.config.files import REFERENCE, ROOT, papers
from common.report import readme, verdicts
from common.results.files import write, write_csv
from common.results.tables import replaced
from common.sweeps.cost import total
from common.sweeps.profiles import load_profile, on

HOME = ROOT / "papers"
# tables that docs/cluster-week.md names in addition to the whole scale
PARTS = {"f_grpo": ["table1"], "over_sharpening": ["table2"], "fade": ["table4", "table5"]}


def pages() -> dict[str, str]:
    """Return {file below ROOT: its text with the generated tables}."""
    names = verdicts.papers(HOME, REFERENCE)
    found = [verdicts.paper(name, HOME, REFERENCE / name) for name in names]
    parts = {
        "README.md": ("answers", readme.table(REFERENCE)),
        "docs/cluster-week.md": ("week", readme.week(found, REFERENCE)),
        "docs/evidence.md": ("verdicts", readme.verdicts(found)),
        "papers/study/README.md": ("study", readme.study(REFERENCE)),
    }
    return {file: replaced(ROOT / file, *part) for file, part in parts.items()}


def gpu_hours() -> pd.DataFrame:
    """Return what reruns take and decide, with one seed and with three: each paper's scale
    `cluster`, and PARTS of it."""
    parts = [(paper, part) for paper in papers() for part in ("all", *PARTS.get(paper, []))]
    return pd.DataFrame([rerun(*part, seeds) for part in parts for seeds in (1, 3)])


def rerun(paper: str, part: str, seeds: int) -> dict:
    """Return a row of gpu_hours.csv. `part` is a table of the paper's launch.py, on that table's
    profile, or "all", the scale `cluster` on one node of 8 H100. `claims` is the number of those
    that hold in print by the cells that the rows rerun and that were simulated, and `decided` the
    mean share of simulated reruns that decide one of them (slurm/power.py)."""
    from slurm import cost
    from slurm.launch import tables_of
    from slurm.power import settled
    from slurm.tables import Table, Wanted, chosen

    tables = tables_of(paper) | {"all": Table("", rows="all")}
    profile = load_profile(tables[part].profile)
    found = chosen(paper, tables, Wanted(table=part, seeds=str(seeds)))
    jobs = replace(found, runs=[on(x, profile, {}) for x in found.runs]).jobs()
    hours = total(one.gpu_hours for one in cost.predictions(jobs, profile).values())
    trainings = sum(job.kind == "train" for job in jobs)
    power = settled(paper, found.runs)
    row = {"paper": paper, "part": part, "seeds": seeds, "gpus": profile.gpus}
    row |= {"trainings": trainings, "low": hours.low, "high": hours.high}
    row |= {"claims": power["claim"].nunique()}
    return row | {"decided": power.loc[power["seeds"] == seeds, "decided"].mean()}


def main() -> None:
    from common.comparison import deviations

    write_csv(REFERENCE / "gpu_hours.csv", gpu_hours())
    for name, text in pages().items():
        write(ROOT / name, text)
    for paper in deviations.PAPERS:
        write(*deviations.readme(paper))


if __name__ == "__main__":
    main()
