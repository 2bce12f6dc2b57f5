"""One experiment of F-GRPO: `python -m papers.f_grpo experiment=f_grpo_gamma1 seed=1`."""

from common.train import command

if __name__ == "__main__":
    command("f_grpo")
