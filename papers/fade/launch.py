"""FADE's tables on a cluster, as `rlvr submit paper=fade` takes them.

The 7B rows start from a supervised fine-tuned model, and the 32B rows choose their prompts by solve
rates. Both are made by jobs that the rows wait for. Run `python -m papers.fade.sft prepare` first:
it makes the training files of the fine-tuning.
"""

from slurm.tables import Table

LARGE = "h100-12x8"  # twelve nodes: one GPU for each of the 96 responses of a step

TABLES = {
    # only the 32B rows: scale=cluster_32b, on h100-12x8
    "table3": Table("LiveCodeBench v6 at 7B and 32B", ("cluster_base", "cluster", "cluster_32b")),
    "table4": Table("AIME at 7B", ("cluster_base", "cluster")),
    "table5": Table("AIME at 32B", ("cluster_32b",), profile=LARGE),
    "7b": Table("every run at 7B: Tables 3, 4 and 6, Figs 3 to 5, 8, 9", rows="all"),
    "fig3": Table("Figs 3 and 4: the sweep of delta", rows="table_fig3"),
    "fig8_table": Table("the table in Fig. 8: weight changes at three entropy targets"),
    "table9": Table("rank 1 of weight changes at 7B and 32B", ("cluster", "cluster_32b")),
    "fig9": Table("the ablations", rows="table_fig9"),
    "std": Table("GRPO with the standard deviation", ("cluster_std",), rows="all"),
    "fig14": Table("at GRPO's learning rate", ("cluster_fig14",), rows="all"),
    "curves": Table(
        "Figs 1, 5, 6, 9 to 13: pass@k each 100 rollouts", ("cluster_curves",), rows="all"
    ),
    "curves_32b": Table("Fig. 1 at 32B", ("cluster_curves_32b",), rows="all", profile=LARGE),
}
