"""What the papers' READMEs tell a user of verl or TRL to paste, and the rows that it must be."""

import re

from compositions import experiment
from documents import BLOCK
from tiny import ROOT

# the row of configs/cluster.yaml whose settings of GRPO a README has
ROWS = {
    "f_grpo": "qwen7b_grpo",
    "fade": "qwen7b_grpo",
    "over_sharpening": "qwen3_4b_grpo",
    "two_stage": "qwen7b_math_grpo",
    "cov_grpo": "distill15b_grpo",
}


def row(paper: str):
    return experiment(f"cluster/{ROWS[paper]}", paper)


def block(paper: str, framework: str) -> str:
    """The one block whose first line names the framework."""
    text = (ROOT / "papers" / paper / "README.md").read_text()
    (found,) = [text for _, text in BLOCK.findall(text) if framework in text.split("\n")[0]]
    return found


def line(paper: str, start: str) -> str:
    """The one piece of code in the text that starts so: the line that adds the method."""
    text = (ROOT / "papers" / paper / "README.md").read_text()
    (found,) = re.findall(rf"`({re.escape(start)}[^`]*)`", text)
    return " ".join(found.split())
