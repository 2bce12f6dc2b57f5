"""A paper's tables as rows to run: what papers/<paper>/launch.py names."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

from common.comparison.standing import stand_for
from common.config.compose import compose
from common.config.strict import strict
from common.errors import require
from common.evaluation.config import Evaluate
from common.experiment import Experiment
from common.sweeps.gates import Gated, gates
from common.sweeps.measures import Measure, measures
from common.sweeps.plan import Command, Reproduce, evaluations, experiments, tried
from common.sweeps.plan import without as without_rows
from slurm.plan import narrowed

PRINTED, ALL = "printed", "all"
CLUSTER = "cluster"  # the scale where neither a table nor `scale=` is given


@dataclass(frozen=True)
class Table:
    """A printed table or figure. Its runs, seeds and benchmarks stand in the paper's
    configs/reproduce.yaml, under `scales`."""

    about: str
    scales: tuple[str, ...] = (CLUSTER,)
    # printed: the runs of those scales that stand for a printed row, as the comparison has it;
    # all: every run; else: the runs of the sweeps that have this `table`
    rows: str = PRINTED
    profile: str = "h100-1x8"  # a file of configs/slurm/ that fits


class Chosen(NamedTuple):
    runs: list[Experiment]
    evaluations: list[Evaluate]
    commands: dict[str, Command]  # of the paper
    root: Path  # the results folder, absolute: a job may start in another folder
    measures: list[Measure]
    gates: list[Gated]


def asked_for(paper: str, scale: str, others: Sequence[str]) -> Reproduce:
    """The paper's checked `reproduce.yaml` with a scale and other overrides."""
    asked = strict(Reproduce, compose(paper, [f"scale={scale}", *others], "reproduce"))
    return replace(asked, results_dir=str(Path(asked.results_dir).resolve()))


def chosen(
    paper: str,
    tables: Mapping[str, Table],
    *,
    table: str,
    row: str,
    scale: str,
    without: str,
    steps: str = "",
    others: Sequence[str] = (),
) -> Chosen:
    """The runs and evaluations that the words name, with what their evaluations wait for; with
    `steps` the rows' trials. Raises UserError for a table or a row that there is not."""
    wanted = known(table, tables, "table")
    scales = [scale] if scale else _scales(tables[name] for name in wanted) or [CLUSTER]
    configs = _less(without, [asked_for(paper, one, others) for one in scales])
    if steps:
        require(
            steps.isdecimal() and int(steps) > 0, "optim.steps", steps, "a whole number above 0"
        )
        require(bool(row), "optim.steps", steps, "is a trial of one row or some: add row=NAME")
        configs = [tried(one, int(steps)) for one in configs]
    runs: dict[str, Experiment] = {}
    for x in (x for config in configs for x in experiments(config)):
        longest = runs.setdefault(x.run_id, x)
        if x.optim.steps > longest.optim.steps:
            runs[x.run_id] = x
    sampled = {e.path.name: e for config in configs for e in evaluations(config)}
    keep = [_of(paper, name, tables[name]) for name in wanted]
    mine = [x for x in runs.values() if not keep or any(one(x) for one in keep)]
    require(bool(mine), "table", table or "all", f"no row of it in scale={','.join(scales)}")
    rows = known(row, [x.name for x in mine], "row")
    picked = {x.run_id for x in mine if not rows or x.name in rows}
    kept = narrowed([*runs.values()], [*sampled.values()], picked)
    own = {one.path.name: one for config in configs for one in measures(config)}
    mine = [one for one in own.values() if one.row.trained in picked]
    starts = {one.gate.name: one for config in configs for one in gates(config)}
    root = Path(configs[0].root)
    return Chosen(*kept, configs[0].commands, root, mine, [*starts.values()])


def listing(paper: str, tables: Mapping[str, Table], table: str = "") -> Iterator[str]:
    """What there is to run, with rows and seeds."""
    wanted = known(table, tables, "table") or [*tables]
    scales = _scales(tables[name] for name in wanted)
    runs = {one: experiments(asked_for(paper, one, ())) for one in scales}
    for name in wanted:
        one, seeds = tables[name], dict[str, set[int]]()
        stands = _of(paper, name, one)
        mine = {x.run_id: x for scale in one.scales for x in runs[scale] if stands(x)}
        for x in mine.values():
            seeds.setdefault(x.name, set()).add(x.seed)
        yield f"table={name}  profile={one.profile}  scale={','.join(one.scales)}  {one.about}"
        for each in sorted({tuple(sorted(found)) for found in seeds.values()}):
            rows = ", ".join(row for row, found in seeds.items() if found == {*each})
            said = f"seed {', '.join(map(str, each))}: {rows}"
            yield fill(said, 100, initial_indent="    ", subsequent_indent="    ")


def known(word: str, names: Iterable[str], key: str) -> list[str]:
    """The names in `A,B`. Raises UserError for an unknown one."""
    given, names = [name for name in word.split(",") if name], list(dict.fromkeys(names))
    unknown = ",".join(name for name in given if name not in names)
    require(not unknown, key, unknown, f"use one or several of {', '.join(names)}")
    return given


def _of(paper: str, name: str, table: Table) -> Callable[[Experiment], bool]:
    """Whether a run is one of the table's."""
    if table.rows == ALL:
        return lambda x: True
    if table.rows != PRINTED:
        return lambda x: x.table == table.rows
    printed = stand_for(paper, name)
    return lambda x: (x.model.name, x.table, x.label) in printed


def _scales(tables: Iterable[Table]) -> list[str]:
    return list(dict.fromkeys(scale for table in tables for scale in table.scales))


def _less(names: str, configs: list[Reproduce]) -> list[Reproduce]:
    """Without rows of these names, each of which one of the scales must have."""
    if not names:
        return configs
    rows = [{x.name for x in experiments(config)} for config in configs]
    given = known(names, [name for one in rows for name in sorted(one)], "without")
    pairs = zip(configs, rows, strict=True)
    return [without_rows(config, [n for n in given if n in own]) for config, own in pairs]
