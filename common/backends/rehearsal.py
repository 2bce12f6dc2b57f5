"""The rehearsal set of DPH-RL (Li et al. 2025): the base model's own answers to the prompts that it
solves already.

The base model answers each training prompt k times, and then once more. A prompt is near-perfect if
at least `at_least` of its k answers are right. If its further answer is right too, that answer is
rehearsed and the prompt is left out of RL (D_pef). All other prompts are explored by RL (D_exp).
The further answer keeps a prompt that was lucky k times from being taken for solved. The authors'
code drops prompts whose further answer is wrong; here they are explored.

The answers are drawn once for each base model and set of prompts and kept in a file, so all seeds
rehearse the same answers and a resumed run finds the same bytes.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import torch

from common.config.contents import contents
from common.errors import require
from common.experiment import Experiment
from common.methods.binding import Bound
from common.models.policy import log_probs
from common.models.store import identity
from common.results.files import config_hash, read_jsonl, write_jsonl_gz
from common.rollout.local import encode, ends_of, generate
from common.seeds import generator, in_turn
from common.types import Prompt, RolloutBatch, Verify
from common.verifiers.rewards import verify_batch

TOGETHER = 128  # prompts answered at once; it decides the random numbers, so it is no setting


class Rehearsal:
    """The term that DPH-RL adds to the loss of an optimiser step: eta D_f(pi || pi_ref), a
    divergence to the base model on some of its own right answers.

    `explored` are the prompts that are left for RL, and `rehearsed` is the batch of all answers
    that are rehearsed. `base` is the base model. Raises UserError as `divided` does.
    """

    def __init__(
        self, x: Experiment, method: Bound, base, tokenizer, prompts: list[Prompt], verify: Verify
    ):
        self.x, self.method, settings, root = x, method, x.method.rehearsal, Path(x.results_dir)
        rows = presampled(
            base,
            tokenizer,
            prompts,
            verify,
            samples=settings.samples,
            temperature=x.sampling.temperature,
            max_tokens=x.sampling.max_tokens,
            verifier=x.data.verifier,
            results_dir=root,
            cache=root / "models" / "rehearsal" / identity(x.model),
        )
        pef, exp = divided(rows, settings.at_least)
        self.explored = [prompts[i] for i in exp]
        known, answers = [prompts[i] for i in pef], [rows[i] for i in pef]
        self.rehearsed = as_batch(known, answers, tokenizer, base.device)

    def turn(self, update: int) -> RolloutBatch:
        """Return the answers to rehearse in optimiser step `update`, counted from 0 over the
        run."""
        x = self.x
        responses = x.sampling.prompts // x.optim.mini_batches * x.sampling.group_size
        count = max(1, round(x.method.rehearsal.share * responses))
        pool = len(self.rehearsed.prompt_ids)
        return chosen(self.rehearsed, in_turn(pool, update * count, count, x.seed, "rehearsal"))

    def backward(self, model, update: int) -> dict[str, torch.Tensor]:
        """Add the gradient of eta D_f to the policy's gradient and return the values to log. D_f is
        aggregated as the loss is."""
        eta, batch = self.x.method.rehearsal.eta, self.turn(update)
        weights, total = (
            self.method.aggregate(batch.mask),
            torch.zeros((), device=batch.mask.device),
        )
        for start in range(0, len(batch.prompt_ids), self.x.optim.micro_batch):
            rows = slice(start, start + self.x.optim.micro_batch)
            micro = batch.prompts(rows.start, rows.stop)
            log_prob, _ = log_probs(model, micro, self.x.sampling.temperature)
            divergence = self.method.divergence(log_prob, micro.log_probs)
            part = torch.where(micro.mask > 0, divergence * weights[rows], 0.0).sum()
            (eta * part).backward()
            total += part.detach()
        return {"loss": eta * total, "rehearsal": total}


def presampled(
    model,
    tokenizer,
    prompts: list[Prompt],
    verify: Verify,
    *,
    samples: int,
    temperature: float,
    max_tokens: int,
    verifier: dict,
    results_dir: Path,
    cache: Path,
) -> list[dict]:
    """Return one row for each prompt, in order: how many of `samples` answers are `right`, and
    whether one further answer is `kept`, i.e. right, with its token ids and log-probabilities
    (empty otherwise).

    `model` is the base model, and `cache` is its folder, where the rows are stored under a hash of
    everything else that they depend on. `verifier` is the verifier's configuration.
    """
    named = {
        "prompts": [asdict(prompt) for prompt in prompts],
        "samples": samples,
        "temperature": temperature,
        "max_tokens": max_tokens,
        "verifier": verifier,
        "contents": contents({"verifier": verifier}, str(results_dir)),
    }
    path = cache / f"rehearsal-{config_hash(named)}.jsonl.gz"
    if path.exists():
        return read_jsonl(path)
    rows = []
    for start in range(0, len(prompts), TOGETHER):
        some = prompts[start : start + TOGETHER]
        ids, mask = encode(tokenizer, [prompt.text for prompt in some], model.device)
        batch = generate(
            model,
            ids,
            mask,
            group_size=samples + 1,
            temperature=temperature,
            max_tokens=max_tokens,
            eos_id=tokenizer.eos_token_id,
            more_ends=ends_of(model, tokenizer),
            generator=generator(0, "rehearsal", start),
        )
        _, verdicts = verify_batch(batch, some, tokenizer, verify)
        for i in range(len(some)):
            first, last = i * (samples + 1), (i + 1) * (samples + 1) - 1
            right = [v.outcome == "correct" for v in verdicts[first : last + 1]]
            length = int(batch.mask[last].sum()) if right[-1] else 0
            rows.append(
                {
                    "right": sum(right[:-1]),
                    "kept": right[-1],
                    "response": batch.response_ids[last, :length].tolist(),
                    "log_probs": batch.log_probs[last, :length].tolist(),
                }
            )
    write_jsonl_gz(path, rows)
    return rows


def divided(rows: list[dict], at_least: int) -> tuple[list[int], list[int]]:
    """Return (D_pef, D_exp): the positions of the rehearsed and of the explored prompts.

    Raises UserError where either is empty.
    """
    pef = [i for i, row in enumerate(rows) if row["right"] >= at_least and row["kept"]]
    exp = sorted(set(range(len(rows))) - set(pef))
    most = max((row["right"] for row in rows if row["kept"]), default=0)
    said = f"the base model solves none of {len(rows)} training prompts so often, at most {most} "
    said += "times; lower it, or train a model or data set where it solves some"
    require(bool(pef), "method.rehearsal.at_least", at_least, said)
    said = f"the base model solves all {len(rows)} training prompts so often, and RL has none left;"
    require(bool(exp), "method.rehearsal.at_least", at_least, said + " give harder prompts")
    return pef, exp


def as_batch(prompts: list[Prompt], rows: list[dict], tokenizer, device) -> RolloutBatch:
    """Return the rehearsed answers as a batch with one response a prompt; `log_probs` are the base
    model's."""
    ids, mask = encode(tokenizer, [prompt.text for prompt in prompts], device)
    width = max(len(row["response"]) for row in rows)
    response_ids = torch.full((len(rows), width), tokenizer.pad_token_id)
    response_mask, log_probs = torch.zeros(2, len(rows), width)
    for i, row in enumerate(rows):
        length = len(row["response"])
        response_ids[i, :length] = torch.tensor(row["response"])
        response_mask[i, :length] = 1
        log_probs[i, :length] = torch.tensor(row["log_probs"])
    stopped = torch.ones(len(rows), dtype=torch.bool)
    parts = (response_ids, response_mask, log_probs, stopped)
    return RolloutBatch(ids, mask, *(part.to(device) for part in parts))


def chosen(batch: RolloutBatch, rows: list[int]) -> RolloutBatch:
    """Return these rows of a batch with one response a prompt, without padding that none of them
    needs."""
    width = int(batch.mask[rows].sum(1).max())
    return replace(
        batch,
        prompt_ids=batch.prompt_ids[rows],
        prompt_mask=batch.prompt_mask[rows],
        response_ids=batch.response_ids[rows, :width],
        mask=batch.mask[rows, :width],
        log_probs=batch.log_probs[rows, :width],
        stopped=batch.stopped[rows],
    )
