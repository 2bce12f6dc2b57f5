"""Write the generated tables of the documentation from the committed results.

    make docs

README.md: the papers' claims; docs/evidence.md: counts of verdicts; docs/cluster-week.md: what
reruns take; docs/speed.md: public runs; the papers' READMEs: deviations in their configurations.
"""

from dataclasses import replace

import pandas as pd

from common.comparison.calibrate import TRUE
from common.config.files import REFERENCE, ROOT, papers
from common.experiment import load
from common.report import readme, verdicts
from common.report.power import settled
from common.results.files import write, write_csv
from common.results.tables import replaced
from common.sweeps.assumptions import assumptions
from common.sweeps.cost import on, total, training_s
from common.sweeps.profiles import load_profile

HOME = ROOT / "papers"
# tables that docs/cluster-week.md names in addition to the whole scale
PARTS = {"f_grpo": ["table1"], "over_sharpening": ["table2"], "fade": ["table4", "table5"]}


def pages() -> dict[str, str]:
    """Return {file below ROOT: its text with the generated tables}."""
    names = verdicts.papers(HOME, REFERENCE)
    found = [verdicts.paper(name, HOME, REFERENCE / name) for name in names]
    parts = {
        "README.md": ("answers", readme.answers(found, REFERENCE)),
        "docs/cluster-week.md": ("week", readme.week(found, REFERENCE)),
        "docs/speed.md": ("public runs", readme.public(public_runs())),
        "docs/evidence.md": ("verdicts", readme.verdicts(found)),
        "papers/study/README.md": ("study", readme.study(REFERENCE)),
    }
    return {file: replaced(ROOT / file, *part) for file, part in parts.items()}


def public_runs() -> pd.DataFrame:
    """Return configs/public_runs.csv with `low` and `high`, the predicted seconds a step without
    evaluations; `tokens_low` and `tokens_high` are the mean response lengths assumed for it."""
    one = load(["experiment=cluster/qwen7b_grpo"], "f_grpo")
    stored, a = pd.read_csv(ROOT / "configs" / "public_runs.csv"), assumptions()
    for i, row in enumerate(stored.to_dict("records")):
        drawn = {name: row[name] for name in ("prompts", "group_size", "max_tokens")}
        method = replace(one.method, kl_coef=0.001 * row["reference"])
        x = replace(one, method=method, sampling=replace(one.sampling, **drawn))
        lengths = {str(x.model.path): {"default": (row["tokens_low"], row["tokens_high"])}}
        where = {"accelerator": row["accelerator"], "nodes": row["gpus"] // 8, "small": None}
        place = replace(load_profile("h100-1x8"), **where)
        for end, name in enumerate(("low", "high")):
            given = (replace(a, response_tokens=lengths), [a.models[row["model"]]])
            steps, _ = training_s(x, place, *given, row["gpus"], row["parallel"], end)
            stored.loc[i, name] = steps / x.optim.steps
    return stored


def gpu_hours() -> pd.DataFrame:
    """Return what reruns take and decide, with one seed and with three: each paper's scale
    `cluster`, and PARTS of it."""
    parts = [(paper, part) for paper in papers() for part in ("all", *PARTS.get(paper, []))]
    return pd.DataFrame([rerun(*part, seeds) for part in parts for seeds in (1, 3)])


def rerun(paper: str, part: str, seeds: int) -> dict:
    """Return a row of gpu_hours.csv. `part` is a table of the paper's launch.py, on that table's
    profile, or "all", the scale `cluster` on one node of 8 H100. `claims` counts those that hold in
    print by the cells that the rows rerun and that were simulated, `recognised` is the mean share
    of faithful reruns in which a claim of these holds (common/report/power.py)."""
    from slurm import cost
    from slurm.launch import tables_of
    from slurm.tables import Table, Wanted, chosen

    tables = tables_of(paper) | {"all": Table("", rows="all")}
    profile = load_profile(tables[part].profile)
    found = chosen(paper, tables, Wanted(table=part, seeds=str(seeds)))
    jobs = replace(found, runs=[on(x, profile, {}) for x in found.runs]).jobs()
    hours = total(job.cost.gpu_hours for job in cost.predictions(jobs, profile) if job.cost)
    trainings = sum(job.kind == "train" for job in jobs)
    power = settled(paper, found.runs)
    power = power[(power["seeds"] == seeds) & (power["world"] == TRUE)]
    row = {"paper": paper, "part": part, "seeds": seeds, "gpus": profile.gpus}
    row |= {"trainings": trainings} | {k: float(f"{v:.2g}") for k, v in vars(hours).items()}
    return row | {"claims": len(power), "recognised": power["holds"].mean()}


def main() -> None:
    from common.comparison import deviations

    write_csv(REFERENCE / "gpu_hours.csv", gpu_hours())
    for name, text in pages().items():
        write(ROOT / name, text)
    for paper in deviations.PAPERS:
        write(*deviations.readme(paper))


if __name__ == "__main__":
    main()
