"""Figures of hidden states and of Prop. 15.1, from result files alone.

    rlvr figures paper=fade [results_dir=results]

`python -m papers.fade.theory` draws the figures of the theory.
"""

from papers.fade.hidden_states.figures import draw

__all__ = ["draw"]
