"""What we use of verl's V1 trainer and of TransferQueue, its store of samples: the place to meet
changes of either. Their keys in verl's configuration are in settings.yaml."""

import transfer_queue
from tensordict import TensorDict
from verl.trainer.main_ppo import TaskRunnerV1
from verl.trainer.ppo.v1 import trainer_base
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer as Buffer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync as Trainer

__all__ = ["Buffer", "Driver", "Trainer", "get", "put", "real", "use"]

Driver = TaskRunnerV1.__ray_metadata__.modified_class  # the actor in which the trainer runs


def use(trainer: type, buffer: type) -> None:
    """Let this process's driver make our trainer, as verl's "sync", and our buffer."""
    trainer_base.TRAINER_REGISTRY["sync"] = trainer
    trainer_base.ReplayBuffer = buffer


def get(batch, *fields: str) -> TensorDict:
    """Return these fields of a batch, one row a response and as ragged as the responses."""
    where = dict(keys=batch.keys, partition_id=batch.partition_id)
    return transfer_queue.kv_batch_get(**where, select_fields=[*fields])


def put(batch, **fields):
    where = dict(keys=batch.keys, partition_id=batch.partition_id)
    return transfer_queue.kv_batch_put(**where, fields=TensorDict(fields, batch_size=len(batch)))


def real(batch):
    """Return the batch without the rows with which verl fills it up."""
    rows = zip(batch.keys, batch.tags, strict=True)
    return batch.select_keys([key for key, tag in rows if not tag.get("is_padding", False)])
