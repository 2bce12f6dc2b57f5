"""Figures of the simulation, drawn from result files alone.

    rlvr figures paper=f_grpo [results_dir=results]

`python -m papers.f_grpo.theory` draws the figures of the theory.
"""

from pathlib import Path

from papers.f_grpo.simulation import figures as simulation_figures


def draw(root: Path) -> None:
    """Draw every figure that the results below `root` allow into <root>/f_grpo/figures/."""
    simulation = root / "f_grpo" / "simulation"
    if (simulation / "final.csv.gz").exists():
        simulation_figures.draw(simulation, root / "f_grpo" / "figures")
