"""The settings of an experiment beside those that its paper prints: numbers and words."""

import csv
import re
from typing import Any, NamedTuple

from common.config.files import ROOT
from common.datasets.templates import INSTRUCTIONS
from common.experiment import Experiment

NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w])")
SIZED = ("max response length", "max length", "max generation length", "ppo clip")  # once a model
SCOPES = ("training", "evaluation", "data", "models", "prompt")
SCOPES += ("repo: training", "repo: evaluation")  # of the authors' repository
AGGREGATIONS = {  # in the papers' words
    "token_mean": "token-mean",
    "sequence_mean_token_mean": "per-sequence token mean",
    "token_sum": "sum of token losses",
}


class Sampled(NamedTuple):
    """What a model of a row is evaluated with: of the jobs of its sweep, or of the curve."""

    n: int
    temperature: float
    top_p: float
    max_tokens: int
    draws: tuple[int, int] | None  # questions and draws of a subsampled set


class Compared(NamedTuple):
    """A printed row beside ours; `same` is None where it was not compared."""

    row: dict
    ours: Any
    same: bool | None

    @property
    def difference(self) -> str:
        row = self.row
        ours = self.ours
        if isinstance(ours, tuple):
            ours = ", ".join(f"{value:g}" for value in ours)
        said, source = (short(row[column]) for column in ("value", "source"))
        return f"{row['scope']}: {row['parameter']}: {ours}, printed {said} ({source})"


def compared(x: Experiment, pool: int | None) -> list[str]:
    """Lines that say which printed settings are other than ours, how many could be compared, and
    which could not.

    `pool` is the number of training prompts, None where it is not known.
    """
    table = f"papers/{x.paper}/published/hyperparameters.csv"
    if not (ROOT / table).is_file():
        return [f"No setting was compared with the paper: {table} is missing"]
    rows = beside(x, pool)
    known = [one for one in rows if one.same is not None]
    if not known:
        return [
            f"No setting was compared with the paper: {table} has no value of a name known here"
        ]
    differ = [f"  {one.difference}" for one in known if not one.same]
    said = f"Of the {len(rows)} rows of {table}, {len(known)} were compared"
    lines = [f"{said}; other than printed:", *differ] if differ else [f"{said}; all are as printed"]
    left = [
        one.row["parameter"]
        for one in rows
        if one.same is None and one.row["scope"] in SCOPES and concerns(x, one.row)
    ]
    return [*lines, f"Not compared: {'; '.join(left)}"] if left else lines


def beside(x: Experiment, pool: int | None, sampled: Sampled | None = None) -> list[Compared]:
    """Every printed row beside ours. Rows of a method or a model are compared only where they are
    this experiment's; numbers by value, words where ours stand in the printed ones."""
    with open(ROOT / "papers" / x.paper / "published" / "hyperparameters.csv", newline="") as file:
        printed = list(csv.DictReader(file))
    numbers, texts = values(x, pool, sampled), words(x)
    return [_compare(x, row, numbers, texts) for row in printed]


def _compare(x: Experiment, row: dict, numbers: dict, texts: dict) -> Compared:
    name = name_of(row["parameter"])
    unknown = Compared(row, None, None)
    if not concerns(x, row):
        return unknown
    if row["scope"].endswith("evaluation") and name in ("temperature", "top-p", "max tokens"):
        name = f"{name} (all models)"
    if row["scope"] == "models" and name in ("7b", "1.5b", "14b", "32b"):
        name = "backbones"
    text = texts.get(name)
    if text is not None:
        there = plain(row["value"])
        return Compared(row, text, all(plain(line) in there for line in text.split("\n")))
    value = numbers.get(name)
    if value is None:
        return unknown
    mine = [float(number) for number in (value if isinstance(value, tuple) else [value])]
    theirs = [float(number) for number in NUMBER.findall(row["value"])][: len(mine)]
    return Compared(row, value, theirs == mine) if theirs else unknown


def values(x: Experiment, pool: int | None, sampled: Sampled | None = None) -> dict[str, Any]:
    """Our numbers by the names under which the papers' tables print them."""
    s, o, e = x.sampling, x.optim, x.eval
    loss, controller = x.method.loss, x.method.controller or {}
    drawn = sampled or Sampled(e.n, e.temperature, 1.0, e.max_tokens, None)
    ours = {
        ("learning rate", "baseline learning rate 7b", "reference learning rate 32b"): o.lr,
        ("adam betas",): o.betas,
        ("weight decay",): o.weight_decay,
        ("gradient norm clipping",): o.grad_clip,
        ("warmup steps",): o.warmup_steps,
        ("warmup ratio",): round(o.warmup_steps / o.steps, 4) if o.steps else None,
        ("global batch size", "prompt batch size", "batch size"): s.prompts,
        ("mini-batch size",): s.prompts // o.mini_batches,
        ("epochs",): None if pool is None else round(o.steps * s.prompts / pool, 2),
        ("ppo epochs",): 1,
        ("steps", "training steps"): o.steps,
        ("sampling temperature", "temperature"): s.temperature,
        ("top-p",): 1.0,
        ("top-k", "top-k (all models)"): -1,
        ("group size n", "group size g", "rollouts per prompt g"): s.group_size,
        ("number of generations",): s.group_size,
        ("max prompt length", "filter"): x.data.train.get("max_prompt_tokens"),
        ("kl coefficient beta",): x.method.kl_coef,
        ("kl penalty coefficient (all algorithms)",): x.method.kl_coef,
        ("kl penalty coefficient chosen",): x.method.kl_coef,
        ("entropy bonus coefficient (all algorithms)",): x.method.entropy_coef,
        ("entropy bonus coefficient chosen",): x.method.entropy_coef,
        ("low learning rate",): o.lr,
        (f"{x.model.name} {x.label}".lower(),): x.method.advantage.get("gamma"),
        ("max completion length", "max response length", "max generation length"): s.max_tokens,
        ("reward correct / wrong",): (x.reward.correct, x.reward.wrong),
        ("seed",): x.seed,
        ("alpha_max",): controller.get("alpha_max"),
        ("ema coefficient beta",): controller.get("beta"),
        ("temperature (all models)",): drawn.temperature,
        ("top-p (all models)",): drawn.top_p,
        ("temperature / top-p",): (drawn.temperature, drawn.top_p),
        ("max length",): drawn.max_tokens,
        ("samples per problem n (protocol)", "samples per prompt n"): drawn.n,
        ("samples per problem n, second version",): drawn.n,
        ("ood subsample",): drawn.draws,
        ("7b", "1.5b"): (drawn.max_tokens, drawn.temperature, drawn.top_p),
        ("interval",): e.every,
        ("clip epsilon low", "clip ratio", "ppo clip"): loss.get("eps_low"),
        ("importance-weight clip epsilon low",): loss.get("eps_low"),
        ("clip epsilon high", "importance-weight clip epsilon high"): loss.get("eps_high"),
    }
    return {name: value for names, value in ours.items() for name in names}


def words(x: Experiment) -> dict[str, str]:
    """Ours in words, by the names under which the papers' tables print them: as much of the printed
    words as decides."""
    verl = x.backend == "verl"
    reads = str(x.data.verifier)
    grader = "math-verify" if "'math_verify'" in reads else "our own comparison"
    aggregation = x.method.aggregation["_target_"].rsplit(".", 1)[1]
    parts = len(x.data.verifier.get("parts", [])) or 1
    asked = INSTRUCTIONS.get(x.data.train.get("instruction"), lambda row: ("", ""))
    prompt = "\n".join(filter(None, asked({"problem": ""}))).replace("\n\n", "\n").strip()
    ours = {
        ("framework",): x.backend,
        ("rollout engine",): "vLLM" if verl else "this loop",
        ("optimizer",): "AdamW",
        ("lr scheduler",): "constant",
        ("loss aggregation",): AGGREGATIONS.get(aggregation, aggregation),
        ("verifier",): grader,
        ("reward accuracy",): "LaTeX verification" if grader == "math-verify" else grader,
        ("training system prompt", "training prompt", "template"): prompt,
        ("training set", "dataset"): {"openrs": "Open-RS", "math_train": "MATH"}.get(
            x.data.name, x.data.name
        ),
        ("trained models", "trained models, second version", "base models"): x.model.name,
        ("backbones",): x.model.name,
        ("reward format",): "<think> tags" if parts > 1 else "none",
        ("reward functions 7b",): "accuracy only" if parts == 1 else "accuracy and format",
        ("system",): "synchronous",
    }
    return {name: text for names, text in ours.items() for name in names}


def short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def name_of(parameter: str) -> str:
    """The name of a printed parameter, without the model that it is printed for."""
    lower = parameter.lower()
    return next((name for name in SIZED if lower.startswith(name)), lower)


def concerns(x: Experiment, row: dict) -> bool:
    """Whether a printed row is about this experiment's method and model."""
    scope, parameter = row["scope"], row["parameter"].lower()
    if x.data.name.startswith("maze"):  # settings of their own
        return scope == "maze"
    if x.optim.steps == 0 and scope.endswith("training"):
        return False  # a base model
    if scope == "gamma":
        return parameter == f"{x.model.name} {x.label}".lower()
    if scope == "regularizer baselines":
        chosen = {
            "grpo_entropy": "entropy bonus coefficient chosen",
            "grpo_kl": "kl penalty coefficient chosen",
        }
        low = parameter == "low learning rate" and "low LR" in x.label
        return low or parameter == chosen.get(x.method.name)
    if scope not in SCOPES:
        method = x.method.name.removeprefix("f_").replace("_", "-")
        return scope.lower() == method
    second = x.model.name == "Qwen3-4B-Base" or "_v2" in x.table
    if "second version" in parameter or parameter in ("trained models",):
        return ("second version" in parameter) == second
    if parameter == "learning rate" and "low LR" in x.label:
        return False  # its own row says so
    if parameter.startswith("group size n") and "(N=" in x.label:
        return False  # the same
    if parameter == "kl coefficient beta" and x.method.name == "grpo_kl":
        return False  # the same
    size = re.search(r"(\d+(?:\.\d+)?b)$", parameter)
    name = name_of(row["parameter"])
    if name not in SIZED:
        return size is None or size[1] in x.model.name.lower()
    which = plain(parameter.removeprefix(name))
    model = plain(x.model.name)
    own = "15bmath" in model or "qwen34bbase" in model  # those that have a length of their own
    return which in model if which != "othermodels" else not own
