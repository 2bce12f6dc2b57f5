"""The configuration of an evaluation, and the name of its run folder."""

import inspect
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from common.config.contents import contents
from common.config.resolve import resolve
from common.config.schema import Folder, Model, Text
from common.datasets.benchmark import Benchmark, Probability
from common.datasets.prompts import stated
from common.errors import require
from common.evaluation import checkpoints
from common.results.files import config_hash

PAPER = "evaluations"
BATCH = 2048  # samples per chunk of the local engine, which decodes a whole chunk at once
# At most so many samples, and about so many tokens if all responses reach the limit, per chunk of
# vLLM: within an hour of an H100 for 7B models. Models that may write over LONG tokens use most
# of them. Small chunks leave a GPU idle at their end.
MOST, TOKENS, LONG, LONG_TOKENS = 16384, 15_500_000, 8192, 4_000_000
SCORED = 128  # samples that are scored and stored at a time
SHOWN_IN = ("scope", "table", "method")  # fields of a Row: where its numbers are shown


@dataclass(frozen=True)
class Row:
    """The row of a paper's table for which a trained model is evaluated."""

    paper: str
    scope: Literal["laptop", "cluster"]
    table: str
    method: str
    benchmark: str  # as the paper's tables print it
    seed: int  # of the training run
    trained: str  # run id of the training run
    checkpoint: checkpoints.Choice
    baseline: str | None  # run id; steps after this run's best step are no candidates
    # training steps: later checkpoints of a longer training run are no candidates
    steps: int | None = None


@dataclass(frozen=True)
class Evaluate:
    """One evaluation. configs/evaluate.yaml says what the keys mean."""

    label: str
    engine: Literal["local", "vllm"]
    n: PositiveInt
    temperature: NonNegativeFloat  # 0: the likeliest token each time
    top_p: Probability
    max_tokens: PositiveInt
    batch: PositiveInt | None  # samples per chunk; None: see `_batch`
    seed: int
    device: Literal["auto", "cpu", "cuda", "mps"]
    threads: PositiveInt
    workers: PositiveInt
    memory_gb: PositiveFloat
    results_dir: Folder
    row: Row | None
    model: Model
    eval: Benchmark
    # GPUs that share one vLLM engine (None: one); only changes memory and speed
    tensor_parallel: PositiveInt | None = None
    # evaluate only the first so many problems of the set; None: all
    limit: PositiveInt | None = None
    # the run folder beside this one whose samples the model scores (scoring.py); None: it draws
    scores: str | None = None
    stop: list[Text] = field(default_factory=list)  # a response is read up to the first of these

    def __post_init__(self):
        fits = self.tensor_parallel in (None, 1) or self.engine == "vllm"
        remedy = "engine=local uses one GPU; set engine=vllm"
        require(fits, "tensor_parallel", self.tensor_parallel, remedy)
        differ = self.temperature > 0 or self.n == 1
        remedy = "at temperature=0 every sample of a problem is the same; set n=1"
        require(differ, "n", self.n, remedy)
        free = self.limit is None or self.row is None
        remedy = "a row of a paper's table needs the whole set; leave it out"
        require(free, "limit", self.limit, remedy)
        if self.batch is None:
            object.__setattr__(self, "batch", self._batch())
        resolve(self.eval.prompts, "eval.prompts")
        resolve(self.eval.verifier, "eval.verifier")

    def _batch(self) -> int:
        """Return the samples per chunk; with vLLM those of the nearest number of whole problems."""
        if self.engine == "local":
            return BATCH
        tokens = TOKENS if self.max_tokens <= LONG else LONG_TOKENS
        return self.n * max(1, round(min(MOST, tokens / self.max_tokens) / self.n))

    @property
    def per_chunk(self) -> int:
        """The number of problems per chunk; a problem's samples stay together."""
        return max(1, self.batch // self.n)

    def sizes(self, problems: int | None = None) -> list[int]:
        """Return the problems of each chunk; `problems` in all if the benchmark states no size."""
        asked = stated(self.eval.prompts) or problems or 0
        asked = min(asked, self.limit or asked)
        return [min(self.per_chunk, asked - i) for i in range(0, asked, self.per_chunk)]

    @property
    def path(self) -> Path:
        readable = f"{self.label}-{self.eval.name}"
        if self.row:
            readable = f"{self.row.trained}-{self.row.benchmark}"
        readable += "-scored" if self.scores else ""
        paper = self.row.paper if self.row else PAPER
        return Path(self.results_dir) / paper / run_name(readable, self.identity())

    def identity(self) -> dict:
        """Return all that the numbers depend on; a trained model is represented by its run id."""
        known = {"label": self.label, "sampling": self.sampling(), "eval": self.benchmark()}
        known |= {"limit": self.limit} | ({"scores": self.scores} if self.scores else {})
        if self.row is None:
            known |= {"model": asdict(self.model)}
            named = contents(known, self.results_dir)
            return known | ({"contents": named} if named else {})
        row = asdict(self.row)
        return known | {"row": {key: row[key] for key in row if key not in SHOWN_IN}}

    def sampling(self) -> dict:
        names = ("engine", "n", "temperature", "top_p", "max_tokens", "batch", "seed")
        known = {name: getattr(self, name) for name in names}
        return known | ({"stop": self.stop} if self.stop else {})

    def benchmark(self) -> dict:
        """Return the benchmark's settings, and its verifier with every option."""
        names = ("name", "prompts", "deadline", "rare_share")
        known = {name: getattr(self.eval, name) for name in names}
        return known | {"verifier": options(self.eval.verifier)}


@dataclass(frozen=True)
class Suite:
    """What one job evaluates: a model on its benchmarks, in this order."""

    evaluations: list[Evaluate]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(e.path.name for e in self.evaluations)


def options(verifier: dict) -> dict:
    """Return a verifier's node with all its options written out, also the defaults."""
    function = resolve(verifier, "eval.verifier")
    parameters = inspect.signature(function.func).parameters.values()
    known = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    return {"_target_": verifier["_target_"], **known, **function.keywords}


def run_name(readable: str, config: dict) -> str:
    """Return the folder name of the run that `config` describes: something readable and a hash."""
    short = re.sub(r"[^\w.+-]+", "-", readable)[-80:].strip("-.")
    return f"{short}-{config_hash(config)}"
