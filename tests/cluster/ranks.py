"""`python tests/cluster/ranks.py FOLDER`: the loss and gradient of one mini-batch by every loss
of a method, through verl's engine on 1 and 2 processes (gloo), as FOLDER/<processes>.pt:

    {packing: {method: (loss, gradient of all weights as one vector)}}

FOLDER/local.pt: {method: (loss, gradient)} of the local backend's functions, where these are the
whole loss; FOLDER/advantages.pt: {method: (verl's, the local backend's)} of every method; and
FOLDER/waits.json: the seconds that process groups of a worker wait. Everything is imported once,
and the processes are forked before any backward pass.
"""

import json
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing
from engines import (
    CONTROLLED,
    PROMPT,
    SEEN,
    G,
    P,
    T,
    advantages,
    configured,
    experiment,
    loss_of,
    mini_batch,
    random_model,
    training_worker,
    with_advantages,
)
from omegaconf import OmegaConf
from verl.utils import tensordict_utils as tu
from verl.workers.engine_workers import ActorRolloutRefWorker, initialize_global_process_group_ray

from common.backends.verl import config, worker
from common.experiment import Experiment
from common.methods import binding, catalogue

# processes: the packings that they try. With 2 each accumulates two passes, and their sums are
# reduced
WORLDS = {1: ("fixed", "packed"), 2: ("packed",)}
PACKINGS = {
    # four padded rows a pass
    "fixed": dict(use_dynamic_bsz=False, use_remove_padding=False),
    # as on GPUs: as many rows as have 60 tokens (the longest has 16), one after another
    "packed": dict(use_dynamic_bsz=True, max_token_len_per_gpu=60, use_remove_padding=True),
}
SMALL = {"pass_at_k_chen": {"k": 2}}  # the file's 4 is all of a group
MORE = {  # what else a loss may be made of
    "grpo, entropy bonus": ["method=grpo", "method.entropy_coef=0.01"],
    "gspo, entropy bonus": ["method=gspo", "method.entropy_coef=0.01"],
    "grpo, KL": ["method=grpo", "method.kl_coef=0.1"],
    "dr_grpo, KL": ["method=dr_grpo", "method.kl_coef=0.1"],
    "cw_grpo by group": [
        "method=cw_grpo",
        "method.token_weights._target_=papers.cov_grpo.covariance.formulas.by_group",
        f"+method.token_weights.group_size={G}",
    ],
}
TIMEOUT = 77  # seconds


def experiments() -> dict[str, Experiment]:
    """Of every method, and of MORE."""
    plain = experiment("device=cpu")
    given = dict(max_tokens=T, steps=plain.optim.steps)
    made = {
        name: replace(plain, method=catalogue.method(name, **given, **SMALL.get(name, {})))
        for name in catalogue.names()
    }
    return made | {name: experiment("device=cpu", *words) for name, words in MORE.items()}


def cases(folder: Path, model: Path, batch) -> tuple[dict, dict]:
    """name -> (loss function, the mini-batch for it), and name -> Experiment, of the first method
    that has a loss; the advantages of all are written."""
    found, first, composed, both = {}, {}, {}, {}
    for name, x in experiments().items():
        m = x.method
        loss = str(
            (m.loss, m.token_weights, m.aggregation, m.entropy_coef, m.kl_coef, m.kl_estimator)
        )
        if new := loss not in composed:
            composed[loss] = configured(x, model)
        verls = composed[loss]
        for key, value in config.parts(m, G).items():
            OmegaConf.update(verls, key, value, merge=False)
        mask = batch.batch["response_mask"]
        both[name] = advantages(verls, batch), local_advantages(x, batch) * mask
        if new:
            found[name] = loss_of(verls), with_advantages(verls, batch)
            first[name] = x
    found["memory network"] = worker.cross_entropy, with_advantages(verls, batch)
    torch.save(both, folder / "advantages.pt")
    return found, {name: x for name, x in first.items() if alone(x)}


def alone(x: Experiment) -> bool:
    """Whether the method's loss, without KL and entropy, is all that is minimised. The repository's
    version of CW-GRPO is excluded: verl has its first step, of the policy that has sampled."""
    return x.method.kl_coef == x.method.entropy_coef == 0 and x.method.name != "cw_grpo_repository"


def local_advantages(x: Experiment, batch) -> torch.Tensor:
    """One a response, (B, 1), as the local loop computes them."""
    bound, held = x.bound, batch.batch
    rewards = held["token_level_rewards"].sum(1).view(P, G)
    _, arguments = binding.observe(bound, {}, **CONTROLLED, step=1)
    seen = {name: torch.tensor(values).view(P, G) for name, values in SEEN.items()}
    lengths = held["response_mask"].float().sum(1).view(P, G)
    seen |= {"correct": rewards == 1, "lengths": lengths}
    return binding.advantages(bound, rewards, arguments=arguments, **seen).view(-1, 1)


def local(x: Experiment, network, batch) -> tuple[float, torch.Tensor]:
    """Loss and gradient as the local loop computes them, by autograd on the whole mini-batch."""
    bound, held = x.bound, batch.batch
    mask, old = held["response_mask"].float(), held["old_log_probs"]
    weights = local_advantages(x, batch)
    given = {key: held[key] for key in ("input_ids", "attention_mask", "position_ids")}
    logits = network(**given).logits[:, PROMPT - 1 : -1]
    log_prob = logits.log_softmax(-1).gather(-1, held["responses"][..., None])[..., 0]
    extra = {}
    if bound.token_weights is not None:  # of the policy that has sampled, before its only update
        extra["token_weights"] = bound.token_weights(old, old, weights, mask)
    values, _ = bound.loss(log_prob, old, weights, mask, **extra)
    total = torch.where(mask > 0, values * bound.aggregate(mask), 0).sum()
    network.zero_grad()
    total.backward()
    return total.item(), torch.cat([p.grad.flatten() for p in network.parameters()])


def one(rank: int, world: int, port: int, folder: Path, given: dict) -> None:
    """A process of `world`."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    verls = configured(
        experiment("device=cpu"),
        folder / "model",
        **{"actor_rollout_ref.model.use_remove_padding": True},
    )
    made = training_worker(verls)
    gradient = []

    def hand_over() -> float:
        parameters = made.engine.module.parameters()
        gradient[:] = [torch.cat([p.grad.full_tensor().flatten() for p in parameters])]
        made.engine.optimizer_zero_grad()
        return 0.0

    made.engine.optimizer_step = hand_over
    found: dict = {packing: {} for packing in WORLDS[world]}
    for name, (loss, tensors) in given.items():
        made.set_loss_fn(loss)
        for packing in WORLDS[world]:
            mine = tensors.chunk(world)[rank]  # as verl hands rows to its workers
            tu.assign_non_tensor(mine, **PACKINGS[packing])
            metrics = tu.get(made.train_batch(mine), "metrics")
            found[packing][name] = metrics["loss"], gradient[0]
    if rank == 0:
        torch.save(found, folder / f"{world}.pt")
    dist.destroy_process_group()


def waits(_, folder: Path) -> None:
    """The process of a worker whose key of verl's is TIMEOUT."""
    os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")

    # as verl's TrainingWorker does; on a CPU torch refuses the backend that it names itself
    def make(*_):
        initialize_global_process_group_ray(timeout_second=None, backend="cpu:gloo")

    ActorRolloutRefWorker.__init__ = make
    worker.PolicyWorker(OmegaConf.create({"nccl_timeout": TIMEOUT}), "actor")
    cpu = torch.device("cpu")
    mesh = dist.init_device_mesh("cpu", (1,)).get_group()
    made = [group._get_backend(cpu) for group in (dist.group.WORLD, mesh, dist.new_group())]
    found = [one.options._timeout.total_seconds() for one in made]
    found.append(dist.distributed_c10d._get_default_timeout("nccl").total_seconds())
    (folder / "waits.json").write_text(json.dumps(found))


def main(folder: Path) -> None:
    assert max(WORLDS) <= P * G // 2
    model = folder / "model"
    network = random_model(model)
    batch = mini_batch(network)
    given, first = cases(folder, model, batch)
    torch.multiprocessing.start_processes(waits, (folder,), nprocs=1, start_method="fork")
    for world in WORLDS:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        torch.multiprocessing.start_processes(
            one, (world, port, folder, given), nprocs=world, start_method="fork"
        )
    found = {name: local(x, network, batch) for name, x in first.items()}
    torch.save(found, folder / "local.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
