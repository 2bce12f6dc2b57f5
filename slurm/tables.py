"""A paper's tables as rows (experiments) to run. papers/<paper>/launch.py names the tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import fill

from common.comparison.published import naming_runs, reruns_of
from common.config.words import some_of
from common.errors import require
from common.evaluation.config import Evaluate
from common.experiment import Experiment
from common.sweeps import chosen as choose
from common.sweeps import plan as sweeps
from common.sweeps.chosen import seeds_of
from common.sweeps.gates import Gated, gates
from common.sweeps.measures import Measure, measures
from common.sweeps.plan import Command, Reproduce, run_name
from slurm import plan
from slurm.plan import narrowed

PRINTED, ALL = "printed", "all"
CLUSTER = "cluster"  # the scale where neither a table nor `scale=` is given


@dataclass(frozen=True)
class Table:
    """A printed table or figure. The paper's configs/reproduce.yaml has its runs, seeds and
    benchmarks under `scales`."""

    about: str
    scales: tuple[str, ...] = (CLUSTER,)
    # PRINTED: the runs of those scales that the comparison uses for a printed row of the table;
    # ALL: every run; another name: the runs of the sweeps that have this name as `table`
    rows: str = PRINTED
    profile: str = "h100-1x8"  # a file of configs/slurm/ that fits


@dataclass(frozen=True)
class Wanted:
    """What a command line asks for, in the words of slurm/launch.py; empty: not said."""

    table: str = ""
    row: str = ""
    scale: str = ""
    without: str = ""
    seeds: str = ""
    n: str = ""
    steps: str = ""  # optim.steps: a trial


@dataclass(frozen=True)
class Chosen:
    runs: list[Experiment]
    evaluations: Sequence[Evaluate] = ()
    commands: Mapping[str, Command] = field(default_factory=dict)  # that make models of `runs`
    measures: Sequence[Measure] = ()
    gates: Sequence[Gated] = ()

    @property
    def root(self) -> Path:
        """Absolute: a job may start in another folder."""
        return Path(self.runs[0].results_dir)

    def jobs(self) -> list[plan.Job]:
        return plan.plan(self.runs, self.evaluations, self.commands, self.measures, self.gates)


def asked_for(paper: str, scale: str, others: Sequence[str]) -> Reproduce:
    asked = sweeps.scales_of(paper, f"scale={scale}", *others)
    return replace(asked, results_dir=str(Path(asked.results_dir).resolve()))


def chosen(
    paper: str, tables: Mapping[str, Table], wanted: Wanted, others: Sequence[str] = ()
) -> Chosen:
    """Return the runs and evaluations that are wanted, with what the evaluations wait for. Every
    row has the given `seeds`, even a base model: a comparison with it has a pair for each. `others`
    are overrides of reproduce.yaml. Raises UserError for an unknown table or row."""
    configs = _configs(paper, tables, wanted, others)
    runs: dict[str, Experiment] = {}
    for x in (x for config in configs for x in sweeps.experiments(config)):
        longest = runs.setdefault(x.run_id, x)
        if x.optim.steps > longest.optim.steps:
            runs[x.run_id] = x
    sampled = {e.path.name: e for config in configs for e in sweeps.evaluations(config)}
    picked = _picked(paper, tables, wanted, [*runs.values()])
    kept, evaluated = narrowed([*runs.values()], [*sampled.values()], picked)
    measured = {one.path.name: one for config in configs for one in measures(config)}
    starts = {one.gate.name: one for config in configs for one in gates(config)}
    loaded = {x.model.path for x in kept}
    return Chosen(
        kept,
        evaluated,
        {name: one for name, one in configs[0].commands.items() if one.makes in loaded},
        [one for one in measured.values() if one.row.trained in picked],
        [*starts.values()],
    )


def _configs(
    paper: str, tables: Mapping[str, Table], wanted: Wanted, others: Sequence[str]
) -> list[Reproduce]:
    named = some_of("table", wanted.table, tables)
    of_tables = dict.fromkeys(scale for name in named for scale in tables[name].scales)
    scales = [wanted.scale] if wanted.scale else [*of_tables] or _scales(paper, tables, wanted.row)
    seeds, n = seeds_of(wanted.seeds), _number("n", wanted.n)
    configs = [choose.changed(asked_for(paper, one, others), seeds=seeds, n=n) for one in scales]
    if wanted.without:
        names = [name for config in configs for name in config.names]
        left = some_of("without", wanted.without, names)
        configs = [choose.without(config, left) for config in configs]
    if wanted.steps:
        remedy = "is for trials of single rows: add row=NAME"
        require(bool(wanted.row), "optim.steps", wanted.steps, remedy)
        configs = [choose.tried(one, _number("optim.steps", wanted.steps)) for one in configs]
    return configs


def _scales(paper: str, tables: Mapping[str, Table], rows: str) -> list[str]:
    """Return the first scale of the paper's tables that has each of these rows, CLUSTER before all
    others; CLUSTER for a row that none has."""
    known = asked_for(paper, CLUSTER, ()).scales
    order = dict.fromkeys([CLUSTER, *(scale for one in tables.values() for scale in one.scales)])
    named = {
        scale: {run_name(sweep, row) for sweep in known[scale].sweeps for row in sweep.rows}
        for scale in order
        if scale in known
    }
    found = (next((one for one in named if row in named[one]), CLUSTER) for row in rows.split(","))
    return [*dict.fromkeys(found)]


def _picked(
    paper: str, tables: Mapping[str, Table], wanted: Wanted, runs: list[Experiment]
) -> set[str]:
    keep = [_of(paper, name, tables[name]) for name in some_of("table", wanted.table, tables)]
    mine = [x for x in runs if not keep or any(one(x.table, x.name) for one in keep)]
    said = f"has no row in the scale {wanted.scale or 'of the table'}"
    require(bool(mine), "table", wanted.table or "all", said)
    rows = some_of("row", wanted.row, [x.name for x in mine])
    return {x.run_id for x in mine if not rows or x.name in rows}


def _number(key: str, text: str) -> int:
    require(not text or (text.isdecimal() and int(text) > 0), key, text, "a whole number above 0")
    return int(text or 0)


def listing(paper: str, tables: Mapping[str, Table], table: str) -> Iterator[str]:
    config = asked_for(paper, CLUSTER, ())
    for name in some_of("table", table, tables) or tables:
        one, seeds = tables[name], dict[str, set[int]]()
        keep = _of(paper, name, one)
        for sweep in (sweep for scale in one.scales for sweep in config.scales[scale].sweeps):
            for row in (run_name(sweep, row) for row in sweep.rows):
                if keep(sweep.table, row):
                    seeds.setdefault(row, set()).update(sweep.seeds)
        yield f"table={name}  profile={one.profile}  scale={','.join(one.scales)}  {one.about}"
        for each in sorted({tuple(sorted(found)) for found in seeds.values()}):
            rows = ", ".join(row for row, found in seeds.items() if found == {*each})
            said = f"seed {', '.join(map(str, each))}: {rows}"
            yield fill(said, 100, initial_indent="    ", subsequent_indent="    ")


def _of(paper: str, name: str, table: Table) -> Callable[[str, str], bool]:
    """Return a function that tells whether a run (its table and name) is one of `table`'s."""
    if table.rows == ALL:
        return lambda of_table, run: True
    if table.rows != PRINTED:
        return lambda of_table, run: of_table == table.rows
    printed = naming_runs(paper)
    mine = reruns_of(paper, printed[printed["table"] == name])
    return lambda of_table, run: (of_table, run) in mine
