"""What a command line chooses of a scale: rows, seeds, samples per problem, or a trial."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from common.config.words import some_of
from common.errors import require
from common.sweeps.plan import BASE, Reproduce, Sweep, run_name


def changed(
    config: Reproduce, words: Sequence[str] = (), seeds: Sequence[int] = (), n: int = 0
) -> Reproduce:
    """Return `config` with `words` added to the overrides of every sweep of its scale, after the
    sweep's own, and, where they are given, with `seeds` instead of the sweep's and `n` samples per
    problem in every evaluation."""

    def change(one: Sweep) -> Sweep:
        one = _drawn(one, n) if n else one
        return replace(one, overrides=[*one.overrides, *words], seeds=[*(seeds or one.seeds)])

    return _each(config, change)


def _each(config: Reproduce, change: Callable[[Sweep], Sweep]) -> Reproduce:
    """Return `config` with `change` of each sweep of its scale."""
    scale = replace(config.scales[config.scale], sweeps=[change(one) for one in config.sweeps])
    return replace(config, scales={**config.scales, config.scale: scale})


def _drawn(one: Sweep, n: int) -> Sweep:
    """Return the sweep with `n` samples per problem of every benchmark."""
    benchmarks = {
        name: [word for word in given if not word.startswith("n=")]
        for name, given in one.benchmarks.items()
    }
    return replace(one, n=n, benchmarks=benchmarks)


def tried(config: Reproduce, steps: int) -> Reproduce:
    """Return the scale's rows as trials: `steps` steps of their own size on the first seed, with a
    checkpoint after each step, and an evaluation of the last model with one sample per problem.
    The results go to <results_dir>/trial. A trial measures no weights and waits for no gate."""
    words = [f"optim.steps={steps}", f"eval.every={steps}", "checkpoint_every=1"]
    words += ["keep_checkpoints=false", "eval.n=1", "eval.curve_n=1", "eval.k=[1]"]

    def trial(one: Sweep) -> Sweep:
        bare = replace(one, checkpoint="last", also_at={}, baselines={}, measures={})
        return replace(bare, seeds=one.seeds[:1])

    apart = str(Path(config.results_dir) / "trial")
    return replace(changed(_each(config, trial), words, n=1), gates={}, results_dir=apart)


def without(config: Reproduce, names: Collection[str]) -> Reproduce:
    """Return `config` without the rows of these names in the sweeps of its scale. A row whose
    baseline is left out is refused later (`evaluations_of`)."""

    def fewer(one: Sweep) -> Sweep:
        return replace(one, rows=[row for row in one.rows if run_name(one, row) not in names])

    return _each(config, fewer)


def seeds_of(text: str) -> list[int]:
    """Return the seeds that `text` names: "1,2,3"; "6-10" for 6 to 10; "10" for 1 to 10; none for
    empty text. Raises UserError for any other text."""
    parts = [f"1-{text}"] if text.isdecimal() else text.split(",") if text else []
    named = [re.fullmatch(r"(\d+)(?:-(\d+))?", part) for part in parts]
    ends = [(int(one[1]), int(one[2] or one[1])) if one else (0, 0) for one in named]
    remedy = "give some, as 1,2,3, how many, as 10, or from one to one, as 6-10"
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
