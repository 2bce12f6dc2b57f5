"""The verl backend: whole experiments (`backend=verl`, docs/cluster-week.md) through verl's own
trainer. Only this folder and rlvr_papers/verl.py import verl.

    backend.py   a run from prompts to result rows; config.py, data.py, layout.py, process.py,
                 rows.py and export.py are parts of it and import no verl
    main.py      the process that backend.py starts: verl's main_ppo with plugin.py (methods),
                 trainer.py and experiment_trainer.py (verl's trainer, subclassed), worker.py and
                 extension.py (likewise verl's and vLLM's worker), agent.py (prompts), reward.py
                 (verifier); v1.py has what we use of verl's V1 trainer
    stock.py     our methods in runs of verl that are not ours (rlvr_papers/verl.py)

No result depends on the number of GPUs or on what verl packs into a pass: our trainer computes
token weights (CW-GRPO, Clip-Cov) before verl packs. They are refused if optim.mini_batches > 1.

The KL estimator (with a clamp) is verl's. Left out: asynchronous training (FADE sec 11.1).
"""
