"""What an evaluation is: its configuration, and the name of its run folder."""

import inspect
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from common.config.contents import contents
from common.config.resolve import resolve
from common.config.schema import Folder, Model
from common.datasets.benchmark import Benchmark, Probability
from common.errors import require
from common.evaluation import checkpoints
from common.results.files import config_hash

PAPER = "evaluations"
# Samples a chunk. The last answers of a chunk are drawn by few rows at a time: at 2,048 samples a
# GPU is idle for a quarter of the time and more. The local engine's is what it decodes at once.
BATCH = {"local": 2048, "vllm": 16384}
SCORED = 128  # samples that are scored and stored at a time
SHOWN_IN = ("scope", "table", "method")  # of a Row: where its numbers stand


@dataclass(frozen=True)
class Row:
    """Whose row an evaluation's numbers are: a trained model's, in a paper's table. An evaluation
    is the same whatever table shows it (SHOWN_IN)."""

    paper: str
    scope: Literal["laptop", "laptop_maze", "cluster"]
    table: str
    method: str
    benchmark: str  # as the paper's tables print it
    seed: int  # of the training
    trained: str  # its run id
    checkpoint: checkpoints.Choice
    baseline: str | None  # run id of the training whose best step is the last candidate
    # of the training: a longer one's further checkpoints are no candidates
    steps: int | None = None


@dataclass(frozen=True)
class Evaluate:
    """One evaluation: configs/evaluate.yaml says what the keys mean."""

    label: str
    engine: Literal["local", "vllm"]
    n: PositiveInt
    temperature: NonNegativeFloat  # 0: the likeliest token each time
    top_p: Probability
    max_tokens: PositiveInt
    batch: PositiveInt | None  # None: BATCH
    seed: int
    device: Literal["auto", "cpu", "cuda"]
    threads: PositiveInt
    workers: PositiveInt
    memory_gb: PositiveFloat
    results_dir: Folder
    row: Row | None
    model: Model
    eval: Benchmark
    # GPUs that share one vLLM; None: one. Outside the identity: it changes memory and speed
    tensor_parallel: PositiveInt | None = None
    # the first so many problems of the set; None: all
    limit: PositiveInt | None = None
    # the run folder beside this one whose samples the model scores (scoring.py); None: it samples
    scores: str | None = None

    def __post_init__(self):
        require(
            self.tensor_parallel in (None, 1) or self.engine == "vllm",
            "tensor_parallel",
            self.tensor_parallel,
            "engine=local uses one GPU; set engine=vllm",
        )
        require(
            self.temperature > 0 or self.n == 1,
            "n",
            self.n,
            "at temperature=0 every sample of a problem is the same; set n=1",
        )
        require(
            self.limit is None or self.row is None,
            "limit",
            self.limit,
            "a row of a paper's table is of the whole set; leave it out",
        )
        if self.batch is None:
            object.__setattr__(self, "batch", BATCH[self.engine])
        resolve(self.eval.prompts, "eval.prompts")
        resolve(self.eval.verifier, "eval.verifier")

    @property
    def per_chunk(self) -> int:
        """Problems of a chunk; a problem's samples stay together."""
        return max(1, self.batch // self.n)

    @property
    def path(self) -> Path:
        """The run folder."""
        readable = f"{self.row.trained}-{self.row.benchmark}" if self.row else self._readable
        readable += "-scored" if self.scores else ""
        paper = self.row.paper if self.row else PAPER
        return Path(self.results_dir) / paper / run_name(readable, self.identity())

    @property
    def _readable(self) -> str:
        return f"{self.label}-{self.eval.name}"

    def identity(self) -> dict:
        """All that the numbers depend on; of a trained model its run id, wherever it lies."""
        known = {"label": self.label, "sampling": self.sampling(), "eval": self.benchmark()}
        known |= {"limit": self.limit} | ({"scores": self.scores} if self.scores else {})
        if self.row is None:
            known |= {"model": asdict(self.model)}
            named = contents(known, self.results_dir)
            return known | ({"contents": named} if named else {})
        row = asdict(self.row)
        return known | {"row": {key: row[key] for key in row if key not in SHOWN_IN}}

    def sampling(self) -> dict:
        """What a response was drawn with."""
        names = ("engine", "n", "temperature", "top_p", "max_tokens", "batch", "seed")
        return {name: getattr(self, name) for name in names}

    def benchmark(self) -> dict:
        """The benchmark's name, prompts and verifier, with every option of the latter."""
        names = ("name", "prompts", "deadline", "rare_share")
        known = {name: getattr(self.eval, name) for name in names}
        return known | {"verifier": options(self.eval.verifier)}


def options(verifier: dict) -> dict:
    """A verifier's node with the options that it leaves at their default written out."""
    function = resolve(verifier, "eval.verifier")
    parameters = inspect.signature(function.func).parameters.values()
    known = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    return {"_target_": verifier["_target_"], **known, **function.keywords}


def run_name(readable: str, config: dict) -> str:
    """The folder of the run that `config` describes: something readable and a hash."""
    short = re.sub(r"[^\w.+-]+", "-", readable)[-80:].strip("-.")
    return f"{short}-{config_hash(config)}"
