"""One experiment of CW-GRPO: `python -m papers.cov_grpo experiment=cw_grpo seed=1`."""

from common.train import command

if __name__ == "__main__":
    command("cov_grpo")
