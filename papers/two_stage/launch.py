"""The two-stage paper's tables on a cluster.

    python -m papers.two_stage.launch    # tables, their rows and seeds
    python -m papers.two_stage.launch table=table2 prefetch=true    # on the login node
    python -m papers.two_stage.launch table=table2 profile=h100-1x8 dry_run=true
    python -m papers.two_stage.launch table=table2 profile=h100-1x8    # again: what is missing
    rlvr status paper=two_stage

--help lists all command-line arguments. configs/reproduce.yaml holds the rows (named experiment
configurations) under `rows`, and their seeds, benchmarks and samples under `scales`. The profiles
are in configs/slurm/.
"""

from slurm.launch import Table, command

TABLES = {
    "table1": Table("Qwen2.5-Math-7B: GRPO, GSPO and their -N variants"),
    "table2": Table("Llama 3.2 3B: GRPO and GRPO-N"),
    "table3": Table("MATH-500 of Table 1's runs"),
    "table4": Table("entropies of the samples of Tables 1 and 2"),
}

if __name__ == "__main__":
    command("two_stage", TABLES)
