"""The verl backend: whole experiments (`backend=verl`, docs/cluster-week.md), and every method file
of `configs/method/` inside stock verl. Only this folder imports verl.

    backend.py   a run from prompts to result rows; config.py, data.py, layout.py, process.py,
                 rows.py, export.py and explain.py are parts of it and import no verl
    main.py      the process that backend.py starts: verl's main_ppo with plugin.py (methods),
                 trainer.py and experiment_trainer.py (verl's trainer, subclassed), worker.py and
                 extension.py (likewise verl's and vLLM's worker), agent.py (prompts), reward.py
                 (verifier)
    cpu.py       the platform for machines without a GPU

To start it by hand, with verl's own flags:

    python -m common.backends.verl.main method=f_grpo <verl's own flags>

This command sets verl's flags as the method file says and then runs `python -m
verl.trainer.main_ppo`, and it keeps a controller's state if the method has a controller. Without
our command, `import verl` alone registers the methods (entry point `verl.plugins`, or
VERL_USE_EXTERNAL_MODULES=common.backends.verl.plugin):

    algorithm.adv_estimator=rlvr_f_grpo
    actor_rollout_ref.actor.policy_loss.loss_mode=rlvr_f_grpo

Every method is called `rlvr_<name>`; it is also called `<name>` if verl has neither an estimator
nor a loss of that name (so not grpo, rloo, gspo, cispo, clip_cov, kl_cov). Methods that rehearse
(DPH-F, DPH-JS) are not registered: verl updates on its rollouts alone, and our command refuses them
before Ray starts.

Arguments come from the method file. Flags override them, and an unknown argument is refused:

    +algorithm.method.gamma=1                           of the advantage
    +algorithm.reward_correct=2                         the reward of a correct response, if not 1
    +algorithm.controller.beta=0.1                      of the controller
    actor_rollout_ref.actor.policy_loss._target_=common.backends.verl.plugin.MethodLossConfig
    +actor_rollout_ref.actor.policy_loss.method.eps_high=0.28         of the loss
    +actor_rollout_ref.actor.policy_loss.token_weights.ratio=0.001    of the token weights

(`_target_` is set already if `method=` is given.) verl's clip_ratio* act on verl's losses only.

Differences from the local backend: the KL estimator is verl's, which clamps the log-ratio. The
entropy bonus and the KL term are verl's too, and are aggregated as the policy loss is.

No result depends on the number of GPUs or on what verl packs into a pass. Our trainer computes the
token weights that compare responses (CW-GRPO, also its repository's version; Clip-Cov) before verl
packs, for the only optimiser step of a rollout. Token weights that look at one response (A3PO) are
computed in the loss. If verl is started by hand, with verl's flags alone, all token weights are
computed on the micro-batch that verl hands over, as in verl's own clip_cov and kl_cov. Then the
size of the micro-batch, and with it the number of GPUs, is part of the method.

Refused: losses that look at more than log-probabilities, advantages and mask (SimKO looks at
entropies and the likeliest tokens), because verl does not hand these to its policy losses. Whole
experiments also refuse weights that compare responses if optim.mini_batches > 1, and therefore
KL-Cov, whose penalty acts from the second step on.

Left out: DPH-RL's rehearsal set, which would have to join each mini-batch with a loss of its own.

Left out of whole experiments: asynchronous training (FADE sec 11.1). verl's
trainer.v1.trainer_mode=separate_async has separate samplers, but it hands weights over only by
nccl, nixl, kimi or mooncake, each of which needs a GPU or RDMA (naive is refused), so it could not
be tried here; docs/cluster-gpu.md has the flags. Our trainer, which keeps a controller's state and
refuses incomplete batches, is a subclass of verl's synchronous trainer.
"""
