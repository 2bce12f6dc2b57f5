"""Similarity of hidden states among right and among wrong responses, in checkpoints of any size
that answer an experiment's training prompts (FADE Sec. 15.1, 15.2; Fig. 3 left, Tables 10, 11).

results_dir/fade/hidden_states/residuals.csv has a row for each checkpoint: rho_perp, residual norms
and their baseline. Their direction u is the leading right singular vector of the batch gradient
with A = r - rbar, as in the text of Sec. 15.1. Its footnote has that of the states.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from common.config.resolve import resolve
from common.config.schema import Folder, Model
from common.datasets.solve_rate import unfiltered
from common.errors import require
from common.experiment import Experiment, load
from common.metrics import weights
from common.results.files import write_csv
from papers.fade.hidden_states import formulas
from papers.fade.hidden_states.batch import errors, tokens
from papers.fade.weights.checkpoints import Checkpoint, checkpoints_of


@dataclass(frozen=True)
class States:
    prompts: int
    group_size: int
    seed: int
    checkpoints: list[str]  # folders
    of: list[str]  # overrides of a FADE experiment: the checkpoints use its prompts and verifier
    device: Literal["cpu", "cuda"]
    responses: int  # the number of responses that the model reads at once
    block_mb: float  # size of the block of v = e_y - pi that is in memory at once
    results_dir: Folder

    def __post_init__(self):
        for key in ("prompts", "group_size"):
            require(getattr(self, key) >= 2, key, getattr(self, key), "must be at least 2")


def run(config: States, progress: bool = False) -> Path:
    from rich.progress import track

    remedy = "give checkpoints=[FOLDER,...] and of=[experiment=NAME]"
    require(bool(config.checkpoints and config.of), "checkpoints", config.checkpoints, remedy)
    folder = Path(config.results_dir) / "fade" / "hidden_states"
    x = load(config.of, "fade")
    prompts = resolve(unfiltered(x.data.train), "data.train")()[: config.prompts]
    given = track(checkpoints_of(config.checkpoints), "hidden states", disable=not progress)
    rows = pd.DataFrame([measured(config, one, x, prompts) for one in given])
    write_csv(folder / "residuals.csv", rows)
    return folder


def measured(config: States, one: Checkpoint, x: Experiment, prompts: list) -> dict:
    """Return the row of one checkpoint; `x` has the verifier and the longest response."""
    from common.models.load import load_model
    from common.verifiers.guard import judges

    held = Model(name=one.name, path=str(one.path), chat=None, pretrain=None)
    policy, tokenizer = load_model(held, Path(config.results_dir), config.device)
    with judges(x.data.verifier, x.verification) as verify:
        found = tokens(
            policy,
            tokenizer,
            prompts,
            verify,
            group_size=config.group_size,
            max_tokens=x.sampling.max_tokens,
            seed=config.seed,
            responses=config.responses,
        )
    at_once = max(1, int(config.block_mb * 2**17 / policy.lm_head.weight.shape[0]))
    weighted = formulas.weightings(found.A, found.correct, config.seed)
    sums = formulas.outer_sums(errors(policy.lm_head, found, at_once), found.h, weighted)
    gradient = decomposed(sums.pop("gradient"))
    numbers = formulas.compare(sums, found.h, found.correct, gradient.v)
    return one.about() | {"r1": gradient.rank1} | numbers


def decomposed(matrix: np.ndarray) -> weights.Svd:
    blocks = partial(np.array_split, matrix, -(-len(matrix) // 8192))
    return weights.full(blocks, wide=matrix.shape[0] < matrix.shape[1])
