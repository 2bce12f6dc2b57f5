"""The sixth paper's table on one GPU: `rlvr submit paper=sixth`."""

from slurm.tables import Table

TABLES = {"table1": Table("GRPO's shrunk baseline", rows="table1", profile="local-1x24")}
