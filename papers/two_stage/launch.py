"""The two-stage paper's tables on a cluster; `rlvr submit paper=two_stage` lists their rows."""

from slurm.tables import Table

TABLES = {
    "table1": Table("Qwen2.5-Math-7B: GRPO, GSPO and their -N variants"),
    "table2": Table("Llama 3.2 3B: GRPO and GRPO-N"),
    "table3": Table("MATH-500 of Table 1's runs"),
    "table4": Table("entropies of the samples of Tables 1 and 2"),
    "sequence": Table("Tables 1 and 2 with the printed 1/|y|", ("cluster_sequence",), rows="all"),
    "long": Table("Remark 4: ten times the steps", ("cluster_long",), rows="all"),
}
