"""One experiment of over-sharpening: `python -m papers.over_sharpening experiment=iac seed=1`."""

from common.train import command

if __name__ == "__main__":
    command("over_sharpening")
