"""What a command line chooses of a scale: rows, seeds, samples per problem, or a trial."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from common.config.words import some_of
from common.errors import require
from common.sweeps.plan import BASE, Reproduce, Sweep, run_name, runs_of


def changed(
    config: Reproduce, words: Sequence[str] = (), seeds: Sequence[int] = (), n: int = 0
) -> Reproduce:
    """Return `config` with `words` added to the overrides of every sweep of its scale, after the
    sweep's own, and, where they are given, with `seeds` instead of the sweep's and `n` samples per
    problem in every evaluation."""

    def change(sweep: Sweep) -> Sweep:
        benchmarks = {
            name: [word for word in given if not (n and word.startswith("n="))]
            for name, given in sweep.benchmarks.items()
        }
        sweep = replace(sweep, n=n or sweep.n, benchmarks=benchmarks)
        overrides = [*sweep.overrides, *words]
        return replace(sweep, overrides=overrides, seeds=[*(seeds or sweep.seeds)])

    return _with(config, map(change, config.sweeps))


def _with(config: Reproduce, sweeps: Iterable[Sweep]) -> Reproduce:
    """Return `config` with these sweeps in its scale."""
    scale = replace(config.scales[config.scale], sweeps=[*sweeps])
    return replace(config, scales={**config.scales, config.scale: scale})


def tried(config: Reproduce, steps: int) -> Reproduce:
    """Return the scale's rows as trials: `steps` steps of their own size on the first seed, with a
    checkpoint after each step, and an evaluation of the last model with one sample per problem.
    The results go to <results_dir>/trial. A trial measures no weights and waits for no gate."""
    words = [f"optim.steps={steps}", f"eval.every={steps}", "checkpoint_every=1"]
    words += ["keep_checkpoints=false", "eval.n=1", "eval.curve_n=1", "eval.k=[1]"]

    def trial(sweep: Sweep) -> Sweep:
        bare = replace(sweep, checkpoint="last", also_at={}, baselines={}, measures={})
        return replace(bare, seeds=sweep.seeds[:1])

    short = changed(_with(config, map(trial, config.sweeps)), words, n=1)
    return replace(short, gates={}, results_dir=str(Path(config.results_dir) / "trial"))


def with_method(config: Reproduce, method: str) -> Reproduce:
    """Return `config` with a further sweep, which is its scale's last one with another method: a
    name or the path of a method file. Its rows and their label have the method's name. Raises
    UserError for a method that cannot be read or does not fit."""
    last = config.sweeps[-1]
    words = [*last.overrides, f"method={method}"]
    name = runs_of(config, replace(last, seeds=last.seeds[:1], overrides=words))[0].method.name
    own = replace(last, overrides=[*words, f"name={name}", f"label={name}"])
    return _with(config, [*config.sweeps, own])


def without(config: Reproduce, names: Collection[str]) -> Reproduce:
    """Return `config` without the rows of these names in the sweeps of its scale. A row whose
    baseline is left out is refused later (`evaluations_of`)."""

    def fewer(sweep: Sweep) -> Sweep:
        return replace(sweep, rows=[row for row in sweep.rows if run_name(sweep, row) not in names])

    return _with(config, map(fewer, config.sweeps))


def seeds_of(text: str) -> list[int]:
    """Return the seeds that `text` names: "1,2,3"; "6-10" for 6 to 10; "10" for 1 to 10; none for
    empty text. Raises UserError for any other text."""
    parts = [f"1-{text}"] if text.isdecimal() else text.split(",") if text else []
    matches = [re.fullmatch(r"(\d+)(?:-(\d+))?", part) for part in parts]
    ends = [(int(m[1]), int(m[2] or m[1])) if m else (0, 0) for m in matches]
    remedy = "give some, as 1,2,3, how many, as 10, or the first and the last, as 6-10"
    require(all(0 < first <= last for first, last in ends), "seeds", text, remedy)
    return sorted({seed for first, last in ends for seed in range(first, last + 1)})


def only(config: Reproduce, rows: str, seeds: str) -> Reproduce:
    """Return `config` with the rows A,B of its scale and with these seeds (`seeds_of`). Empty text
    means all rows, or the sweeps' own seeds. The base model stays, since every row is compared with
    it."""
    if rows:
        kept = {*some_of("rows", rows, config.names), BASE}
        config = without(config, {*config.names} - kept)
    return changed(config, seeds=seeds_of(seeds))
