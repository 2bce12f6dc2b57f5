"""The over-sharpening paper's tables on a cluster.

    python -m papers.over_sharpening.launch    # tables, their rows and seeds
    python -m papers.over_sharpening.launch table=table4 prefetch=true    # on the login node
    python -m papers.over_sharpening.launch table=table4 profile=h100-1x8 dry_run=true
    python -m papers.over_sharpening.launch table=table4 profile=h100-1x8    # again: the rest
    rlvr status paper=over_sharpening

--help lists all command-line arguments. configs/reproduce.yaml holds the rows (named experiment
configurations) under `rows`, and their seeds, benchmarks and samples under `scales`. The profiles
are in configs/slurm/.
"""

from slurm.launch import Table, command

TABLES = {
    "table2": Table("AVG@8 of five methods on three models"),
    "table3": Table("PASS@8 of the same responses"),
    "table4": Table("DAPO with IAC and DLC"),
    "table5": Table("alpha, and filtering", ("cluster", "cluster_filter")),
    "kl": Table("Algorithm 1's KL", ("cluster_kl",), rows="all"),
    "recipes": Table("verl's own values", ("cluster_recipes",), rows="all"),
}

if __name__ == "__main__":
    command("over_sharpening", TABLES)
