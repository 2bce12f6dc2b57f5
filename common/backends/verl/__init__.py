"""The verl backend: whole experiments (`backend=verl`, docs/cluster-week.md), and every method file
of `configs/method/` inside stock verl. Only this folder imports verl.

    backend.py   a run from prompts to result rows; config.py, data.py, memory.py, process.py,
                 rows.py, export.py and explain.py are its parts and import no verl
    main.py      what it starts: verl's main_ppo with plugin.py (methods), trainer.py and
                 experiment_trainer.py (verl's trainer), worker.py and extension.py (its worker and
                 vLLM's), agent.py (prompts), reward.py (verifier)
    cpu.py       the platform for machines without a GPU

By hand, with verl's own flags:

    python -m common.backends.verl.main method=f_grpo <verl's own flags>

sets verl's flags as the method file says and then is `python -m verl.trainer.main_ppo`, with a
controller's state where the method has one. Without our command, `import verl` alone registers the
methods (entry point `verl.plugins`, or VERL_USE_EXTERNAL_MODULES=common.backends.verl.plugin):

    algorithm.adv_estimator=rlvr_f_grpo
    actor_rollout_ref.actor.policy_loss.loss_mode=rlvr_f_grpo

Every method is `rlvr_<name>`; also plain `<name>` where verl has neither an estimator nor a loss of
that name (so not grpo, rloo, gspo, cispo, clip_cov, kl_cov). Methods that rehearse (DPH-F, DPH-JS)
are not registered: verl updates on its rollouts alone, and our command refuses them before Ray
starts.

Arguments come from the method file; flags change them, and an unknown one is refused:

    +algorithm.method.gamma=1                           of the advantage
    +algorithm.reward_correct=2                         the reward of a correct response, if not 1
    +algorithm.controller.beta=0.1                      of the controller
    actor_rollout_ref.actor.policy_loss._target_=common.backends.verl.plugin.MethodLossConfig
    +actor_rollout_ref.actor.policy_loss.method.eps_high=0.28         of the loss
    +actor_rollout_ref.actor.policy_loss.token_weights.ratio=0.001    of the token weights

(`_target_` is set already where `method=` was given.) verl's clip_ratio* act on verl's losses only.

What differs from the local backend: KL is verl's estimator, which clamps the log-ratio; the entropy
bonus and KL term are verl's, aggregated as the policy loss is.

No result depends on the number of GPUs or on what verl packs into a pass. Token weights that
compare responses (CW-GRPO, also its repository's; Clip-Cov) are computed by our trainer, before
verl packs, for the one optimiser step of a rollout; those of one response (A3PO) in the loss. By
hand, with verl's flags alone, all are computed on the micro-batch that verl hands over, as in
verl's own clip_cov and kl_cov: there its size, and with it the number of GPUs, is part of the
method.

Refused: losses that look at more than log-probabilities, advantages and mask (SimKO: at entropies
and the likeliest tokens), which verl does not hand to its policy losses. In whole experiments also
weights that compare responses where optim.mini_batches > 1, and with them KL-Cov, whose penalty
acts from the second step on.

Left out: DPH-RL's rehearsal set, which would have to join each mini-batch with a loss of its own.

Left out of whole experiments: asynchronous training (FADE sec 11.1). verl's
trainer.v1.trainer_mode=separate_async has samplers of their own, but hands weights over by nccl,
nixl, kimi or mooncake only, each of which needs a GPU or RDMA (naive is refused), so it could not
be tried here; docs/cluster-gpu.md has the flags. Our trainer, which keeps a controller's state and
refuses incomplete batches, is a subclass of the synchronous one.
"""
