"""CW-GRPO's tables on a cluster; `rlvr submit paper=cov_grpo` lists their rows."""

from slurm.tables import Table

TABLES = {
    "table1": Table("covariances of GRPO, its first 50 steps"),
    "table2": Table("1.5B and 7B: GRPO, Clip-Cov, CW-GRPO and the base models"),
    "table3": Table("GRPO and CW-GRPO at steps 100, 150 and 200"),
    "repository": Table("as the author's code", ("cluster_repository",), rows="all"),
}
