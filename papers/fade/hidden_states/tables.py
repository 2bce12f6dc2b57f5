"""How alike the hidden states of right and of wrong responses are, in laptop checkpoints and in
made-up data (FADE Sec. 15.1, 15.2; Fig. 3 left, Tables 10, 11).

Every finished laptop run of FADE below results_dir, and the model that it started from, answers
training prompts; `papers/fade/hidden_states/formulas.py` has the formulas. Written to
results_dir/fade/hidden_states:

    residuals    a row a checkpoint and direction u: rho_perp, residual norms, their baseline. u is
                 the leading right singular vector of the batch gradient with A = r - rbar (Sec.
                 15.1's text) or of the states themselves (its footnote)
    proposition  r_1 of N made-up tokens, its limit (Prop. 15.1), and ||R_F|| (Cor. 15.2), by N, the
                 number of wrong modes K, and delta; where two wrong modes are orthogonal, which
                 Cor. 15.2 supposes, and where they are not (`cosine`)
"""

import json
from dataclasses import asdict
from functools import cache
from pathlib import Path

from common.config.schema import Model, Verification
from common.config.strict import strict
from common.datasets.solve_rate import training
from common.results.files import write_csv, write_json
from papers.fade.hidden_states.config import States
from papers.fade.weights.checkpoints import Checkpoint, laptop_runs


def tokens(policy, tokenizer, prompts, verify, *, group_size: int, max_tokens: int, seed: int):
    """(A, v, h, correct) of every token of `group_size` responses to each prompt, numpy: A = r -
    rbar of its response, v = e_y - pi (V,), h (d,) what the output head reads."""
    import torch

    from common.rollout.local import encode, generate
    from common.seeds import generator
    from common.verifiers.rewards import rewards, verify_batch

    ids, mask = encode(tokenizer, [prompt.text for prompt in prompts], "cpu")
    batch = generate(
        policy,
        ids,
        mask,
        group_size=group_size,
        temperature=1.0,
        max_tokens=max_tokens,
        eos_id=tokenizer.eos_token_id,
        generator=generator(seed, "hidden states"),
    )
    _, verdicts = verify_batch(batch, prompts, tokenizer, verify)
    reward = rewards(verdicts, group_size, 1.0, 0.0)
    A = (reward - reward.mean(1, keepdim=True)).flatten()
    prompt_ids, prompt_mask = (t.repeat_interleave(group_size, 0) for t in (ids, mask))
    attention = torch.cat([prompt_mask, batch.mask.to(mask.dtype)], 1)
    with torch.no_grad():
        h = policy.model(
            input_ids=torch.cat([prompt_ids, batch.response_ids], 1),
            attention_mask=attention,
            position_ids=(attention.cumsum(1) - 1).clamp(min=0),
        ).last_hidden_state[:, ids.shape[1] - 1 : -1]
        real = batch.mask > 0
        h = h[real]
        v = -torch.softmax(policy.lm_head(h), -1)
    v[torch.arange(len(v)), batch.response_ids[real]] += 1
    each = real.sum(1)
    A, correct = (t.repeat_interleave(each) for t in (A, reward.flatten() == 1))
    return A.double().numpy(), v.double().numpy(), h.double().numpy(), correct.numpy()


@cache
def training_prompts(node: str) -> list:
    """Of a run's `data.train`, as JSON: most runs have the same."""
    return training(json.loads(node), "data.train")


def measured(config: States, one: Checkpoint, stored: dict) -> list[dict]:
    """The rows of one checkpoint; `stored` is the configuration of its run."""
    from common.models.load import load_model
    from common.verifiers.guard import judges
    from papers.fade.hidden_states import formulas

    held = Model(name=one.name, path=str(one.path), chat=None, pretrain=None)
    policy, tokenizer = load_model(held, Path(config.results_dir), "cpu")
    every = training_prompts(json.dumps(stored["data"]["train"]))
    with judges(stored["data"]["verifier"], strict(Verification, stored["verification"])) as verify:
        A, v, h, correct = tokens(
            policy,
            tokenizer,
            every[: config.prompts],
            verify,
            group_size=config.group_size,
            max_tokens=stored["sampling"]["max_tokens"],
            seed=config.seed,
        )
    gradient = formulas.head_gradient(A, v, h)
    about = {"checkpoint": one.name, "label": one.label, "seed": one.seed, "step": one.step}
    rows = []
    for name, matrix in (("gradient", gradient), ("states", h)):
        u = formulas.leading_direction(matrix)
        numbers = formulas.compare(v, h, correct, u, config.seed)
        rows.append(about | {"direction": name, "r1": formulas.rank1(gradient)} | numbers)
    return rows


def residual_rows(config: States, progress: bool):
    """A row a checkpoint (the last of each run, and each base model) and direction."""
    import pandas as pd
    import yaml
    from rich.progress import track

    root, jobs = Path(config.results_dir), []
    for base, after in laptop_runs(root):
        ends = {(one.label, one.seed): one for one in after}  # in the order of steps
        stored = [yaml.safe_load((one.run / "config.yaml").read_text()) for one in ends.values()]
        jobs += [(base, stored[0]), *zip(ends.values(), stored, strict=True)]
    rows = [
        row
        for one, stored in track(jobs, "hidden states", disable=not progress)
        for row in measured(config, one, stored)
    ]
    return pd.DataFrame(rows)


def proposition(config: States):
    """Prop. 15.1 and Corollary 15.2 on made-up modes: r_1 of N tokens, its limit, ||R_F|| in
    expectation, and the cosine of two wrong modes, which Corollary 15.2 supposes to be 0."""
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


def run(config: States, progress: bool = True) -> Path:
    """Write both tables and return their folder; `residuals` only where there are runs."""
    write_csv(config.folder / "proposition.csv", proposition(config))
    rows = residual_rows(config, progress)
    if len(rows):
        write_csv(config.folder / "residuals.csv", rows)
    write_json(config.folder / "settings.json", asdict(config))
    return config.folder
