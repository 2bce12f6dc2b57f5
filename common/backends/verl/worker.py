"""verl's worker for policy and rollout, with this launch's own socket for the weights that it sends
to vLLM, and with DLC's memory network (common/rollout/dlc.py): one of verl's FSDP engines with its
own optimiser, on the worker's GPU. Its weights are sent with the policy's, as `memory.*`."""

import os
from collections import deque
from copy import deepcopy
from datetime import timedelta
from pathlib import Path

import torch
from omegaconf import OmegaConf
from torch.distributed import distributed_c10d
from verl.single_controller.base.decorator import (
    Dispatch,
    make_nd_compute_dataproto_dispatch_fn,
    register,
)
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import TrainingWorkerConfig
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker
from verl.workers.utils.padding import no_padding_2_padding

from common.backends.verl.progress import beat
from common.backends.verl.sockets import own
from common.backends.verl.stand_in import stand_in
from common.rollout.vllm_dlc import PREFIX


class PolicyWorker(ActorRolloutRefWorker):  # not "Worker": verl finds its own worker by that name
    memory: TrainingWorker | None = None

    def __init__(self, config, *arguments, **named):
        # verl reads its key nowhere, and torch then waits as long as for gloo, 30 minutes
        limit = timedelta(seconds=config.nccl_timeout)
        distributed_c10d.default_pg_timeout = distributed_c10d.default_pg_nccl_timeout = limit
        super().__init__(config, *arguments, **named)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def init_model(self):
        if self.config.actor.fsdp_config.offload_policy:
            torch.set_num_threads(cores())
        super().init_model()
        self.rollout.zmq_handle = own(self.rollout.zmq_handle)
        for part in filter(None, (self.actor, getattr(self, "ref", None))):
            beating(part.engine)
        chosen = self.config.rollout.engine_kwargs.get("memory", None)
        if chosen is None:
            return
        self.memory = TrainingWorker(memory_config(self.config, self.actor.config, **chosen))
        self.memory.reset()
        beating(self.memory.engine)
        send = self.rollout.update_weights

        async def send_both(weights, **kwargs):
            await send(self._with_memory(weights), **kwargs)

        self.rollout.update_weights = send_both

    def _with_memory(self, weights):
        yield from weights
        weights, _ = self.memory.engine.get_per_tensor_param()
        for name, tensor in weights:
            yield PREFIX + name, tensor

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="actor"))
    def update_actor(self, data):
        asleep = asleep_gib()
        output = super().update_actor(data)
        if output is not None:
            tu.get(output, "metrics").update(asleep)
        return output

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="actor"))
    def learn_memory(self, data):
        self.memory.set_loss_fn(cross_entropy)
        output = self.memory.train_mini_batch(data=data)
        return None if output is None else output.cpu()

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="actor"))
    def compare_sampler(self, data):
        """Return the mean |p - q| as `loss` and the largest as `max`, with p of both networks here,
        softmax((f_theta - mu f_phi) / temperature), and vLLM's q of the response tokens."""
        mu = self.config.rollout.engine_kwargs.vllm.hf_overrides.memory_mu
        kept = deque[torch.Tensor]()

        def keep(_module, _given, output):
            kept.append(output.logits)

        def calibrate(_module, _given, output):
            output.logits = kept.popleft() - mu * output.logits

        tu.assign_non_tensor(data, micro_batch_size_per_gpu=1)
        self.memory.set_loss_fn(probability_difference)
        for part, hook in ((self.actor, keep), (self.memory, calibrate)):  # in the same passes
            tu.assign_non_tensor(data, compute_loss=part is self.memory)
            with part.engine.module.register_forward_hook(hook):
                output = part.infer_batch(data)
        if output is None:
            return None
        # only the metrics: verl would store the log-probabilities as the policy's
        return tu.get_tensordict({}, {"metrics": tu.get(output, "metrics")})

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def save_checkpoint(self, local_path, hdfs_path=None, global_step=0, max_ckpt_to_keep=None):
        if self.memory is not None:
            path = str(Path(local_path).with_name("memory"))
            self.memory.save_checkpoint(path, None, global_step, max_ckpt_to_keep)
        super().save_checkpoint(local_path, hdfs_path, global_step, max_ckpt_to_keep)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def load_checkpoint(self, local_path, hdfs_path=None, del_local_after_load=False):
        if self.memory is not None:
            path = str(Path(local_path).with_name("memory"))
            self.memory.load_checkpoint(path, None, del_local_after_load)
        super().load_checkpoint(local_path, hdfs_path, del_local_after_load)


if (stand := stand_in()) is not None:
    stand.adapt(PolicyWorker)


def asleep_gib() -> dict[str, float]:
    """Return what a GPU holds besides this process's tensors: a vLLM that sleeps, CUDA, NCCL."""
    if not torch.cuda.is_available():
        return {}
    free, whole = torch.cuda.mem_get_info()
    return {"asleep_gib": (whole - free - torch.cuda.memory_reserved()) / 2**30}


def cores() -> int:
    """Return the CPUs of each GPU of this node, for AdamW where it steps in main memory."""
    return max(1, len(os.sched_getaffinity(0)) // int(os.environ["RAY_LOCAL_WORLD_SIZE"]))


def beating(engine) -> None:
    """Make this verl engine leave a mark of progress at each micro-batch: an update may be long."""
    step, work = engine.forward_step, Path(os.environ["VERL_FILE_LOGGER_PATH"]).parents[1]

    def forward_step(*arguments, **named):
        beat(work)
        return step(*arguments, **named)

    engine.forward_step = forward_step


def memory_config(config, actor: TrainingWorkerConfig, *, path: str, lr: float):
    """Return the configuration that trains the network at `path` as common/rollout/dlc.py does."""
    model = omega_conf_to_dataclass(OmegaConf.merge(config.model, {"path": path}))
    given = dict(lr=lr, weight_decay=0.0, betas=[0.9, 0.999], clip_grad=1.0)
    given |= dict(lr_warmup_steps=0, lr_warmup_steps_ratio=0.0, lr_scheduler_type="constant")
    optim = omega_conf_to_dataclass(OmegaConf.merge(config.actor.optim, given))
    return TrainingWorkerConfig(
        model_type=actor.model_type,
        model_config=model,
        engine_config=deepcopy(actor.engine_config),
        optimizer_config=optim,
        checkpoint_config=actor.checkpoint_config,
        profiler_config=None,
    )


def cross_entropy(model_output, data, dp_group=None):
    """Return a micro-batch's part of the mean cross entropy over response tokens."""
    log_prob = no_padding_2_padding(model_output["log_probs"], data)
    mask = data.select("response_mask").to_padded_tensor()["response_mask"]
    total = -torch.where(mask > 0, log_prob, 0.0).sum()
    return total / data["batch_num_tokens"] * data["dp_size"], {}


def probability_difference(model_output, data, dp_group=None):
    """Return a micro-batch's part of the mean |p - q|, with vLLM's q, and the largest |p - q|."""
    log_prob = no_padding_2_padding(model_output["log_probs"], data)
    held = data.select("response_mask", "rollout_log_probs").to_padded_tensor()
    apart = (log_prob.exp() - held["rollout_log_probs"].exp()).abs()
    apart = torch.where(held["response_mask"] > 0, apart, 0.0)
    return apart.sum() / data["batch_num_tokens"] * data["dp_size"], {"max": apart.max().item()}
