"""The row (experiment) of a paper that is rehearsed, with the rows that it is compared with."""

from dataclasses import replace

from common.errors import one_of
from common.evaluation.config import Evaluate
from common.experiment import Experiment
from common.sweeps.gates import Gated, gates
from common.sweeps.plan import Reproduce, Scale, Sweep, evaluations_of, runs_of


def chosen(config: Reproduce, row: str) -> Sweep:
    """Return the sweep of the scale that has this row, cut to the row and one seed. It keeps the
    rows of the same sweep whose curve limits which checkpoint of the row is evaluated (its
    baseline), and only the first of the further steps of `also_at`. Raises UserError for an unknown
    row."""
    sweeps = config.scales[config.scale].sweeps
    names = {name.removeprefix("cluster/"): sweep for sweep in sweeps for name in sweep.rows}
    one_of("row", row, names)
    sweep = names[row]
    (own,) = runs_of(config, replace(sweep, rows=[f"cluster/{row}"], seeds=sweep.seeds[:1]))
    baseline = sweep.baselines.get(own.label)
    wanted = [f"cluster/{row}"]
    if baseline is not None:
        others = runs_of(config, replace(sweep, seeds=sweep.seeds[:1]))
        pairs = zip(sweep.rows, others, strict=True)
        same = [n for n, x in pairs if x.label == baseline and x.model.name == own.model.name]
        wanted = [*same, *wanted]
    baselines = {own.label: baseline} if baseline is not None else {}
    also_at = {name: steps[:1] for name, steps in sweep.also_at.items()}
    seeds = sweep.seeds[:1]
    return replace(sweep, rows=wanted, seeds=seeds, baselines=baselines, also_at=also_at)


def true_size(
    config: Reproduce, sweep: Sweep
) -> tuple[list[Experiment], list[Evaluate], list[Gated]]:
    """Return the runs, evaluations and gates that `rlvr submit` would run for the sweep, without
    its measures."""
    runs = runs_of(config, sweep)
    alone = replace(config, scales={config.scale: Scale({}, [sweep])})
    return runs, evaluations_of(runs, sweep) if sweep.benchmarks else [], gates(alone)
