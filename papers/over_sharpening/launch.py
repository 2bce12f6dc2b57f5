"""Over-sharpening's tables on a cluster; `rlvr submit paper=over_sharpening` lists their rows."""

from slurm.tables import Table

TABLES = {
    "table2": Table("AVG@8 of five methods on three models"),
    "table3": Table("PASS@8 of the same responses"),
    "table4": Table("DAPO with IAC and DLC"),
    "table5": Table("alpha, and filtering", ("cluster", "cluster_filter")),
    "bare": Table("without KL and dual clip", ("cluster_bare",), rows="all"),
    "recipes": Table("verl's own values", ("cluster_recipes",), rows="all"),
}
