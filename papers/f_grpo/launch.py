"""F-GRPO's tables on a cluster; `rlvr submit paper=f_grpo` lists their rows."""

from slurm.tables import Table

FIRST, BOTH, SECOND = ("cluster",), ("cluster", "cluster_v2"), ("cluster_v2",)

TABLES = {
    # the first version
    "table1": Table("three models, six methods; nine benchmarks"),
    "table2": Table("Qwen2.5-7B: group size N = 2, 8, 32, and Delta NLL of rare right answers"),
    "table3": Table("every benchmark: N = 2, 8, 32 and F-GRPO, the runs of Tables 1 and 2"),
    "table4": Table("F-GRPO, the entropy bonus and the KL penalty"),
    "sequence": Table("GRPO with the 1/T_i of Sec. 2.2", ("cluster_sequence",), rows="all"),
    "sweeps": Table("App. H.3: the gammas that were chosen from", ("cluster_sweeps",), rows="all"),
    # the second version; where it prints results of the first again, they are the same runs
    "table1_v2": Table("Qwen3-4B in place of Qwen2.5-1.5B-Math", BOTH),
    "first": Table("its 3 of 10 epochs, Figs 8-10", ("cluster_v2_first",), rows="all"),
    "table2_v2": Table("N = 4 and 16 too", BOTH),
    "table3_v2": Table("controls: a lower learning rate, DS-GRPO", BOTH),
    "table4_v2": Table("mazes, 3.9 M parameters: one GPU", ("gpu",), profile="local-1x80"),
    "mazes": Table("Figs 6, 7: its rows and the base model", ("gpu",), "all", "local-1x80"),
    "table6_v2": Table("every exponent gamma, three models", BOTH),
    "table10_v2": Table("every benchmark by group size N", BOTH),
    "table11_v2": Table("every benchmark of the controls", BOTH),
    "table12_v2": Table("Qwen2.5-7B, pass@1 to pass@256", FIRST),
    "table13_v2": Table("Qwen3-4B, pass@1 to pass@256", SECOND),
    "table14_v2": Table("Llama 3.2 3B, pass@1 to pass@256", FIRST),
}
