"""What a user of stock verl has, in each of its processes: a reward function. For the tests this
module also notes, in the folder RECORDED, each step's batch after the advantages were computed, and
the advantages that the actor's loss is called with. And verl is started once for all methods: after
its run, those of PHASES (other keys of its configuration) go on with the trainers that verl would
make for them, on the same workers."""

import json
import os
import random
from copy import deepcopy
from pathlib import Path

import transfer_queue
from omegaconf import OmegaConf
from verl.trainer.ppo.v1 import trainer_base
from verl.workers.utils import losses


def compute_score(data_source, solution_str, ground_truth, **_):
    """Right for one to four in five of random responses, as the prompt has it."""
    return float(random.Random(solution_str).random() < float(ground_truth))


def note(name: str, row: dict) -> None:
    with Path(os.environ["RECORDED"], name).open("a") as file:
        file.write(json.dumps(row) + "\n")


def fit_all(self, agents):
    fit(self, agents)
    for phase in json.loads(os.environ["PHASES"]):
        changed = deepcopy(self.config)
        fresh = {"algorithm.controlled": None, "trainer.logger": ["console"]}
        for key, value in {**fresh, **phase}.items():
            OmegaConf.update(changed, key, value, force_add=True)
        new = trainer_base.get_trainer_cls("sync")(config=changed)
        new.__dict__ = self.__dict__ | new.__dict__  # what `init` makes is there already
        new.total_training_steps = changed.trainer.total_training_steps
        new._init_dump_executor()
        new._load_checkpoint()
        new.on_init_end()
        fit(new, agents)


def compute_advantage(self, batch, metrics):
    batch = compute(self, batch, metrics)
    fields = ["uid", "rm_scores", "response_mask", "advantages", "old_log_probs"]
    where = dict(keys=batch.keys, partition_id=batch.partition_id)
    data = transfer_queue.kv_batch_get(**where, select_fields=fields)
    uid, data = data.pop("uid").tolist(), data.to_padded_tensor()
    for name, reward, mask, *rows in zip(uid, *(data[key] for key in fields[1:]), strict=True):
        advantages, log_probs = (row[mask > 0].tolist() for row in rows)
        phase = self.config.trainer.experiment_name
        row = {
            "phase": phase,
            "step": self.global_steps,
            "uid": str(name),
            "reward": reward.sum().item(),
        }
        row |= {"advantages": advantages, "log_probs": log_probs}
        note("steps.jsonl", row)
    return batch


def loss_fn(name: str):
    loss = get(name)

    def noted(*, old_log_prob, advantages, response_mask, **named):
        for log_prob, row, mask in zip(old_log_prob, advantages, response_mask, strict=True):
            row = {"advantages": row[mask > 0].tolist(), "log_probs": log_prob[mask > 0].tolist()}
            note("loss.jsonl", {"loss": name} | row)
        given = dict(advantages=advantages, response_mask=response_mask)
        return loss(old_log_prob=old_log_prob, **given, **named)

    return noted


compute, get = trainer_base.PPOTrainer._compute_advantage, losses.get_policy_loss_fn
fit, trainer_base.PPOTrainer.fit = trainer_base.PPOTrainer.fit, fit_all
trainer_base.PPOTrainer._compute_advantage, losses.get_policy_loss_fn = compute_advantage, loss_fn
