"""Write the generated tables of the documentation.

    make docs

README.md has the table of headline claims, and docs/evidence.md the counts of verdicts, both from
the committed results. The deviations in the papers' READMEs come from the papers' configurations.
"""

import pandas as pd

from common.config.files import ROOT, papers
from common.report import readme, verdicts
from common.results.files import write, write_csv
from common.results.tables import replaced
from common.sweeps.cost import on, total
from common.sweeps.profiles import load_profile

HOME, REFERENCE = ROOT / "papers", ROOT / "results" / "reference"


def pages() -> dict[str, str]:
    """Return {file below ROOT: its text with the generated tables}."""
    names = verdicts.papers(HOME, REFERENCE)
    found = [verdicts.paper(name, HOME, REFERENCE / name) for name in names]
    parts = {
        "README.md": (readme.MARKS, readme.table(found, REFERENCE)),
        "docs/evidence.md": (readme.VERDICT_MARKS, readme.verdicts(found)),
        "papers/study/README.md": (readme.STUDY_MARKS, readme.study(REFERENCE)),
    }
    return {
        name: replaced(name, (ROOT / name).read_text(), marks, part)
        for name, (marks, part) in parts.items()
    }


def gpu_hours() -> pd.DataFrame:
    """Return the predicted GPU-hours of each paper's scale `cluster` on one node of 8 H100."""
    from slurm import cost, plan
    from slurm.launch import tables_of
    from slurm.tables import chosen

    profile, rows = load_profile("h100-1x8"), []
    for paper in papers():
        which = dict.fromkeys(("table", "row", "scale", "without", "steps"), "")
        found = chosen(paper, tables_of(paper), **which, others=[])
        runs = [on(x, profile, {}) for x in found.runs]
        jobs = plan.plan(*found._replace(runs=runs))
        known = cost.outlook(jobs, profile).estimates.values()
        hours = total(one.gpu_hours for one in known)
        rows.append({"paper": paper, "low": hours.low, "high": hours.high})
    return pd.DataFrame(rows)


def main() -> None:
    from common.comparison import deviations

    write_csv(REFERENCE / "gpu_hours.csv", gpu_hours())
    for name, text in pages().items():
        write(ROOT / name, text)
    for paper in deviations.PAPERS:
        write(*deviations.readme(paper))


if __name__ == "__main__":
    main()
