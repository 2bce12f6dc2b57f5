"""Figures of weight changes and hidden states, from result files alone.

    rlvr figures paper=fade [results_dir=results]

`python -m papers.fade.theory` draws the figures of the theory.
"""

from pathlib import Path

from papers.fade.hidden_states import figures as hidden_states
from papers.fade.weights import figures as weights


def draw(root: Path) -> None:
    """Draw every figure that the results below `root` allow, into <root>/fade/figures/."""
    weights.draw(root)
    hidden_states.draw(root)
