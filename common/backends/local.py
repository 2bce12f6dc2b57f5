"""The local backend: a whole Experiment in one process, on CPU or one GPU.

This file is the executable specification of the loop; other backends must agree with it:

    prompts -> rollout -> verdicts -> rewards (P, G) -> advantages (P, G) -> loss (B, T) ->
    aggregate
    -> update -> checkpoint -> evaluation samples -> counts -> result rows

Left out on purpose: several GPUs, asynchronous processes (`sampling.lag` gives rollouts their age),
gradients in mixed precision (`sampling.dtype` is of the weights that sample), more than one PPO
epoch.
"""

import io
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd
import torch

from common.backends import explain, rehearsal, snapshots, tracking
from common.backends.interface import Backend
from common.backends.prompts import prompts
from common.errors import UserError, require
from common.evaluation import rare_nll, samples
from common.evaluation.samples import Sampled, metric_rows, sample
from common.experiment import Experiment
from common.losses import contributions
from common.methods import binding, rate
from common.models.llama import is_plain_llama
from common.models.load import device, load_model
from common.models.policy import log_probs, with_top_tokens
from common.models.store import identity, save
from common.progress import tracked
from common.results.columns import COLUMNS
from common.results.files import (
    jsonl_appender,
    read_csv,
    read_jsonl,
    require_steps,
    write,
    write_csv,
    write_jsonl_gz,
)
from common.results.run import Run
from common.rollout import context
from common.rollout.dlc import MemoryNetwork, importance, memory_network
from common.rollout.lag import Lagged
from common.rollout.local import encode, ends_of, generate
from common.seeds import generator
from common.types import Prompt, RolloutBatch, Verify, concatenate
from common.verifiers.guard import judges
from common.verifiers.rewards import rewards, verify_batch


def train(
    x: Experiment, progress: bool = True, between: Callable[..., None] = lambda *_: None
) -> Path:
    """Train and evaluate `x`; returns its run folder. A finished run is found and not repeated.

    Killed at any moment and called again it resumes from its last checkpoint; on CPU it ends with
    the same bytes as an uninterrupted run. `between` is called before each step; where it raises, a
    checkpoint of the steps so far is written first.
    """
    binding.check(x.method, x.sampling.group_size, x.reward)
    device(x.device)
    tracking.check(x.wandb)
    run = Run(Path(x.results_dir), x.paper, x.run_id, asdict(x))
    if run.done:
        run.close()
        snapshots.check_finished(x, run.path)
        if progress:
            print(f"{run.path}: finished earlier, found", file=sys.stderr)
        return run.path
    torch.set_num_threads(x.threads)
    with judges(x.data.verifier, x.verification) as verify:
        loop = Loop(x, run.path, verify)
        send = tracking.mirror(x, run.path, loop.step)
        require_steps(run.path / "metrics.jsonl", loop.step)
        with jsonl_appender(run.path / "metrics.jsonl", keep_until_step=loop.step) as append:
            steps = range(loop.step + 1, x.optim.steps + 1)
            if progress and loop.step:
                print(f"{run.path}: resumes after step {loop.step}", file=sys.stderr)
            if loop.step < x.optim.steps:  # of a run whose checkpoint was deleted
                shutil.rmtree(run.path / "samples", ignore_errors=True)
            bar = {"total": x.optim.steps, "done": loop.step}
            for step in tracked(steps, x.run_id, **bar) if progress else steps:
                try:
                    between()
                except BaseException:
                    loop.save_checkpoint()
                    raise
                row = loop.one_step(step)
                append(row)
                send(row)
                if step % x.eval.every == 0 and step < x.optim.steps:
                    curve = [loop.sample(one, step, x.eval.curve_n) for one in loop.benchmarks]
                    loop.evaluate(step, curve)
                    if x.keep_checkpoints:
                        save(loop.model, loop.tokenizer, snapshots.folder(run.path, step))
                if step % x.checkpoint_every == 0 or step == x.optim.steps:
                    loop.save_checkpoint()
        loop.finish(told=progress)
    run.finish()
    return run.path


class Loop:
    """The state of a run: model, optimiser, step. All randomness is named by seed, purpose and
    step."""

    def __init__(self, x: Experiment, folder: Path, verify: Verify):
        self.x, self.folder, self.verify = x, folder, verify
        self.device = device(x.device)
        self.method = binding.bind(x.method)
        self.prompts, self.benchmarks = prompts(x)
        self.model, self.tokenizer = load_model(x.model, Path(x.results_dir), self.device)
        if x.optim.gradient_checkpointing:
            require(
                is_plain_llama(self.model),
                "optim.gradient_checkpointing",
                True,
                f"{type(self.model).__name__} goes through its own forward pass, which has a cache "
                "here; set it to false and lower optim.micro_batch",
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
        self.state = {}  # the controller's
        self.warned = set()  # the keys of which it was said that they cut responses off
        self.memory = self.memory_network()
        self.lagged = Lagged(self.model, x.sampling.lag) if x.sampling.lag else None
        self.require_context()
        self.explored, self.rehearsed = self.divided_prompts()
        self.load_checkpoint()

    def require_context(self) -> None:
        """UserError where a prompt and its response are longer than the model's context."""
        x, sets = self.x, {"sampling.max_tokens": (self.prompts, self.x.sampling.max_tokens)}
        everything = [prompt for held in self.benchmarks.values() for prompt in held]
        sets["eval.max_tokens"] = (everything, x.eval.max_tokens)
        for key, (held, tokens) in sets.items():
            texts = [prompt.text for prompt in held]
            context.require_context(self.model, self.tokenizer, texts, tokens, key)

    def one_step(self, step: int) -> dict:
        """One rollout and its optimiser steps; returns the row of the training curve."""
        x = self.x
        batch, reward, row, sampled = self.rollout(step)
        lengths = batch.mask.sum(1)
        drawn = (batch.log_probs * batch.mask).sum(1)  # log pi_old of each response
        shape = reward.shape
        lengths, drawn = (x.view(shape).to(reward.device) for x in (lengths, drawn))
        surprise = -drawn / lengths.clamp(min=1)
        shaped = reward
        if x.method.kl_in_reward:
            penalty = self.penalty(batch)
            row["kl"] = (penalty.sum() / batch.mask.sum()).item()
            shaped = reward - x.method.kl_coef * penalty.view(shape).to(reward.device)
        ticks = x.optim.mini_batches if x.method.clock == "optimiser_step" else 1
        controlled, weights = [], []  # by tick of the controller
        for tick in range(ticks):
            part = slice(*(x.sampling.prompts * i // ticks for i in (tick, tick + 1)))
            solved = (reward[part] == x.reward.correct).float().mean().item()
            self.state, arguments = binding.observe(
                self.method,
                self.state,
                solve_rate=row["solve_rate"] if ticks == 1 else solved,
                entropy=surprise[part].mean().item(),
                step=(step - 1) * ticks + tick + 1,
            )
            controlled.append(arguments)
            given = (shaped[part], lengths[part], arguments, drawn[part])
            weights.append(binding.advantages(self.method, *given))
        advantages = torch.cat(weights).to(self.device)
        if x.covariances:
            row |= contributions.logged(batch.log_probs, advantages.reshape(-1, 1), batch.mask)
        watched = {name: value for name, value in self.state.items() if isinstance(value, float)}
        row |= {"lr": self.set_lr(step, arguments), **arguments, **watched}
        self.warn("sampling", row["truncated"])
        updates = []
        size = x.sampling.prompts // x.optim.mini_batches
        for start in range(0, x.sampling.prompts, size):
            part = slice(start, start + size)
            self.set_lr(step, controlled[start * ticks // x.sampling.prompts])
            again = self.to_rehearse((step - 1) * x.optim.mini_batches + len(updates))
            mini_batch = batch.prompts(start, start + size)
            updates.append(self.update(mini_batch, advantages[part], again))
        if self.memory is not None:
            learned = sampled if x.method.sampler.remember == "all" else batch
            row["memory_loss"] = self.memory.learn(learned, x.optim.micro_batch)
        self.step = step
        return {"step": step} | row | pd.DataFrame(updates).mean().to_dict()

    def rollout(self, step: int) -> tuple[RolloutBatch, torch.Tensor, dict, RolloutBatch]:
        """(responses, rewards (P, G), what to log, all that was drawn) of one step's prompts.

        With `sampling.dynamic_batches` above 1 this is DAPO's dynamic sampling: more prompts are
        drawn until P groups have mixed rewards or that many batches are; the first P of them are
        kept, and groups without a gradient fill what is missing (verl stops with an error).
        Lengths, truncation and a controller's entropy are then of what is kept, the rest of all
        that was drawn.
        """
        x, kept, seen, gaps = self.x, [], [], []
        model = self.model if self.lagged is None else self.lagged.sampler()
        lower = torch.bfloat16 if x.sampling.dtype == "bfloat16" else None
        for attempt in range(x.sampling.dynamic_batches):
            prompts = self.draw_prompts()
            ids, mask = encode(self.tokenizer, [prompt.text for prompt in prompts], self.device)
            batch = generate(
                model,
                ids,
                mask,
                group_size=x.sampling.group_size,
                temperature=x.sampling.temperature,
                max_tokens=x.sampling.max_tokens,
                eos_id=self.tokenizer.eos_token_id,
                more_ends=ends_of(model, self.tokenizer),
                generator=generator(x.seed, "rollout", step, *([attempt] if attempt else [])),
                memory=self.memory,
                dtype=lower,
            )
            if lower is not None:
                batch, gap = self.in_training_precision(model, batch)
                gaps.append(gap)
            _, verdicts = verify_batch(batch, prompts, self.tokenizer, self.verify)
            reward = rewards(verdicts, batch.group_size, x.reward.correct, x.reward.wrong)
            mixed = reward.amax(1) > reward.amin(1)
            seen.append((reward, verdicts, mixed))
            kept += [(batch.prompts(i, i + 1), reward[i], mixed[i]) for i in range(len(prompts))]
            if x.sampling.dynamic_batches == 1 or sum(group[2] for group in kept) >= len(prompts):
                break
        sampled = batch
        if len(seen) > 1:
            sampled = concatenate([group[0] for group in kept], self.tokenizer.pad_token_id)
            kept = sorted(kept, key=lambda group: not group[2])[: x.sampling.prompts]
            batch = concatenate([group[0] for group in kept], self.tokenizer.pad_token_id)
            reward = torch.stack([group[1] for group in kept])
        everything = torch.cat([part[0] for part in seen])
        verdicts = [verdict for part in seen for verdict in part[1]]
        row = {
            "reward": everything.mean().item(),
            "solve_rate": (everything == x.reward.correct).float().mean().item(),
            "active_groups": torch.cat([part[2] for part in seen]).float().mean().item(),
            **{
                outcome: sum(v.outcome == outcome for v in verdicts) / len(verdicts)
                for outcome in ("unparsed", "timeout", "error")
            },
            "response_length": batch.mask.sum(1).mean().item(),
            "truncated": 1 - batch.stopped.float().mean().item(),
            "rollout_batches": len(seen),
        }
        if gaps:
            row["log_prob_gap"] = sum(gaps) / len(gaps)
        return batch, reward, row, sampled

    @torch.no_grad()
    def in_training_precision(self, model, batch: RolloutBatch) -> tuple[RolloutBatch, float]:
        """The batch with its log-probabilities computed again in float32, so that ratios begin at 1
        (what verl does), and by how much they differed, mean |difference| a token."""
        size = max(1, self.x.optim.micro_batch // batch.group_size)
        parts = [
            log_probs(model, batch.prompts(i, i + size), self.x.sampling.temperature)[0]
            for i in range(0, len(batch.prompt_ids), size)
        ]
        found = torch.where(batch.mask > 0, torch.cat(parts), 0.0)
        gap = (found - batch.log_probs).abs().sum() / batch.mask.sum()
        return replace(batch, log_probs=found), gap.item()

    def update(
        self, batch: RolloutBatch, advantages: torch.Tensor, again: RolloutBatch | None = None
    ) -> dict:
        """One optimiser step on a mini-batch of whole groups, and on what is rehearsed `again`;
        micro-batches change memory, not gradients."""
        x = self.x
        weights = self.method.aggregate(batch.mask)
        count, per_micro = len(batch.prompt_ids), max(1, x.optim.micro_batch // batch.group_size)
        token_weights = self.token_weights(batch, advantages, per_micro)
        totals = {"loss": 0.0, "entropy": 0.0, "clipped": 0.0, "ratio": 0.0, "kl": 0.0}
        tokens = batch.mask.sum()
        self.optimizer.zero_grad()
        for start in range(0, count, per_micro):
            stop = min(start + per_micro, count)
            micro = batch.prompts(start, stop)
            rows = slice(start * batch.group_size, stop * batch.group_size)
            log_prob, entropy, extra = self.forward(micro)
            if token_weights is not None:
                extra["token_weights"] = token_weights[rows]
            weighted = advantages[start:stop].reshape(-1, 1)
            if x.method.sampler is not None:
                ratio = importance(micro, x.method.sampler.importance_cap)
                weighted = weighted if ratio is None else weighted * ratio
            loss, clipped = self.method.loss(
                log_prob,
                micro.log_probs,
                weighted,
                micro.mask,
                **extra,
            )
            if x.method.entropy_coef > 0:
                loss = loss - x.method.entropy_coef * entropy
            if self.reference is not None and not x.method.kl_in_reward:
                with torch.no_grad():
                    ref_log_prob, _ = log_probs(self.reference, micro, x.sampling.temperature)
                kl = self.method.kl(log_prob, ref_log_prob)
                loss = loss + x.method.kl_coef * kl
                totals["kl"] += (kl.detach() * micro.mask).sum() / tokens
            # where, not a product: padding may hold inf or nan, which a zero weight would not
            # remove
            total = torch.where(micro.mask > 0, loss * weights[rows], 0.0).sum()
            total.backward()
            totals["loss"] += total.detach()
            totals["entropy"] += (entropy.detach() * micro.mask).sum() / tokens
            totals["clipped"] += (clipped * micro.mask).sum() / tokens
            ratio = (log_prob.detach() - micro.log_probs).exp()
            totals["ratio"] += (ratio * micro.mask).sum() / tokens
        if again is not None:
            totals["rehearsal"] = self.rehearse(again)
            totals["loss"] += x.method.rehearsal.eta * totals["rehearsal"]
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), x.optim.grad_clip)
        if not torch.isfinite(norm):
            raise UserError(
                f"step {self.step + 1}: the gradient is not finite; lower optim.lr={x.optim.lr} or "
                f"look at {self.folder / 'metrics.jsonl'}"
            )
        if self.lagged is not None:
            self.lagged.before_update()
        self.optimizer.step()
        if self.reference is None or x.method.kl_in_reward:
            del totals["kl"]
        return {name: float(value) for name, value in (totals | {"grad_norm": norm}).items()}

    def forward(self, batch: RolloutBatch) -> tuple[torch.Tensor, torch.Tensor, dict]:
        """Log-probability and entropy of each response token, and what else the loss asks for."""
        given, seen = (self.model, batch, self.x.sampling.temperature), {}
        if K := binding.top_K(self.method):
            log_prob, entropy, top, drawn_top = with_top_tokens(*given, K)
            seen = {"top_log_prob": top, "drawn_top": drawn_top}
        else:
            log_prob, entropy = log_probs(*given)
        asked = binding.of_tokens(self.method, entropy=entropy.detach(), **seen)
        return log_prob, entropy, asked

    def divided_prompts(self) -> tuple[list[Prompt], RolloutBatch | None]:
        """The prompts that RL goes over, and what is rehearsed beside them. `self.model` is still
        the base model."""
        x, settings = self.x, self.x.method.rehearsal
        if settings is None:
            return self.prompts, None
        root = Path(x.results_dir)
        rows = rehearsal.presampled(
            self.model,
            self.tokenizer,
            self.prompts,
            self.verify,
            samples=settings.samples,
            temperature=x.sampling.temperature,
            max_tokens=x.sampling.max_tokens,
            verifier=x.data.verifier,
            results_dir=root,
            cache=root / "models" / "rehearsal" / identity(x.model),
        )
        pef, exp = rehearsal.divided(rows, settings.at_least)
        known, answers = [self.prompts[i] for i in pef], [rows[i] for i in pef]
        batch = rehearsal.as_batch(known, answers, self.tokenizer, self.device)
        return [self.prompts[i] for i in exp], batch

    def to_rehearse(self, update: int) -> RolloutBatch | None:
        """What is rehearsed in this optimiser step, counted from 0 over the run."""
        x = self.x
        if self.rehearsed is None:
            return None
        responses = x.sampling.prompts // x.optim.mini_batches * x.sampling.group_size
        count = max(1, round(x.method.rehearsal.share * responses))
        pool = len(self.rehearsed.prompt_ids)
        rows = rehearsal.in_turn(pool, update * count, count, x.seed, "rehearsal")
        return rehearsal.chosen(self.rehearsed, rows)

    def rehearse(self, batch: RolloutBatch) -> torch.Tensor:
        """Add the gradient of eta D_f to the policy's; returns D_f, aggregated as the loss is."""
        x, total = self.x, torch.zeros((), device=self.device)
        weights = self.method.aggregate(batch.mask)
        for start in range(0, len(batch.prompt_ids), x.optim.micro_batch):
            rows = slice(start, start + x.optim.micro_batch)
            micro = batch.prompts(rows.start, rows.stop)
            log_prob, _ = log_probs(self.model, micro, x.sampling.temperature)
            divergence = self.method.divergence(log_prob, micro.log_probs)
            part = torch.where(micro.mask > 0, divergence * weights[rows], 0.0).sum()
            (x.method.rehearsal.eta * part).backward()
            total += part.detach()
        return total

    @torch.no_grad()
    def penalty(self, batch: RolloutBatch) -> torch.Tensor:
        """The method's KL estimate to the reference, summed over each response's tokens, (B,)."""
        x, parts = self.x, []
        per_micro = max(1, x.optim.micro_batch // batch.group_size)
        for start in range(0, len(batch.prompt_ids), per_micro):
            micro = batch.prompts(start, min(start + per_micro, len(batch.prompt_ids)))
            ref_log_prob, _ = log_probs(self.reference, micro, x.sampling.temperature)
            kl = self.method.kl(micro.log_probs, ref_log_prob)
            parts.append(torch.where(micro.mask > 0, kl, 0.0).sum(1))
        return torch.cat(parts)

    def memory_network(self) -> MemoryNetwork | None:
        sampler = self.x.method.sampler
        if sampler is None:
            return None
        return memory_network(sampler, self.model, self.tokenizer, self.x.seed)

    @torch.no_grad()
    def token_weights(self, batch: RolloutBatch, advantages: torch.Tensor, per_micro: int):
        """The method's weights of all tokens of the mini-batch, (B, T), from one pass before the
        update; None if it has none."""
        if self.method.token_weights is None:
            return None
        parts = [
            log_probs(self.model, batch.prompts(i, i + per_micro), self.x.sampling.temperature)[0]
            for i in range(0, len(batch.prompt_ids), per_micro)
        ]
        advantages = advantages.reshape(-1, 1)
        return self.method.token_weights(torch.cat(parts), batch.log_probs, advantages, batch.mask)

    def draw_prompts(self) -> list[Prompt]:
        """The next prompts: epochs without replacement, each in an order of its own."""
        pool, count = self.explored, self.x.sampling.prompts
        turn = rehearsal.in_turn(len(pool), self.drawn, count, self.x.seed, "order")
        self.drawn += count
        return [pool[i] for i in turn]

    def set_lr(self, step: int, arguments: dict) -> float:
        """Linear warm-up, then constant; equalised with `optim.equalise_to` at this step."""
        x = self.x
        lr = rate.equalised(
            x.optim.lr * min(1.0, step / max(1, x.optim.warmup_steps)),
            self.method,
            to=x.optim.equalise_to,
            group_size=x.sampling.group_size,
            reward=x.reward,
            arguments=arguments,
        )
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        return lr

    def sample(self, benchmark: str, step: int, n: int) -> Sampled:
        """Verified responses to a benchmark's prompts, by the model as it is."""
        return sample(
            self.model,
            self.tokenizer,
            self.benchmarks[benchmark],
            self.verify,
            benchmark=benchmark,
            n=n,
            settings=self.x.eval,
            seed=(self.x.seed, "eval", step),
        )

    def evaluate(self, step: int, sampled: list[Sampled]) -> None:
        """Keep the rows and counts of every benchmark's samples as `eval/step-<step>*.csv`."""
        x = self.x
        frames = [metric_rows(one, x.eval.k) for one in sampled]
        if step == x.optim.steps and x.eval.rare_nll_samples > 0:
            frames.append(self.rare_nll())
        rows = pd.concat(frames, ignore_index=True).assign(
            table=x.table,
            model=x.model.name,
            method=x.label,
            seed=x.seed,
            step=step,
            run_id=x.run_id,
        )
        folder = self.folder / "eval"
        write_csv(folder / f"step-{step:05d}-counts.csv", samples.concatenate(sampled))
        write_csv(folder / f"step-{step:05d}.csv", rows[COLUMNS])

    def rare_nll(self) -> pd.DataFrame:
        """Delta NLL on the base model's rare right answers to the first 256 training prompts."""
        x = self.x
        cache = Path(x.results_dir) / "models" / "rare-correct" / identity(x.model)
        prompts = self.prompts[:256]
        base, _ = load_model(x.model, Path(x.results_dir), self.device)
        rare = rare_nll.rare_correct(base, self.tokenizer, prompts, self.verify, x.eval, cache)
        return rare_nll.delta_nll(self.model, self.tokenizer, rare, x.eval)

    def finish(self, told: bool) -> None:
        """The model as a Hugging Face checkpoint, the last evaluation's samples, and all result
        rows. What a process that was killed here has left of these is not made again."""
        save(self.model, self.tokenizer, self.folder / "model")
        names, sampled = list(self.benchmarks), []
        bar = {"total": len(names)}
        for name in tracked(names, "last evaluation", **bar) if told else names:
            path = self.folder / "samples" / f"{name}.jsonl.gz"
            if not path.exists():
                drawn = self.sample(name, self.step, self.x.eval.n)
                write_jsonl_gz(path, drawn.rows.to_dict("records"))
            sampled.append(Sampled(name, pd.DataFrame(read_jsonl(path))))
            self.warn("eval", 1 - sampled[-1].rows["stopped"].mean())
        self.evaluate(self.step, sampled)
        last = self.folder / "eval" / f"step-{self.step:05d}-counts.csv"
        write(self.folder / "counts.csv", last.read_bytes())
        steps = sorted((self.folder / "eval").glob("step-?????.csv"))
        frames = [read_csv(path) for path in steps]
        if self.step > 0:
            frames.append(self.active_groups())
        rows = pd.concat(frames, ignore_index=True)
        write_csv(self.folder / "metrics.csv", rows)
        (self.folder / "checkpoint.pt").unlink(missing_ok=True)

    def warn(self, group: str, truncated: float) -> None:
        """Once a run, and not of the testbed, whose limit is part of its task."""
        key, limit = f"{group}.max_tokens", getattr(self.x, group).max_tokens
        if self.x.model.path is not None and key not in self.warned and truncated > samples.CUT_OFF:
            self.warned.add(key)
            samples.warn_cut_off(truncated, key, limit)

    def active_groups(self) -> pd.DataFrame:
        """One result row: percent of training groups with mixed rewards (F-GRPO Eq. 9), over all
        steps."""
        x, curve = self.x, pd.read_json(self.folder / "metrics.jsonl", lines=True)
        row: dict = dict(table=x.table, model=x.model.name, method=x.label, benchmark="training")
        row |= dict(metric="active_groups", value=100 * curve.active_groups.mean(), unit="percent")
        row |= dict(n_problems=x.sampling.prompts * len(curve), n_samples=x.sampling.group_size)
        row |= dict(seed=x.seed, step=self.step, run_id=x.run_id)
        return pd.DataFrame([row], columns=COLUMNS)

    def save_checkpoint(self) -> None:
        buffer = io.BytesIO()
        state = {
            "step": self.step,
            "drawn": self.drawn,
            "controller": self.state,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "memory": None if self.memory is None else self.memory.state_dict(),
            "lagged": None if self.lagged is None else self.lagged.state_dict(),
        }
        torch.save(state, buffer)
        write(self.folder / "checkpoint.pt", buffer.getvalue())

    def load_checkpoint(self) -> None:
        path = self.folder / "checkpoint.pt"
        if not path.exists():
            return
        try:
            state = torch.load(path, map_location=self.device, weights_only=True)
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.step, self.drawn = state["step"], state["drawn"]
            self.state = state["controller"]
            if self.memory is not None:
                self.memory.load_state_dict(state["memory"])
            if self.lagged is not None:
                self.lagged.load_state_dict(state["lagged"])
        except Exception as error:
            raise UserError(
                f"{path} is damaged ({str(error).splitlines()[0][:200]}); delete it to train from "
                "the start"
            ) from error


BACKEND = Backend(
    train=train,
    explain=explain.local,
    engine="local",
    needs_gpu=False,
    packages=(),
)
