"""The runs and evaluations of a paper's SCALE, from its configs/reproduce.yaml."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt

from common.backends import backend
from common.config.compose import CONFIGS, compose
from common.config.rows import rows
from common.config.schema import Folder
from common.config.strict import strict
from common.errors import one_of, require
from common.evaluation import checkpoints
from common.evaluation.config import Evaluate, Row
from common.experiment import Experiment, load

BASE = "base"  # the model that all others start from, as it is
ASKED = ("scale", "workers", "budget", "results_dir")  # of a command, about all its runs
BUDGET = r"\d+(\.\d+)?[hm]"


@dataclass(frozen=True)
class Sweep:
    """Rows x seeds under one table name, and, on a cluster, what is evaluated afterwards."""

    table: str
    rows: list[str]  # their names; gpu/* is all that begin so
    seeds: Annotated[list[int], Field(min_length=1)]
    overrides: list[str]
    # as the tables print it: words for `rlvr evaluate` besides model and row
    benchmarks: dict[str, list[str]] = field(default_factory=dict)
    n: int | None = None  # samples a problem; None: as configs/eval/<name>.yaml says
    checkpoint: checkpoints.Choice = "last"
    also_at: dict[str, list[int]] = field(default_factory=dict)  # benchmark -> further steps
    # benchmarks whose samples are scored by the model that drew them (evaluation/scoring.py)
    scored: list[str] = field(default_factory=list)
    # label of a method: label of the one that its compute must not exceed (checkpoints.py)
    baselines: dict[str, str] = field(default_factory=dict)
    # name of a measure (Reproduce.measures): row -> steps whose models it reads
    measures: dict[str, dict[str, list[int]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """One of the paper's own computations: theory, toy, measurement.

    `run` is the dotted path of a function. Where configs/<part>.yaml is there, the function takes
    that configuration, checked by the class of its first parameter; else it takes the results
    folder, and the words of the scale as keyword arguments."""

    run: str
    # base: it needs the model that all runs start from; runs: it measures the finished runs
    after: Literal["nothing", "base", "runs"] = "nothing"


@dataclass(frozen=True)
class Command:
    """A job of the paper's own on a cluster: it makes the model that rows start from, which wait
    for it. It takes all nodes and GPUs of the profile, one task a node."""

    # run(gpus=, nodes=, rank=, address=, folder=, model=), with what else stands here, as the task
    # `rank` of `nodes` with so many `gpus` each; `address` is a host of task 0, `folder` its own,
    # where FILE says how far it is. It resumes by itself, and `model` is there once it is whole
    run: dict[str, Any]
    takes: str  # (profile) -> what it will take (cost.Estimate)
    makes: Folder  # the model's folder, `model.path` of the rows that wait
    loads: str  # the hub id of the model that it starts from
    inputs: list[str]  # globs, each of which a file must match before it is submitted
    prepare: str  # the command that makes the inputs


@dataclass(frozen=True)
class Start:
    """What a model must measure before rows train from it (gates.py)."""

    of: str  # the row that is the model as it is
    rows: list[str]  # those that wait
    prompts: PositiveInt  # of their training set, drawn by its seed
    samples: PositiveInt  # of each
    remedy: str  # where a number is not as expected
    table: str = ""  # of the row `of`, where benchmarks are read
    benchmarks: dict[str, list[str]] = field(default_factory=dict)  # as in a Sweep
    n: int | None = None
    # number -> expected, within the noise of two evaluations and half a unit of its last digit
    near: dict[str, list[float]] = field(default_factory=dict)
    above: dict[str, float] = field(default_factory=dict)  # number -> what it must exceed


@dataclass(frozen=True)
class Scale:
    parts: dict[str, list[str]]  # which of the paper's own parts, each with its words
    sweeps: list[Sweep]


@dataclass(frozen=True)
class Reproduce:
    paper: str
    scale: str
    workers: PositiveInt
    results_dir: Folder
    budget: str | float | None  # wall clock, as in 4h or 90m; then every run stops at its next step
    scales: dict[str, Scale]
    parts: dict[str, Part] = field(default_factory=dict)
    commands: dict[str, Command] = field(default_factory=dict)  # each by its name, of all scales
    # jobs of the paper's own after trainings (measures.py): dotted paths of `run` and `takes`
    measures: dict[str, dict[str, str]] = field(default_factory=dict)
    gates: dict[str, Start] = field(default_factory=dict)  # each by its name, of all scales
    rows: dict[str, dict] = field(default_factory=dict)  # common/config/rows.py reads them
    grids: list[dict] = field(default_factory=list)  # and these

    def __post_init__(self):
        named = {
            name: replace(one, sweeps=[replace(s, rows=self.named(s.rows)) for s in one.sweeps])
            for name, one in self.scales.items()
        }
        object.__setattr__(self, "scales", named)  # every row by its name, once and for all
        known = sorted(self.scales)
        one_of("scale", self.scale, known)
        for part in self.scales[self.scale].parts:
            remedy = f"use some of {', '.join(self.parts)}"
            require(part in self.parts, f"scales.{self.scale}.parts", part, remedy)
        clusters = self.scale.startswith("cluster")
        fits = self.budget is None or (re.fullmatch(BUDGET, str(self.budget)) and not clusters)
        require(bool(fits), "budget", self.budget, "give hours or minutes, as in 4h or 90m")

    @property
    def seconds(self) -> float | None:
        """The budget; None where there is none."""
        if self.budget is None:
            return None
        text = str(self.budget)
        return float(text[:-1]) * {"h": 3600, "m": 60}[text[-1]]

    @property
    def root(self) -> str:
        smoke = self.scale.endswith("smoke")
        return str(Path(self.results_dir) / "smoke") if smoke else self.results_dir

    @property
    def sweeps(self) -> list[Sweep]:
        """Those of the scale."""
        return self.scales[self.scale].sweeps

    def named(self, patterns: list[str]) -> list[str]:
        """The names of the rows that match. Raises UserError where none does."""
        known, found = list(rows(self.paper)), []
        for pattern in patterns:
            named = fnmatch.filter(known, pattern)
            require(bool(named), "rows", pattern, f"{self.paper} has no such row")
            found += named
        return found

    def words(self, part: str) -> list[str]:
        """Of one of the paper's own parts, at this scale."""
        return self.scales[self.scale].parts[part]


def scales_of(paper: str, *words: str) -> Reproduce:
    """The checked reproduce.yaml of a paper."""
    return strict(Reproduce, compose(paper, [*words], "reproduce"))


def asked(paper: str, words: Sequence[str]) -> tuple[Reproduce, list[str]]:
    """(the reproduce.yaml of a paper with those of the words that are its own; the others, which
    are for every run)."""
    own = [word for word in words if word.partition("=")[0] in ASKED]
    return scales_of(paper, *own), [word for word in words if word not in own]


def experiments(config: Reproduce) -> list[Experiment]:
    """Every run of the scale, checked.

    Sweep by sweep, and in each seed by seed, so that a command that is stopped has compared all
    methods on the seeds that it reached. A run that stands in several sweeps is one run.
    """
    found: dict[str, Experiment] = {}
    for sweep in config.sweeps:
        for x in runs_of(config, sweep):
            found.setdefault(x.run_id, x)
    return list(found.values())


def from_base(x: Experiment, seed: int) -> Experiment:
    """The same run from the base model that is pretrained with `seed`."""
    if x.model.pretrain is None:
        return x
    return replace(x, model=replace(x.model, pretrain=replace(x.model.pretrain, seed=seed)))


def makers(experiments: Sequence[Experiment]) -> list[Experiment]:
    """For each base model the first run that needs it, and makes it where it is not there yet: one
    that trains nothing, if there is one."""
    first: list[Experiment] = []
    for x in sorted(experiments, key=lambda x: x.optim.steps > 0):
        if all(x.model != other.model for other in first):
            first.append(x)
    return first


def changed(
    config: Reproduce, words: Sequence[str] = (), seeds: Sequence[int] | None = None
) -> Reproduce:
    """Its scale with these words for every run, after those of the sweep, and with these seeds."""
    scale = config.scales[config.scale]
    sweeps = [
        replace(one, overrides=[*one.overrides, *words], seeds=list(seeds or one.seeds))
        for one in scale.sweeps
    ]
    return replace(config, scales={**config.scales, config.scale: replace(scale, sweeps=sweeps)})


def tried(config: Reproduce, steps: int) -> Reproduce:
    """The scale's rows as trials: so many steps of their own size with a checkpoint after each, the
    last model evaluated with one sample a problem, on the first seed. Results are apart. A trial
    measures no weights and waits for no gate."""
    words = [f"optim.steps={steps}", f"eval.every={steps}", "checkpoint_every=1"]
    words += ["keep_checkpoints=false", "eval.n=1", "eval.curve_n=1", "eval.k=[1]"]
    scale = config.scales[config.scale]
    sweeps = [
        replace(
            one,
            seeds=one.seeds[:1],
            overrides=[*one.overrides, *words],
            benchmarks={
                name: [word for word in given if not word.startswith("n=")]
                for name, given in one.benchmarks.items()
            },
            n=1,
            checkpoint="last",
            also_at={},
            baselines={},
            measures={},
        )
        for one in scale.sweeps
    ]
    scales = {**config.scales, config.scale: replace(scale, sweeps=sweeps)}
    apart = str(Path(config.results_dir) / "trial")
    return replace(config, scales=scales, gates={}, results_dir=apart)


def without(config: Reproduce, names: list[str]) -> Reproduce:
    """Its scale less the rows of these names, in all sweeps. Raises UserError for an unknown one.
    A row whose baseline is left out is refused later (`evaluations_of`)."""
    scale = config.scales[config.scale]
    known = [_row(name) for sweep in config.sweeps for name in sweep.rows]
    unknown = sorted(set(names) - set(known))
    require(not unknown, "without", ",".join(unknown), f"use some of {', '.join(known)}")
    left = [
        replace(sweep, rows=[name for name in sweep.rows if _row(name) not in names])
        for sweep in config.sweeps
    ]
    return replace(config, scales={**config.scales, config.scale: replace(scale, sweeps=left)})


def _row(name: str) -> str:
    return name.removeprefix("cluster/")


def runs_of(config: Reproduce, sweep: Sweep) -> list[Experiment]:
    """The sweep's runs, seed by seed. A row is composed once: its seeds differ in nothing else."""
    first, rows = sweep.seeds[0], []
    for name in sweep.rows:
        where = [f"table={sweep.table}", f"seed={first}", f"results_dir={config.root}"]
        trained = not name.endswith(BASE)
        changed = [o for o in sweep.overrides if trained or "optim.steps" not in o]
        rows.append(_loaded(config.paper, (f"experiment={name}", *where, *changed)))
    return [x if x.seed == seed else replace(x, seed=seed) for seed in sweep.seeds for x in rows]


@cache
def _loaded(paper: str, words: tuple[str, ...]) -> Experiment:
    return load(list(words), paper)


def evaluations(config: Reproduce) -> list[Evaluate]:
    """The evaluations of every trained model of the scale, checked."""
    sweeps = [sweep for sweep in config.sweeps if sweep.benchmarks]
    return on_rare([e for sweep in sweeps for e in evaluations_of(runs_of(config, sweep), sweep)])


def on_rare(evaluations: list[Evaluate]) -> list[Evaluate]:
    """The same, those of a trained model's NLL with the run of their base model's samples, which
    they score. Raises UserError where the scale has no such run."""

    def key(e: Evaluate) -> tuple:
        return e.label, e.row.seed, e.eval.name

    rare = [e for e in evaluations if e.eval.rare_share is not None]
    bases = {key(e): e.path.name for e in rare if e.row.checkpoint == checkpoints.UNTRAINED}
    found = []
    for e in evaluations:
        if e.eval.rare_share is not None and e.row.checkpoint != checkpoints.UNTRAINED:
            remedy = f"{e.row.trained} needs the samples of {e.label} as it is: add that row"
            require(key(e) in bases, "eval.rare_share", e.eval.rare_share, remedy)
            e = scored(e, bases[key(e)])
        found.append(e)
    return found


def scored(e: Evaluate, samples: str) -> Evaluate:
    """`e` for the stored samples of a run folder, which no engine draws again."""
    return replace(e, scores=samples, engine="local", tensor_parallel=None)


def evaluations_of(runs: list[Experiment], sweep: Sweep) -> list[Evaluate]:
    """One evaluation for each trained model and benchmark of their sweep.

    What a model is evaluated with is its experiment's: weights, chat markup, temperature, length,
    seed, device, and the engine of its backend. `benchmarks` may say otherwise. An experiment of no
    steps is the model as it is: it has one evaluation of each, and no training. Raises UserError
    for a baseline that is not in the sweep.
    """
    unknown = sorted(set(sweep.also_at) - set(sweep.benchmarks))
    require(not unknown, "also_at", unknown, f"use some of {', '.join(sweep.benchmarks)}")
    unknown = sorted(set(sweep.scored) - set(sweep.benchmarks))
    require(not unknown, "scored", unknown, f"use some of {', '.join(sweep.benchmarks)}")
    found = []
    by_label = {(x.model.name, x.seed, x.label): x.run_id for x in runs}
    for x in runs:
        baseline, wanted = None, sweep.baselines.get(x.label)
        if wanted is not None:
            baseline = by_label.get((x.model.name, x.seed, wanted))
            remedy = f"no run of {x.model.name}, seed {x.seed} in table {sweep.table} has it"
            require(baseline is not None, f"baselines.{x.label}", wanted, remedy)
        untrained = x.optim.steps == 0
        path = Path(x.results_dir) / x.paper / x.run_id / "model"
        model = x.model if untrained else replace(x.model, path=str(path), pretrain=None)
        wanted_at = [
            (printed, words, checkpoint)
            for printed, words in sweep.benchmarks.items()
            for checkpoint in (sweep.checkpoint, *sweep.also_at.get(printed, ()))
        ]
        if untrained:
            wanted_at = [(*one, checkpoints.UNTRAINED) for one in sweep.benchmarks.items()]
        for printed, words, checkpoint in wanted_at:
            row = Row(
                paper=x.paper,
                scope=x.scope,
                table=x.table,
                method=x.label,
                benchmark=printed,
                seed=x.seed,
                trained=x.run_id,
                checkpoint=checkpoint,
                baseline=None if untrained else baseline,
                steps=x.optim.steps or None,
            )
            stated = {word.partition("=")[0] for word in words}
            taken = {key: value for key, value in _taken(x).items() if key not in stated}
            known = _known(x.model.chat, sweep.n, tuple(words))
            drawn = replace(known, **taken, label=x.model.name, model=model, row=row)
            found.append(drawn)
            if printed in sweep.scored:
                found.append(scored(drawn, drawn.path.name))
    return found


def _taken(x: Experiment) -> dict[str, Any]:
    """What an evaluation of `x` takes over, where its words do not say otherwise."""
    return {
        "engine": backend(x.backend).engine,
        "temperature": x.eval.temperature,
        "max_tokens": x.eval.max_tokens,
        "batch": None,
        "seed": x.seed,
        "device": x.device,
        "threads": x.threads,
        "workers": x.verification.workers,
        "memory_gb": x.verification.memory_gb,
        "results_dir": x.results_dir,
    }


@cache
def _known(chat: str | None, n: int | None, words: tuple[str, ...]) -> Evaluate:
    """A benchmark of configs/eval as `words` change it, for prompts in this markup; the model and
    what else is the experiment's are still to be set."""
    model = ["model=huggingface", "model.path=trained", f"model.chat={chat or 'null'}"]
    sampled = [f"n={n}"] if n else []
    return strict(Evaluate, compose(CONFIGS, [*model, *sampled, *words], "evaluate"))
