"""Send a paper's rows (named experiments) to a cluster: `rlvr submit paper=NAME`

    (no other word)                              list the tables, rows and seeds
    table=table2 prefetch=true             download the models and sets that are missing here
    table=table2 profile=h100-1x8 dry_run=true   jobs, options of sbatch, GPU-hours; no SLURM
    table=table2 profile=h100-1x8          submit what is not done or queued; rerun for the rest

table=NAME,NAME selects the rows of these printed tables, and row=NAME,NAME these rows, with the
jobs that their evaluations wait for. without=NAME,NAME leaves rows out, such as rows that do not
fit. scale=NAME selects a scale of the paper's configs/reproduce.yaml; the default is the table's
scale, or `cluster`. seeds=1,2,3 runs these seeds of every row, seeds=5 the seeds 1 to 5, and
seeds=6-10 the seeds 6 to 10; n=64 draws 64 samples per problem in every evaluation. profile names a
file of configs/slurm/. optim.steps=3 tries row=NAME with three steps and one sample per problem;
its results are in results/trial. yes=true submits more than 1,000 predicted GPU-hours.
results_dir=FOLDER is the folder of all results (default: results); disk_gb=2000 says what a quota
leaves there.
verl.KEY=VALUE sets one of verl's own keys for all trainings; it may change only memory and speed.
Other key=value pairs go to reproduce.yaml.
"""

from dataclasses import replace

from common.config.compose import value
from common.config.files import ROOT, known_paper
from common.config.resolve import import_target
from common.config.words import pairs, split
from common.errors import require
from common.platforms import need_linux
from common.report.power import power
from common.sweeps.cost import on
from common.sweeps.profiles import load_profile
from slurm import dry_run, preflight
from slurm.prefetch import prefetch
from slurm.tables import Table, Wanted, chosen, listing

ASKED = ("prefetch", "dry_run", "yes")
WHICH = ("table", "row", "scale", "without", "seeds", "n")  # as in Wanted
OPTIONS = dict.fromkeys(("paper", *WHICH, "profile", "disk_gb", "optim.steps"), "")
OPTIONS |= dict.fromkeys(ASKED, "false")
ANSWERS = {"true": True, "1": True, "false": False, "0": False}


def main(words: list[str]) -> None:
    options, others = split(words, OPTIONS)
    paper = known_paper(options["paper"])
    tables = tables_of(paper)
    for key in ASKED:
        require(options[key].lower() in ANSWERS, key, options[key], "use true or false")
    prefetched, dry, yes = (ANSWERS[options[key].lower()] for key in ASKED)
    tuning = [word.removeprefix("verl.") for word in others if word.startswith("verl.")]
    others = [word for word in others if not word.startswith("verl.")]
    wanted = Wanted(**{key: options[key] for key in WHICH}, steps=options["optim.steps"])
    if prefetched:
        prefetch(chosen(paper, tables, wanted, others))
    elif not options["profile"]:
        print("\n".join(listing(paper, tables, wanted.table)))
        print(f"rlvr submit paper={paper} profile=NAME submits them; see --help")
    else:
        profile = load_profile(options["profile"])
        if not dry:
            need_linux("profile", profile.name, "dry_run=true shows the jobs here")
        found = chosen(paper, tables, wanted, others)
        keys = {key: value(key, text) for key, text in pairs(tuning).items()}
        found = replace(found, runs=[on(x, profile, keys) for x in found.runs])
        profile = preflight.offline(found, profile)
        where: dict = {"paper": paper, "profile": profile, "root": found.root}
        table = "" if wanted.row else wanted.table
        where["disk_gb"] = float(value("disk_gb", options["disk_gb"] or ".inf"))
        for line in [] if wanted.steps else power(paper, found.runs, table):
            print(line)
        if not dry:
            from slurm import submit  # a dry run needs nothing of what a job runs

            submit.submit(found, **where, yes=yes)
            return
        dry_run.show(found.jobs(), **where)


def tables_of(paper: str) -> dict[str, Table]:
    if not (ROOT / "papers" / paper / "launch.py").exists():
        return {}
    return import_target(f"papers.{paper}.launch.TABLES", paper)
