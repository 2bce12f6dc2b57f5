"""verl's trainer for a whole Experiment: it logs what the local backend logs, trains on complete
batches only, and evaluates with our number of samples."""

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import ray
from omegaconf import open_dict
from verl.utils.metric import reduce_metrics

from common.backends import snapshots
from common.backends.dynamic import UNDECIDED, numbered
from common.backends.saving import Saving
from common.backends.verl import plugin, rows, v1
from common.backends.verl.checkpoints import drop_old
from common.backends.verl.export import export
from common.backends.verl.progress import STOP
from common.backends.verl.rows import PREFIX
from common.backends.verl.trainer import MethodTrainer
from common.backends.verl.worker import PolicyWorker
from common.errors import UserError
from common.losses.aggregate import token_mean
from common.results.columns import SCORE
from common.results.files import write_json


class ExperimentTrainer(MethodTrainer):
    def __init__(self, config):
        super().__init__(config)
        self.saving = Saving(config.trainer.save_freq)
        self.exports, self.exported = ThreadPoolExecutor(1), Future[None]()
        self.exported.set_result(None)

    @property
    def memory(self) -> bool:
        return "memory" in self.config.actor_rollout_ref.rollout.engine_kwargs

    def _init_resource_pool_mgr(self):
        if over := self.config.algorithm.decay_over:  # verl has set the number of the run's steps
            with open_dict(self.config):
                self.config.actor_rollout_ref.actor.optim.total_training_steps = over
        super()._init_resource_pool_mgr()
        for role in self.role_worker_mapping:  # no critic: our methods have none
            self.role_worker_mapping[role] = ray.remote(PolicyWorker)

    def on_train_begin(self):
        """Set the temperature of log-probabilities; verl's samplers have read theirs by now."""
        super().on_train_begin()
        if (temperature := self.config.algorithm.log_prob_temperature) is not None:
            with open_dict(self.config):
                self.config.actor_rollout_ref.rollout.temperature = temperature

    def _compute_old_log_prob(self, batch, metrics: dict):
        """Log the entropy as the token mean, in nats; verl aggregates it as the loss."""
        batch = super()._compute_old_log_prob(batch, metrics)
        data = v1.get(batch, "entropy", "response_mask").to_padded_tensor()
        weights = token_mean(data["response_mask"])
        metrics["actor/entropy"] = (weights * data["entropy"]).sum().item()
        return batch

    def _step_once(self, metrics: dict, *arguments):
        self.seen = metrics  # the step fills them
        return super()._step_once(metrics, *arguments)

    def step(self, *arguments):
        """Make verl's step, and save if due; a stop leaves a due evaluation to the next launch."""
        batch = super().step(*arguments)
        trainer, step = self.config.trainer, self.global_steps
        self.asked = (Path(trainer.default_local_dir).parent / STOP).exists()
        saves = self.asked or step in trainer.keep_models or self.saving.due(step)
        with open_dict(self.config):
            trainer.save_freq = 1 if saves else self.total_training_steps
            if self.asked:
                trainer.total_epochs = 0
        return batch

    def on_step_end(self):  # after a checkpoint, before an evaluation
        if self.asked:
            with open_dict(self.config):
                self.config.trainer.test_freq = 0
        else:
            super().on_step_end()

    def _save_checkpoint(self):
        self.exported.result()  # its checkpoint is needed until then; raises the export's error
        checkpoints, step = Path(self.config.trainer.default_local_dir), self.global_steps
        with self.saving.timed(step):
            drop_old(checkpoints.parent)
            # verl logs a step after it has evaluated: a kill before that would lose the row
            row = {"step": step, "data": rows.keep(self.seen)}
            write_json(checkpoints / f"global_step_{step}" / rows.ROW, row)
            super()._save_checkpoint()
        self._keep_model()

    def _load_checkpoint(self):
        super()._load_checkpoint()
        self._keep_model()  # for a run that was killed after it had saved

    def _keep_model(self) -> None:
        """Export the step's model, if the experiment keeps it, while the GPUs go on."""
        trainer, step = self.config.trainer, self.global_steps
        if step not in trainer.keep_models:
            return
        checkpoints = Path(trainer.default_local_dir)  # below the run folder
        path = snapshots.folder(checkpoints.parents[1], step)
        if not path.exists():
            actor = checkpoints / f"global_step_{step}" / "actor"
            self.exported = self.exports.submit(export, actor, path, trainer.device)

    def _compute_advantage(self, batch, metrics: dict):
        """Compute the advantages and log our metrics. Refuse a batch that lacks a response."""
        real = v1.real(batch)
        groups, size = self.config.data.train_batch_size, self.config.actor_rollout_ref.rollout.n
        if len(real) != groups * size:
            raise UserError(
                f"step {self.global_steps}: {len(real)} responses instead of {groups} x {size}; "
                "generating or verifying the others failed"
            )
        data = v1.get(real, "uid", "rm_scores", "extra_fields")
        scores = data.pop("rm_scores").to_padded_tensor(0.0).sum(1).tolist()
        samples = [extra["reward_extra_info"] for extra in data.pop("extra_fields").tolist()]
        uids = data.pop("uid").tolist()
        seen = observed(uids, scores, samples)
        metrics.update({PREFIX + key: value for key, value in seen.items()})
        algorithm = self.config.algorithm
        asked = plugin.asked(algorithm.method, "outcomes", "log_probs")
        with open_dict(self.config):
            algorithm.of_responses = of_responses(uids, samples, asked)
        if self.memory:
            metrics.update(self._compare_sampler(real))
        return super()._compute_advantage(batch, metrics)

    def _compare_sampler(self, batch) -> dict[str, float]:
        """Compare vLLM with the calibrated distribution; the logits of one response a GPU fit."""
        shared = self.config.actor_rollout_ref.actor.ulysses_sequence_parallel_size
        count = self.actor_rollout_wg.world_size // shared
        part = batch.select_keys(batch.keys[:: len(batch) // count][:count])
        temperature = self.config.actor_rollout_ref.rollout.temperature
        part.extra_info.update({"calculate_entropy": False, "temperature": temperature})
        found = reduce_metrics(self.actor_rollout_wg.compare_sampler(part)["metrics"])
        said = "training/rollout_probs_diff_"  # verl's names
        return {said + "mean": found["loss"], said + "max": found["max"]}

    def _update_actor(self, batch, metrics: dict):
        batch = super()._update_actor(batch, metrics)
        if self.memory:
            whole = dict(mini_batch_size=len(batch), global_batch_size=len(batch), temperature=1.0)
            batch.extra_info.update(whole | {"calculate_entropy": False})
            learned = self.actor_rollout_wg.learn_memory(batch)["metrics"]
            metrics[PREFIX + "memory_loss"] = reduce_metrics(learned)["loss"]
        return batch

    def on_validate_begin(self):
        self._set_memory_weight(0.0)  # as on the local backend, only the policy is evaluated

    def on_validate_end(self):
        self._set_memory_weight(None)

    def _set_memory_weight(self, mu: float | None) -> None:
        if self.memory:
            engine = self.config.actor_rollout_ref.rollout.engine_kwargs.vllm
            mu = engine.hf_overrides.memory_mu if mu is None else mu
            servers = [one.server_handle for one in self.llm_server_manager.get_replicas()]
            ray.get([s.collective_rpc.remote("set_memory_weight", args=(mu,)) for s in servers])

    def _validate(self) -> dict:
        last = self.global_steps >= self.total_training_steps
        whole = self.config.actor_rollout_ref.rollout.val_kwargs.n
        self.val_dataset.dataframe = set_samples(
            self.val_dataset.dataframe, whole if last else self.config.data.curve_n
        )
        return super()._validate()

    @staticmethod
    def _write_generations(*given):
        """Write elsewhere first: a file cut short by a kill would pass for a whole one."""
        *samples, folder, step = given
        unfinished = Path(folder, "unfinished")
        MethodTrainer._write_generations(*samples, unfinished, step)
        name = f"{step}.jsonl"
        (unfinished / name).replace(Path(folder, name))

    def _val_metrics_update(self, data_sources, _uids, extra: dict, *_, **__) -> dict:
        """Return only pass@1 and the number of samples; verl's best@k is biased."""
        right: dict[str, list[bool]] = {}
        for name, outcome in zip(data_sources, extra["outcome"], strict=True):
            right.setdefault(name, []).append(outcome == "correct")
        means = {f"{PREFIX}{SCORE}{name}": 100 * sum(r) / len(r) for name, r in right.items()}
        return means | {PREFIX + "validation_samples": len(data_sources)}


def set_samples(dataframe, n: int):
    """Return the validation rows with `n` samples each, in the column that verl reads."""
    if "__rollout_n__" in dataframe.column_names:
        dataframe = dataframe.remove_columns("__rollout_n__")
    return dataframe.add_column("__rollout_n__", [n] * len(dataframe))


def of_responses(uids: list, samples: list[dict], asked: list[str]) -> dict[str, list]:
    """Return what the method asks for: `outcomes`, numbered by answer in a group, `log_probs`."""
    answers = [(uid, sample["parsed"]) for uid, sample in zip(uids, samples, strict=True)]
    drawn = [sample["log_prob"] for sample in samples]
    found = {"outcomes": numbered(answers), "log_probs": drawn}
    return {name: found[name] for name in asked}


def observed(uids: list, scores: list[float], samples: list[dict]) -> dict[str, float]:
    """Return columns of the local backend's metrics.jsonl from a step's rewards and verdicts."""
    groups: dict[object, set] = {}
    for uid, score in zip(uids, scores, strict=True):
        groups.setdefault(uid, set()).add(score)
    count, outcomes = len(samples), [sample["outcome"] for sample in samples]
    return {
        "reward": sum(scores) / count,
        "solve_rate": outcomes.count("correct") / count,
        "active_groups": sum(len(group) > 1 for group in groups.values()) / len(groups),
        **{name: outcomes.count(name) / count for name in UNDECIDED},
        "response_length": sum(sample["tokens"] for sample in samples) / count,
        "truncated": sum(not sample["stopped"] for sample in samples) / count,
    }
