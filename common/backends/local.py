"""The local backend: a whole Experiment in one process, on CPU or one GPU.

This file is the executable specification of the loop; other backends must agree with it:

    prompts -> rollout -> verdicts -> rewards (P, G) -> advantages (P, G) -> loss (B, T)
    -> aggregate -> update -> checkpoint -> evaluation samples -> counts -> result rows

Left out on purpose: several GPUs, asynchronous processes, more than one PPO epoch.
"""

import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pandas as pd
import torch

from common.backends import checkpoint, dynamic, snapshots, tracking
from common.backends.dynamic import UNDECIDED, Rollout, judged, rewards
from common.backends.evaluations import Evaluations
from common.backends.prompts import prompts, sets
from common.backends.saving import Saving
from common.errors import UserError, require
from common.experiment import Experiment
from common.health import Guard
from common.losses import contributions
from common.methods import binding, rate
from common.models.llama import is_plain_llama
from common.models.load import device, load_model
from common.models.policy import log_probs_in_parts
from common.models.recorded import Recorded, passes
from common.progress import tracked
from common.results import longer
from common.results.files import amend, jsonl_appender, require_steps, whole_rows
from common.results.run import Run
from common.rollout import context
from common.rollout.samplers import Sampler
from common.seeds import generator, in_turn
from common.types import Prompt, RolloutBatch, Verify
from common.verifiers.guard import judges, seeing

SHOWN = ("reward", "entropy", "response_length")  # a step's numbers beside its progress


def train(
    x: Experiment, progress: bool = True, on_step: Callable[..., None] = lambda *_: None
) -> Path:
    """Train and evaluate `x`; return its run folder. A finished run is found and not repeated. A
    killed run resumes from its last checkpoint; on one machine's CPU it ends with the bytes of an
    uninterrupted run. `on_step` is called before each step; if it raises, a checkpoint follows."""
    device(x.device)
    tracking.check(x.wandb)
    run = Run(Path(x.results_dir), x.paper, x.run_id, asdict(x))
    longer.reopen(run, x.optim.steps, run.path / "checkpoint.pt")
    if run.done:
        run.close()
        snapshots.check_finished(x, run.path)
        if progress:
            print(f"{run.path}: finished earlier; not repeated", file=sys.stderr)
        return run.path
    contents = x.identity.get("contents", {})
    torch.set_num_threads(x.threads)
    asked = prompts(x)
    with judges(seeing(x.data.verifier, asked[0][0]), x.verification) as verify:
        loop = Loop(x, run.path, verify, asked)
        run.keep_sets(sets(x))
        longer.require_before(loop.step, x.optim.steps, run.path)
        send = tracking.mirror(x, run.path, loop.step)
        require_steps(run.path / "metrics.jsonl", loop.step)
        if loop.step < x.optim.steps and (late := loop.evaluations.make_up(loop.step)):
            amend(run.path / "metrics.jsonl", loop.step, late)
        with jsonl_appender(run.path / "metrics.jsonl", keep_until_step=loop.step) as append:
            steps = range(loop.step + 1, x.optim.steps + 1)
            saving = Saving(x.checkpoint_every)
            guard = Guard(whole_rows(run.path / "metrics.jsonl"), x.stop_rules)
            if progress and loop.step:
                print(f"{run.path}: resumes after step {loop.step}", file=sys.stderr)
            if loop.step < x.optim.steps:  # samples are left if the checkpoint was deleted
                shutil.rmtree(run.path / "samples", ignore_errors=True)
            row: dict = {}
            curve = x.eval.curve(x.optim.steps)
            bar = {"total": x.optim.steps, "done": loop.step, "note": lambda: shown(row)}
            for step in tracked(steps, x.run_id, **bar) if progress else steps:
                try:
                    on_step()
                    guard.check()
                except BaseException:
                    checkpoint.save(run.path / "checkpoint.pt", loop)
                    raise
                try:
                    row = loop.one_step(step)
                except torch.OutOfMemoryError as error:
                    raise UserError(
                        f"optim.micro_batch={x.optim.micro_batch}: so many responses do not fit "
                        f"into the GPU's memory ({str(error)[:120]}); continue this run with "
                        "optim.gradient_checkpointing=true, or start a new one with a smaller "
                        f"value, at least sampling.group_size={x.sampling.group_size}"
                    ) from error
                if step in curve:
                    row |= loop.evaluations.on_the_curve(step)
                append(row)
                send(row)
                guard.see(row)
                loop.evaluations.keep(step)
                if saving.due(step) or step == x.optim.steps:
                    with saving.timed(step):
                        checkpoint.save(run.path / "checkpoint.pt", loop)
            guard.check()
        scores = loop.evaluations.last(loop.step, told=progress)
        amend(run.path / "metrics.jsonl", loop.step, scores)
        send({"step": loop.step} | scores)
        if not x.keep_state:
            (run.path / "checkpoint.pt").unlink(missing_ok=True)
    run.finish(contents=contents)
    return run.path


def shown(row: dict) -> str:
    return ", ".join(f"{key} {row[key]:.2f}" for key in SHOWN if key in row)


class Loop:
    """The state of a run: model, optimiser, step. Seed, purpose and step fix all random numbers."""

    def __init__(self, x: Experiment, folder: Path, verify: Verify, asked: tuple | None = None):
        self.x, self.folder, self.verify = x, folder, verify
        self.device = device(x.device)
        self.method = x.bound
        self.prompts, self.benchmarks = asked or prompts(x)
        self.model, self.tokenizer = load_model(x.model, Path(x.results_dir), self.device)
        if x.optim.gradient_checkpointing:
            require(
                is_plain_llama(self.model),
                "optim.gradient_checkpointing",
                True,
                f"{type(self.model).__name__} has a cache in its own forward pass; set it to false "
                "and lower optim.micro_batch",
            )
            self.model.gradient_checkpointing_enable()
        self.reference = None
        if x.method.kl_coef > 0:
            self.reference, _ = load_model(x.model, Path(x.results_dir), self.device)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=x.optim.lr,
            betas=x.optim.betas,
            weight_decay=x.optim.weight_decay,
            fused=True,
        )
        self.step = self.drawn = 0  # rollout steps done; prompts taken from the data so far
        self.state = {}  # of the controller
        of = partial(passes, temperature=x.sampling.reported, dtype=getattr(torch, x.optim.dtype))
        self.of_reference = None if self.reference is None else of(self.reference)
        self.sampler = Sampler(
            self.model,
            self.tokenizer,
            x.sampling,
            x.method.sampler,
            micro_batch=x.optim.micro_batch,
            seed=x.seed,
            passes=of,
            again="bfloat16" in (x.sampling.dtype, x.optim.dtype),
        )
        fits = partial(context.require_context, self.model, self.tokenizer)
        fits([p.text for p in self.prompts], x.sampling.max_tokens, "sampling.max_tokens")
        measured = [p.text for held in self.benchmarks.values() for p in held]
        fits(measured, x.eval.max_tokens, "eval.max_tokens")
        self.evaluations = Evaluations(
            x,
            folder,
            self.model,
            self.tokenizer,
            prompts=self.prompts,
            benchmarks=self.benchmarks,
            verify=verify,
        )
        checkpoint.load(folder / "checkpoint.pt", self)

    def one_step(self, step: int) -> dict:
        """Draw one rollout, make its optimiser steps and return the row of the training curve."""
        x = self.x
        kept, row, drawn = self.rollout(step)
        batch, reward = kept.batch, kept.rewards
        shaped = reward
        if x.method.kl_in_reward:
            penalty = self.penalty(batch)
            row["kl"] = (penalty.sum() / batch.mask.sum()).item()
            shaped = reward - x.method.kl_coef * penalty.view(reward.shape).to(reward.device)
        correct = reward == x.reward.correct
        advantages, controlled = self.advantages(step, kept, shaped, correct, row["solve_rate"])
        if x.covariances:
            row |= contributions.logged(batch.log_probs, advantages.reshape(-1, 1), batch.mask)
        watched = {name: value for name, value in self.state.items() if isinstance(value, float)}
        row |= {"lr": self.set_lr(step, controlled[-1]), **controlled[-1], **watched}
        self.evaluations.warn("sampling", row["truncated"])
        updates = []
        size = x.sampling.prompts // x.optim.mini_batches
        for start in range(0, x.sampling.prompts, size):
            self.set_lr(step, controlled[start * len(controlled) // x.sampling.prompts])
            mini_batch = batch.prompts(start, start + size)
            updates.append(self.update(mini_batch, advantages[start : start + size]))
        row |= self.sampler.learn(batch, drawn)
        self.step = step
        return {"step": step} | row | pd.DataFrame(updates).mean(skipna=False).to_dict()

    # ---- prompts -> rollout -> verdicts -> rewards

    def draw_prompts(self) -> list[Prompt]:
        """Return the next prompts, drawn in epochs without replacement."""
        pool, count = self.prompts, self.x.sampling.prompts
        turn = in_turn(len(pool), self.drawn, count, self.x.seed, "order")
        self.drawn += count
        return [pool[i] for i in turn]

    def draw(self, step: int, attempt: int) -> Rollout:
        """Return judged responses to the next prompts; `attempt` counts a step's rollouts."""
        x, prompts = self.x, self.draw_prompts()
        uniforms = generator(x.seed, "rollout", step, *([attempt] if attempt else []))
        batch, gap = self.sampler.draw(prompts, uniforms)
        verdicts = judged(batch, prompts, self.tokenizer, self.verify)
        reward = rewards(verdicts, batch.group_size, x.reward.correct, x.reward.wrong)
        return Rollout(batch, verdicts, reward, gap)

    def rollout(self, step: int) -> tuple[Rollout, dict, RolloutBatch]:
        """Return (judged responses, values to log, all drawn responses) of one step. With dynamic
        sampling (DAPO), lengths, truncation and the entropy that a controller sees describe the P
        groups that are kept, all other values all drawn ones."""
        x, pad_id = self.x, self.tokenizer.pad_token_id
        groups, most = x.sampling.prompts, x.sampling.dynamic_batches
        parts: list[Rollout] = []
        while len(parts) < most and sum(int(one.mixed.sum()) for one in parts) < groups:
            parts.append(self.draw(step, len(parts)))
        kept = dynamic.kept(parts, groups=groups, pad_id=pad_id)
        drawn = dynamic.joined(parts, pad_id)
        outcomes = [verdict.outcome for verdict in drawn.verdicts]
        row: dict[str, float] = {
            "reward": drawn.rewards.mean().item(),
            "solve_rate": (drawn.rewards == x.reward.correct).float().mean().item(),
            "active_groups": drawn.mixed.float().mean().item(),
            **{name: outcomes.count(name) / len(outcomes) for name in UNDECIDED},
            "response_length": kept.batch.mask.sum(1).mean().item(),
            "truncated": 1 - kept.batch.stopped.float().mean().item(),
            "rollout_batches": len(parts),
        }
        gaps = [part.gap for part in parts if part.gap is not None]
        if gaps:
            row["log_prob_gap"] = sum(gaps) / len(gaps)
        return kept, row, drawn.batch

    # ---- rewards -> advantages

    def penalty(self, batch: RolloutBatch) -> torch.Tensor:
        """Return each response's KL estimate to the reference model, a token sum, (B,)."""
        ref_log_prob = log_probs_in_parts(self.of_reference, batch, self.x.optim.micro_batch)
        kl = self.method.kl(batch.log_probs, ref_log_prob)
        return torch.where(batch.mask > 0, kl, 0.0).sum(1)

    def advantages(
        self,
        step: int,
        kept: Rollout,
        reward: torch.Tensor,
        correct: torch.Tensor,
        solve_rate: float,
    ) -> tuple[torch.Tensor, list[dict]]:
        """Return the weights of all responses, (P, G), for the shaped `reward`, and the
        controller's arguments at each of its ticks."""
        x, batch, shape = self.x, kept.batch, reward.shape
        lengths = batch.mask.sum(1)
        drawn = (batch.log_probs * batch.mask).sum(1)  # log pi_old of each response
        lengths, drawn = (one.view(shape).to(reward.device) for one in (lengths, drawn))
        surprise = -drawn / lengths.clamp(min=1)
        seen = {"correct": correct, "lengths": lengths, "log_probs": drawn}
        seen["outcomes"] = kept.outcomes
        ticks = x.optim.mini_batches if x.method.clock == "optimiser_step" else 1
        weights, controlled = [], []  # one entry for each tick of the controller
        for tick in range(ticks):
            part = slice(*(x.sampling.prompts * i // ticks for i in (tick, tick + 1)))
            solved = correct[part].float().mean().item()
            self.state, arguments = binding.observe(
                self.method,
                self.state,
                solve_rate=solve_rate if ticks == 1 else solved,
                entropy=surprise[part].mean().item(),
                step=(step - 1) * ticks + tick + 1,
            )
            controlled.append(arguments)
            of_part = {name: values[part] for name, values in seen.items()}
            given = (self.method, reward[part])
            weights.append(binding.advantages(*given, arguments=arguments, **of_part))
        return torch.cat(weights).to(self.device), controlled

    # ---- advantages -> loss -> aggregate -> update

    def update(self, batch: RolloutBatch, advantages: torch.Tensor) -> dict:
        """Make an optimiser step on a mini-batch of whole groups and return its metrics."""
        x = self.x
        weights = self.method.aggregate(batch.mask)
        count, per_micro = len(batch.prompt_ids), max(1, x.optim.micro_batch // batch.group_size)
        token_weights = self.token_weights(batch, advantages)
        totals = {"loss": 0.0, "entropy": 0.0, "clipped": 0.0, "ratio": 0.0, "kl": 0.0}
        tokens, kl_in_loss = batch.mask.sum(), x.method.kl_coef > 0 and not x.method.kl_in_reward
        # A recorded pass adds to gradients that are there.
        self.optimizer.zero_grad(set_to_none=not isinstance(self.sampler.log_probs, Recorded))
        for start in range(0, count, per_micro):
            stop = min(start + per_micro, count)
            micro = batch.prompts(start, stop)
            rows = slice(start * batch.group_size, stop * batch.group_size)
            log_prob, entropy = self.sampler.log_probs(micro)
            extra = {} if token_weights is None else {"token_weights": token_weights[rows]}
            weighted = self.sampler.corrected(advantages[start:stop].reshape(-1, 1), micro)
            loss, clipped = self.method.loss(
                log_prob, micro.log_probs, weighted, micro.mask, **extra
            )
            if x.method.entropy_coef > 0:
                loss = loss - x.method.entropy_coef * entropy
            if kl_in_loss:
                ref_log_prob = log_probs_in_parts(self.of_reference, micro, x.optim.micro_batch)
                kl = self.method.kl(log_prob, ref_log_prob)
                loss = loss + x.method.kl_coef * kl
                totals["kl"] += (kl.detach() * micro.mask).sum() / tokens
            # where, not a product: padding may hold inf or nan, which a zero weight would keep
            total = torch.where(micro.mask > 0, loss * weights[rows], 0.0).sum()
            total.backward()
            totals["loss"] += total.detach()
            totals["entropy"] += (entropy.detach() * micro.mask).sum() / tokens
            totals["clipped"] += (clipped * micro.mask).sum() / tokens
            ratio = (log_prob.detach() - micro.log_probs).exp()
            totals["ratio"] += (ratio * micro.mask).sum() / tokens
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), x.optim.grad_clip)
        if torch.isfinite(norm):  # otherwise the weights stay as they are, as with verl
            self.optimizer.step()
        if not kl_in_loss:
            del totals["kl"]
        totals["grad_norm"] = norm
        return dict(zip(totals, torch.stack(list(totals.values())).tolist(), strict=True))

    def token_weights(self, batch: RolloutBatch, advantages: torch.Tensor) -> torch.Tensor | None:
        """Return the weights of the mini-batch's tokens before its update, (B, T), or None."""
        if self.method.token_weights is None:
            return None
        log_prob = log_probs_in_parts(self.sampler.log_probs, batch, self.x.optim.micro_batch)
        given = (batch.log_probs, advantages.reshape(-1, 1), batch.mask)
        with torch.no_grad():
            return self.method.token_weights(log_prob, *given)

    def set_lr(self, step: int, arguments: dict) -> float:
        """Set and return the learning rate of the schedule, equalised by `optim.equalise_to`."""
        x = self.x
        lr = rate.equalised(
            rate.scheduled(x.optim, step),
            self.method,
            to=x.optim.equalise_to,
            group_size=x.sampling.group_size,
            reward=x.reward,
            arguments=arguments,
        )
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        return lr

    # ---- checkpoint

    def state_dict(self) -> dict:
        return {
            "step": self.step,
            "drawn": self.drawn,
            "controller": self.state,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "sampler": self.sampler.state_dict(),
        }

    def load_state_dict(self, state: dict) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.drawn = state["step"], state["drawn"]
        self.state = state["controller"]
        self.sampler.load_state_dict(state["sampler"])
