"""A paper's tables as rows (experiments) to run. papers/<paper>/launch.py names the tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

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
from slurm.plan import narrowed

PRINTED, ALL = "printed", "all"
CLUSTER = "cluster"  # the scale where neither a table nor `scale=` is given


@dataclass(frozen=True)
class Table:
    """A printed table or figure. Its runs, seeds and benchmarks are stated in the paper's
    configs/reproduce.yaml, under `scales`."""

    about: str
    scales: tuple[str, ...] = (CLUSTER,)
    # PRINTED: the runs of those scales that the comparison uses for a printed row of the table;
    # ALL: every run; another name: the runs of the sweeps that have this name as `table`
    rows: str = PRINTED
    profile: str = "h100-1x8"  # a file of configs/slurm/ that fits


class Chosen(NamedTuple):
    """What is to be submitted, in the order in which `plan.plan` takes it."""

    runs: list[Experiment]
    evaluations: Sequence[Evaluate] = ()
    commands: Mapping[str, Command] = {}  # by name: those that make the models of `runs`
    measures: Sequence[Measure] = ()
    gates: Sequence[Gated] = ()

    @property
    def root(self) -> Path:
        """The results folder, absolute: a job may start in another folder."""
        return Path(self.runs[0].results_dir)


def asked_for(paper: str, scale: str, others: Sequence[str]) -> Reproduce:
    """Return the paper's checked `reproduce.yaml` with a scale and other overrides."""
    asked = sweeps.scales_of(paper, f"scale={scale}", *others)
    return replace(asked, results_dir=str(Path(asked.results_dir).resolve()))


def chosen(
    paper: str,
    tables: Mapping[str, Table],
    *,
    table: str,
    row: str,
    scale: str,
    without: str,
    seeds: str = "",
    n: str = "",
    steps: str = "",
    others: Sequence[str] = (),
) -> Chosen:
    """Return the runs and evaluations that the arguments select, with what the evaluations wait
    for. With `steps` they are short trials of the rows. Every row, a base model too, has the given
    `seeds` (chosen.seeds_of): a comparison with it then has as many pairs as there are seeds.
    Raises UserError for an unknown table or row."""
    wanted = some_of("table", table, tables)
    named = dict.fromkeys(one for name in wanted for one in tables[name].scales)
    scales = [scale] if scale else [*named] or [CLUSTER]
    configs = [asked_for(paper, one, others) for one in scales]
    configs = [choose.changed(one, seeds=seeds_of(seeds), n=_number("n", n)) for one in configs]
    if without:
        left = some_of("without", without, [name for config in configs for name in config.names])
        configs = [choose.without(config, left) for config in configs]
    if steps:
        require(bool(row), "optim.steps", steps, "is for trials of some rows: add row=NAME")
        configs = [choose.tried(one, _number("optim.steps", steps)) for one in configs]
    runs: dict[str, Experiment] = {}
    for x in (x for config in configs for x in sweeps.experiments(config)):
        longest = runs.setdefault(x.run_id, x)
        if x.optim.steps > longest.optim.steps:
            runs[x.run_id] = x
    sampled = {e.path.name: e for config in configs for e in sweeps.evaluations(config)}
    keep = [_of(paper, name, tables[name]) for name in wanted]
    mine = [x for x in runs.values() if not keep or any(one(x.table, x.name) for one in keep)]
    require(bool(mine), "table", table or "all", f"has no row in scale={','.join(scales)}")
    rows = some_of("row", row, [x.name for x in mine])
    picked = {x.run_id for x in mine if not rows or x.name in rows}
    kept = narrowed([*runs.values()], [*sampled.values()], picked)
    own = {one.path.name: one for config in configs for one in measures(config)}
    mine = [one for one in own.values() if one.row.trained in picked]
    starts = {one.gate.name: one for config in configs for one in gates(config)}
    loaded = {x.model.path for x in kept[0]}
    commands = {name: one for name, one in configs[0].commands.items() if one.makes in loaded}
    return Chosen(*kept, commands, mine, [*starts.values()])


def _number(key: str, text: str) -> int:
    """Return the number above 0 that `text` says; 0 for empty text."""
    require(not text or (text.isdecimal() and int(text) > 0), key, text, "a whole number above 0")
    return int(text or 0)


def listing(
    paper: str, tables: Mapping[str, Table], table: str = "", given: str = ""
) -> Iterator[str]:
    """Yield lines that say what there is to run, with rows and seeds: those `given`, or else those
    of the sweeps."""
    wanted, others = some_of("table", table, tables) or [*tables], seeds_of(given)
    config = asked_for(paper, CLUSTER, ())
    for name in wanted:
        one, seeds = tables[name], dict[str, set[int]]()
        keep = _of(paper, name, one)
        for sweep in (sweep for scale in one.scales for sweep in config.scales[scale].sweeps):
            for row in (run_name(sweep, row) for row in sweep.rows):
                if keep(sweep.table, row):
                    seeds.setdefault(row, set()).update(others or sweep.seeds)
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
