"""The training runs and evaluations of a paper's SCALE, from its configs/reproduce.yaml."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt

from common.backends import backend
from common.config.compose import CONFIGS, compose
from common.config.files import ROOT, STUDY
from common.config.rows import matching, rows
from common.config.schema import Folder
from common.config.strict import strict
from common.errors import one_of, require
from common.evaluation import checkpoints
from common.evaluation.config import Evaluate, Row
from common.experiment import Experiment, load

OF_STUDY = f"{STUDY}/"  # what begins the names of the study's rows in a paper's sweeps
BASE = "base"  # the row of the untrained model that all others start from
BUDGET = r"\d+(\.\d+)?[hm]"


@dataclass(frozen=True)
class Sweep:
    """Rows (named experiments) x seeds under one table name and, on a cluster, what is evaluated
    afterwards."""

    table: str
    # their names; gpu/* is every name that begins with gpu/, study/NAME a row of the study
    rows: list[str]
    seeds: Annotated[list[int], Field(min_length=1)]
    overrides: list[str]
    # benchmark as the tables print it -> arguments of `rlvr evaluate` besides model and row
    benchmarks: dict[str, list[str]] = field(default_factory=dict)
    n: int | None = None  # samples per problem; None: as in configs/eval/<name>.yaml
    checkpoint: checkpoints.Choice = "last"
    also_at: dict[str, list[int]] = field(default_factory=dict)  # benchmark -> further steps
    # benchmarks whose samples are scored by the model that drew them (evaluation/scoring.py)
    scored: list[str] = field(default_factory=list)
    # label of a method -> label of the method whose compute it must not exceed (checkpoints.py)
    baselines: dict[str, str] = field(default_factory=dict)
    # name of a measure (Reproduce.measures) -> row -> steps whose models it reads
    measures: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    part: str = ""  # of a declared study, whose results are kept part by part (sweeps/declared.py)


@dataclass(frozen=True)
class Part:
    """One of the paper's own computations: theory, toy, measurement.

    `run` is the dotted path of a function. If configs/<part>.yaml exists, the function takes that
    configuration, checked by the class of its first parameter. Otherwise it takes the results
    folder, and the key=value arguments that the scale states as keyword arguments."""

    run: str
    # base: it needs the model that all runs start from
    after: Literal["nothing", "base"] = "nothing"


@dataclass(frozen=True)
class Command:
    """A cluster job of the paper's own that makes the model that some rows start from; these rows
    wait for it. It takes all nodes and GPUs of the profile, with one task per node."""

    # called as run(gpus=, nodes=, rank=, address=, folder=, model=), with the other keys that stand
    # here: task `rank` of `nodes`, each with `gpus` GPUs. `address` is the host of task 0; `folder`
    # is the job's own, where verl's LATEST file says how far it is. The function resumes by itself,
    # and the folder `model` exists once the model is complete
    run: dict[str, Any]
    takes: str  # dotted path of (profile) -> cost.Estimate
    makes: Folder  # the model's folder, which is `model.path` of the rows that wait
    loads: str  # the hub id of the model that it starts from
    inputs: list[str]  # globs, each of which a file must match before it is submitted
    prepare: str  # the command that makes the inputs


@dataclass(frozen=True)
class Start:
    """What a model must measure before rows train from it (gates.py)."""

    run: str  # dotted path of the function that compares (gates.Gate)
    of: str  # the row that evaluates the model untrained
    rows: list[str]  # names of the rows that wait
    prompts: PositiveInt  # how many of their training set, drawn by its seed
    samples: PositiveInt  # per prompt
    remedy: str  # what to do where a number is not as expected
    table: str = ""  # table of the row `of`, if benchmarks are read
    benchmarks: dict[str, list[str]] = field(default_factory=dict)  # as in a Sweep
    n: int | None = None
    # number -> expected value and half a unit of its last digit; the noise of two evaluations is
    # tolerated next to it
    near: dict[str, list[float]] = field(default_factory=dict)
    above: dict[str, float] = field(default_factory=dict)  # number -> what it must exceed


@dataclass(frozen=True)
class Scale:
    parts: dict[str, list[str]]  # the paper's own parts that it runs, with their arguments
    sweeps: list[Sweep]


@dataclass(frozen=True)
class Reproduce:
    paper: str
    scale: str
    workers: PositiveInt
    results_dir: Folder
    budget: str | float | None  # wall-clock time (4h, 90m); then each run stops at its next step
    scales: dict[str, Scale]
    parts: dict[str, Part] = field(default_factory=dict)
    commands: dict[str, Command] = field(default_factory=dict)  # by name, for all scales
    # the paper's own jobs after trainings (measures.py): name -> dotted paths of `run` and `takes`
    measures: dict[str, dict[str, str]] = field(default_factory=dict)
    gates: dict[str, Start] = field(default_factory=dict)  # by name, for all scales
    rows: dict[str, dict] = field(default_factory=dict)  # read by common/config/rows.py

    def __post_init__(self):
        scales = {
            name: Scale(
                scale.parts, [replace(s, rows=self.matching_rows(s.rows)) for s in scale.sweeps]
            )
            for name, scale in self.scales.items()
        }
        object.__setattr__(self, "scales", scales)  # row names instead of patterns
        one_of("scale", self.scale, sorted(self.scales))
        for part in self.scales[self.scale].parts:
            remedy = f"use some of {', '.join(self.parts)}"
            require(part in self.parts, f"scales.{self.scale}.parts", part, remedy)
        clusters = self.scale.startswith("cluster")
        fits = self.budget is None or (re.fullmatch(BUDGET, str(self.budget)) and not clusters)
        require(bool(fits), "budget", self.budget, "give hours or minutes, as in 4h or 90m")

    @property
    def seconds(self) -> float | None:
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
        return self.scales[self.scale].sweeps

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(run_name(s, row) for s in self.sweeps for row in s.rows))

    def matching_rows(self, patterns: list[str]) -> list[str]:
        """Return the names of the rows that match. Raises UserError for a pattern without any."""
        known = dict.fromkeys([*rows(self.paper), *(OF_STUDY + name for name in rows(STUDY))])
        names: list[str] = []
        for pattern in patterns:
            matches = matching(known, pattern)
            require(bool(matches), "rows", pattern, f"{self.paper} has no such row")
            names += matches
        return names


def scales_of(paper: str, *words: str) -> Reproduce:
    """Return the checked reproduce.yaml of a paper, with the overrides `words`."""
    return strict(Reproduce, compose(paper, [*words], "reproduce"))


def experiments(config: Reproduce) -> list[Experiment]:
    """Return every run of the scale, checked.

    The order is sweep by sweep, and seed by seed within each, so that a command that is stopped has
    compared all methods on the seeds that it reached. A run in several sweeps is returned once.
    """
    runs: dict[str, Experiment] = {}
    for sweep in config.sweeps:
        for x in runs_of(config, sweep):
            runs.setdefault(x.run_id, x)
    return list(runs.values())


def with_seed(x: Experiment, seed: int) -> Experiment:
    """Return the same run with another seed, from the base model that is pretrained with it."""
    pretrain = x.model.pretrain
    own = pretrain is not None and pretrain.seed == x.seed  # configs/model: seed: ${seed}
    model = replace(x.model, pretrain=replace(pretrain, seed=seed)) if own else x.model
    return replace(x, seed=seed, model=model)


@cache
def _sweeps(paper: str, smoke: bool = False) -> list[tuple[Reproduce, Sweep]]:
    """Return the sweeps of all scales of a paper, or of its smoke scales, each with its scale."""
    if not (ROOT / "papers" / paper / "configs" / "reproduce.yaml").exists():
        return []
    config = scales_of(paper)
    names = [name for name in config.scales if name.endswith("smoke") == smoke]
    scales = [replace(config, scale=name) for name in names]
    return [(scale, sweep) for scale in scales for sweep in scale.sweeps]


def planned(
    paper: str, seeds: list[int], wanted: Callable[[Sweep, str], bool], smoke: bool = False
) -> list[Experiment]:
    """Return the runs of the rows that are `wanted` of a sweep, of any scale that trains in earnest
    or, with `smoke`, of any other. They have these seeds, whatever seeds their sweeps state."""
    runs = []
    for scale, sweep in _sweeps(paper, smoke):
        rows = [row for row in sweep.rows if wanted(sweep, row)]
        runs += runs_of(scale, replace(sweep, rows=rows, seeds=[sweep.seeds[0], *seeds]))
    return runs


def run_name(sweep: Sweep, row: str) -> str:
    """Return the name that a row has in run ids: its own without the folder, unless the sweep sets
    one."""
    given = [word.removeprefix("name=") for word in sweep.overrides if word.startswith("name=")]
    return given[-1] if given else row.rpartition("/")[2]


def makers(experiments: Sequence[Experiment]) -> list[Experiment]:
    """Return, for each base model that is pretrained here, the first run that needs it, which makes
    it where it does not exist yet. A run that trains nothing is preferred."""
    first: list[Experiment] = []
    for x in sorted(experiments, key=lambda x: x.optim.steps > 0):
        if x.model.pretrain is not None and all(x.model != other.model for other in first):
            first.append(x)
    return first


def runs_of(config: Reproduce, sweep: Sweep) -> list[Experiment]:
    """Return the sweep's runs, seed by seed. A row is composed once, since its runs differ only in
    the seed and the seed's base model."""
    first, rows = sweep.seeds[0], []
    for name in sweep.rows:
        where = [f"table={sweep.table}", f"seed={first}", f"results_dir={config.root}"]
        trained = not name.endswith(BASE)
        changed = [o for o in sweep.overrides if trained or "optim.steps" not in o]
        row = name.removeprefix(OF_STUDY)
        paper = config.paper if row == name else STUDY
        rows.append(_loaded(paper, (f"experiment={row}", *where, *changed)))
    return [x if x.seed == seed else with_seed(x, seed) for seed in sweep.seeds for x in rows]


@cache
def _loaded(paper: str, words: tuple[str, ...]) -> Experiment:
    return load(list(words), paper)


def evaluations(config: Reproduce) -> list[Evaluate]:
    """Return the evaluations of every model of the scale, checked."""
    sweeps = [sweep for sweep in config.sweeps if sweep.benchmarks]
    return on_rare([e for sweep in sweeps for e in evaluations_of(runs_of(config, sweep), sweep)])


def on_rare(evaluations: list[Evaluate]) -> list[Evaluate]:
    """Return `evaluations`, where each evaluation of a trained model's NLL (`rare_share`) names the
    evaluation of its base model whose samples it scores. Raises UserError where the scale has no
    such evaluation."""

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
    """Return `e`, changed to score the stored samples of the run folder `samples` and draw none."""
    return replace(e, scores=samples, engine="local", tensor_parallel=None)


def evaluations_of(runs: list[Experiment], sweep: Sweep) -> list[Evaluate]:
    """Return the evaluations of each model of a sweep on each benchmark.

    The settings of an evaluation come from the experiment: weights, chat markup, temperature,
    length, seed, device, and the engine of its backend. `benchmarks` may override them. An
    experiment of no steps stands for the untrained model: it has one evaluation per benchmark, and
    no training. Raises UserError for a baseline that is not in the sweep.
    """
    for key, named in (("also_at", sweep.also_at), ("scored", sweep.scored)):
        unknown = sorted(set(named) - set(sweep.benchmarks))
        require(not unknown, key, unknown, f"use some of {', '.join(sweep.benchmarks)}")
    found = []
    by_label = {(x.model.name, x.seed, x.label): x.run_id for x in runs}
    for x in runs:
        baseline, wanted = None, sweep.baselines.get(x.label)
        if wanted is not None:
            baseline = by_label.get((x.model.name, x.seed, wanted))
            remedy = f"no run of {x.model.name}, seed {x.seed} in table {sweep.table} has it"
            require(baseline is not None, f"baselines.{x.label}", wanted, remedy)
        untrained = x.optim.steps == 0
        row = row_of(x, "", sweep.checkpoint, None if untrained else baseline)  # a hash: once a run
        row = replace(row, steps=x.optim.steps or None)
        path = Path(x.results_dir) / x.paper / row.trained / "model"
        model = x.model if untrained else replace(x.model, path=str(path), pretrain=None)
        for printed, words in sweep.benchmarks.items():
            stated = {word.partition("=")[0] for word in words}
            taken = {key: value for key, value in _settings_of(x).items() if key not in stated}
            template = _on_benchmark(x.model.chat, sweep.n, tuple(words))
            points = (sweep.checkpoint, *sweep.also_at.get(printed, ()))
            for checkpoint in (checkpoints.UNTRAINED,) if untrained else points:
                own = replace(row, benchmark=printed, checkpoint=checkpoint)
                drawn = replace(template, **taken, label=x.model.name, model=model, row=own)
                found.append(drawn)
                if printed in sweep.scored:
                    found.append(scored(drawn, drawn.path.name))
    return found


def row_of(
    x: Experiment, benchmark: str, checkpoint: checkpoints.Choice, baseline: str | None = None
) -> Row:
    """Return the row of a table that numbers of the training `x` belong to."""
    shown = (x.paper, x.scope, x.table, x.label)
    return Row(*shown, benchmark, x.seed, x.run_id, checkpoint, baseline)


def _settings_of(x: Experiment) -> dict[str, Any]:
    """Return the settings that an evaluation takes from `x`, unless its own overrides set them."""
    return {
        "engine": backend(x.backend).engine,
        "temperature": x.eval.temperature,
        "max_tokens": x.eval.max_tokens,
        "batch": None,
        "seed": x.seed,
        "device": x.device,
        "threads": x.threads,
        "memory_gb": x.verification.memory_gb,
        "results_dir": x.results_dir,
    }


@cache
def _on_benchmark(chat: str | None, n: int | None, words: tuple[str, ...]) -> Evaluate:
    """Return an evaluation on a benchmark of configs/eval with the overrides `words`, for prompts
    in this chat markup. The model and the experiment's settings must still be set."""
    model = ["model=huggingface", "model.path=trained", f"model.chat={chat or 'null'}"]
    sampled = [f"n={n}"] if n else []
    return strict(Evaluate, compose(CONFIGS, [*model, *sampled, *words], "evaluate"))
