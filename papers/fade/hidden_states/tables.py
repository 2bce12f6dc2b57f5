"""Similarity of hidden states among right and among wrong responses, in checkpoints and in
synthetic data (FADE Sec. 15.1, 15.2; Fig. 3 left, Tables 10, 11).

The checkpoints answer training prompts. They are the final models of all finished FADE laptop runs
below results_dir with the models that these started from, or given checkpoints of any size. The
formulas are in papers/fade/hidden_states/formulas.py. Written to results_dir/fade/hidden_states:

    residuals    one row for each checkpoint and direction u: rho_perp, residual norms and their
                 baseline. u is the leading right singular vector of the batch gradient with
                 A = r - rbar (as in the text of Sec. 15.1) or of the states (as in its footnote)
    successive   |cos| between the batch gradients of every two successive given checkpoints
                 (Sec. 4.2). Here both answer the same prompts; the paper compares successive steps
                 with their own batches
    proposition  r_1 of N synthetic tokens, its limit (Prop. 15.1), and ||R_F|| (Cor. 15.2), by N,
                 the number of wrong modes K, and delta; once with orthogonal wrong modes, as
                 Cor. 15.2 assumes, and once with modes that are not orthogonal (`cosine`)
"""

import json
import math
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np

from common.config.resolve import resolve
from common.config.schema import Model, Verification
from common.config.strict import strict
from common.datasets.solve_rate import unfiltered
from common.errors import require
from common.results.files import write_csv, write_json
from papers.fade.hidden_states.batch import errors, tokens
from papers.fade.hidden_states.config import States
from papers.fade.weights.checkpoints import Checkpoint, laptop_runs, named, tensors


@cache
def training_prompts(node: str) -> list:
    """Load the training prompts of a run from its `data.train` as JSON text.

    The result is cached, as most runs have the same prompts. Easy prompts are not filtered out.
    """
    return resolve(unfiltered(json.loads(node)), "data.train")()


@dataclass(frozen=True)
class Head:
    """The batch gradient at one checkpoint's output head, and its leading right singular vector."""

    of: Checkpoint
    gradient: np.ndarray
    u: np.ndarray


def measured(config: States, one: Checkpoint, stored: dict) -> tuple[list[dict], Head]:
    """Return the rows of one checkpoint and its batch gradient.

    `stored` is the configuration of its run.
    """
    from common.metrics import weights
    from common.models.load import load_model
    from common.verifiers.guard import judges
    from papers.fade.hidden_states import formulas

    held = Model(name=one.name, path=str(one.path), chat=None, pretrain=None)
    policy, tokenizer = load_model(held, Path(config.results_dir), config.device)
    every = training_prompts(json.dumps(stored["data"]["train"]))
    with judges(stored["data"]["verifier"], strict(Verification, stored["verification"])) as verify:
        found = tokens(
            policy,
            tokenizer,
            every[: config.prompts],
            verify,
            group_size=config.group_size,
            max_tokens=stored["sampling"]["max_tokens"],
            seed=config.seed,
            responses=config.responses,
        )
    head = policy.lm_head
    number = 8 if config.dtype == "float64" else 4
    at_once = max(1, int(config.block_mb * 2**20 / number / head.weight.shape[0]))
    weighted = formulas.weightings(found.A, found.correct, config.seed)
    sums = formulas.outer_sums(errors(head, found, at_once), found.h, weighted, config.dtype)
    gradient, h = sums.pop("gradient"), found.h
    blocks = partial(np.array_split, gradient, -(-len(gradient) // 8192))
    svd = weights.full(lambda: iter(blocks()))
    states = weights.full(lambda: iter(np.array_split(h, -(-len(h) // 8192))))
    about = {"checkpoint": one.name, "label": one.label, "seed": one.seed, "step": one.step}
    rows = []
    for name, u in (("gradient", svd.v), ("states", states.v)):
        numbers = formulas.compare(sums, h, found.correct, u)
        rows.append(about | {"direction": name, "r1": svd.rank1} | numbers)
    return rows, Head(one, gradient, svd.v)


def successive(one: Head, two: Head) -> dict:
    """Return |cos| between the batch gradients of two checkpoints (Sec. 4.2, Corollary 15.3).

    It is computed for the gradients as matrices and for their leading right singular vectors.
    """
    from common.metrics.weights import cosine

    return {
        "checkpoint": one.of.name,
        "next": two.of.name,
        "step": one.of.step,
        "next_step": two.of.step,
        "cos_gradient": cosine(one.gradient.ravel(), two.gradient.ravel()),
        "cos_u": cosine(one.u, two.u),
    }


def jobs_of(config: States) -> list[tuple[Checkpoint, dict]]:
    """Return (checkpoint, configuration of its run) for all checkpoints to measure.

    These are the given ones, or the last one of each laptop run and each base model.
    """
    import yaml

    from common.experiment import load

    if config.checkpoints:
        stored = asdict(load(config.of, "fade"))
        return [(one, stored) for one in named(config.checkpoints)]
    jobs = []
    for base, after in laptop_runs(Path(config.results_dir)):
        ends = {(one.label, one.seed): one for one in after}  # steps ascend, so the last one stays
        runs = [yaml.safe_load((one.run / "config.yaml").read_text()) for one in ends.values()]
        jobs += [(base, runs[0]), *zip(ends.values(), runs, strict=True)]
    return jobs


def residual_rows(config: States, progress: bool):
    """Return (one row per checkpoint and direction, one per two successive given checkpoints)."""
    import pandas as pd
    from rich.progress import track

    jobs, before, rows, pairs = jobs_of(config), None, [], []
    for one, stored in jobs:
        check_memory(config, one, stored["sampling"]["max_tokens"])
    for one, stored in track(jobs, "hidden states", disable=not progress):
        more, head = measured(config, one, stored)
        rows += more
        if config.checkpoints:
            pairs += [] if before is None else [successive(before, head)]
            before = head
    return pd.DataFrame(rows), pd.DataFrame(pairs)


def check_memory(config: States, one: Checkpoint, max_tokens: int) -> None:
    """Raise UserError naming memory_gb if measuring this checkpoint needs more memory."""
    from transformers import AutoConfig

    shapes = [shape for _, shape in tensors(one.path).values()]
    needed = memory_gb(config, AutoConfig.from_pretrained(one.path), shapes, max_tokens)
    require(
        needed <= config.memory_gb,
        "memory_gb",
        config.memory_gb,
        f"{one.name} takes {needed:.2g} GB; allow as much, or lower prompts={config.prompts}, "
        f"group_size={config.group_size}, responses={config.responses} or "
        f"block_mb={config.block_mb:g}, or set dtype=float32",
    )


def memory_gb(config: States, model, shapes: list[tuple[int, ...]], max_tokens: int) -> float:
    """Return the largest memory that `measured` takes, in GB of 1e9 bytes.

    All responses are taken to be max_tokens long, and prompts to have at most as many tokens. The
    sum has 1 GB for Python and its libraries; the model and the key-value cache of its responses in
    float32; one pass over `responses`; the states twice; blocks of v in three copies; the sums over
    tokens, one more sum while it is added to, and the gradient of the checkpoint before.
    """
    number = 8 if config.dtype == "float64" else 4
    d, V = model.hidden_size, model.vocab_size
    size = getattr(model, "head_dim", None) or d // model.num_attention_heads
    rows = config.prompts * config.group_size
    cache = 2 * model.num_hidden_layers * model.num_key_value_heads * size * 2 * rows * max_tokens
    at_once = min(rows, config.responses) * 2 * max_tokens * (8 * d + 3 * model.intermediate_size)
    held = 4 * (sum(map(math.prod, shapes)) + cache + at_once + 2 * rows * max_tokens * d)
    v = min(config.block_mb * 2**20, rows * max_tokens * V * number)
    return 1 + (held + 3 * v + 6 * V * d * number + 4 * 8 * d * d) / 1e9


def proposition(config: States):
    """Return the table of Prop. 15.1 and Corollary 15.2 on synthetic modes.

    It holds r_1 of N tokens, its limit, ||R_F|| in expectation, and the mean cosine of two wrong
    modes, which Corollary 15.2 assumes to be 0.
    """
    from itertools import product

    import pandas as pd

    from papers.fade.hidden_states import formulas

    rows = []
    for apart, K, delta in product((False, True), config.K, config.delta):
        made = dict(K=K, delta=delta, p=config.p, d=config.width, apart=apart)
        A, v, h, mode = formulas.expectation(**made)
        u = formulas.leading_direction(formulas.head_gradient(A, v, h))
        wrong = mode > 0
        fixed = {
            "limit": formulas.rank1_limit(A, v, h, u),
            "norm_R_F": formulas.residual_norm(v[wrong], formulas.perpendicular(h[wrong], u)),
            "modes": "orthogonal" if apart else "not orthogonal",
            "cosine": formulas.wrong_modes_cosine(h, mode, u),
        }
        for N in config.N:
            drawn = formulas.modes(N=N, noise=config.noise, seed=config.seed, **made)
            r1 = formulas.rank1(formulas.head_gradient(*drawn[:3]))
            rows.append({"K": K, "delta": delta, "N": N, "r1": r1} | fixed)
    return pd.DataFrame(rows)


def run(config: States, progress: bool = False) -> Path:
    """Write the tables and the settings, and return their folder.

    `residuals` needs runs or given checkpoints, `successive` needs two given checkpoints.
    """
    write_csv(config.folder / "proposition.csv", proposition(config))
    rows, pairs = residual_rows(config, progress)
    if len(rows):
        write_csv(config.folder / "residuals.csv", rows)
    if len(pairs):
        write_csv(config.folder / "successive.csv", pairs)
    write_json(config.folder / "settings.json", asdict(config))
    return config.folder
