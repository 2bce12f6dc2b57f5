"""CW-GRPO's tables on a cluster.

    python -m papers.cov_grpo.launch    # tables, their rows and seeds
    python -m papers.cov_grpo.launch table=table3 prefetch=true    # on the login node
    python -m papers.cov_grpo.launch table=table3 profile=h100-1x8 dry_run=true
    python -m papers.cov_grpo.launch table=table3 profile=h100-1x8    # again: what is missing
    rlvr status paper=cov_grpo

--help lists all command-line arguments. The rows (named experiment configurations) are in
configs/reproduce.yaml under `rows`, their seeds, benchmarks and samples under `scales`; the cluster
profiles are in configs/slurm/.
"""

from slurm.launch import Table, command

TABLES = {
    "table2": Table("1.5B and 7B: GRPO, Clip-Cov, CW-GRPO and the base models"),
    "seeds": Table("both, 5 seeds, n = 64", ("cluster_seeds",), rows="all"),
    "table3": Table("GRPO and CW-GRPO at steps 100, 150 and 200"),
}

if __name__ == "__main__":
    command("cov_grpo", TABLES)
