"""Which runs reproduce the printed rows of F-GRPO's second version. Most results are printed in
more than one table, so several printed rows share a run."""

from common.comparison.spec import SameRun

BASES = ("GRPO", "DAPO", "CISPO")
METHODS = [f"{focal}{base}" for base in BASES for focal in ("", "F-")]
# Exponents in Table 6 that at least one model did not choose
UNCHOSEN = {"GRPO": (1, 2), "DAPO": (0.5, 1, 2), "CISPO": (0.5, 1, 2)}
SWEPT = [f"F-{base} (gamma={gamma})" for base in BASES for gamma in UNCHOSEN[base]]

DENSE = "AIME25 (n=64)"  # the benchmark of Figs 8 to 10, evaluated with SCALE=cluster_v2_first
GROUP_SIZES = (4, 8, 16, 32, 64, 128)  # the columns of Table 4
MAZE = ("GRPO", "F-GRPO (gamma=0.5)", "F-GRPO (gamma=1)")


def second_version() -> list[SameRun]:
    """Return the rows of Tables 1, 2, 3, 4, 6 and 10 to 14 that reuse the runs of another table.

    A new run belongs to the table that prints it first: table1_v2 (Qwen3-4B-Base), table2_v2 (N = 4
    and 16), table3_v2 (lower learning rate, DS-GRPO). A run of the gamma sweep belongs to the table
    of its baseline.
    """
    return [
        *(SameRun("table1_v2", method, "table1", method) for method in METHODS),
        *(
            SameRun("table6_v2", method, table, method)
            for method in [*METHODS, *SWEPT]
            for table in ("table1", "table1_v2")
        ),
        *(
            SameRun(ladder, method, table, method)
            for ladder, table in (
                ("table12_v2", "table1"),
                ("table13_v2", "table1_v2"),
                ("table14_v2", "table1"),
            )
            for method in METHODS
        ),
        *group_sizes("table2_v2"),
        *group_sizes("table10_v2"),
        *_same("table10_v2", "table2_v2", "GRPO (N=4)", "GRPO (N=16)"),
        *controls("table3_v2"),
        *controls("table11_v2"),
        *_same("table11_v2", "table3_v2", "GRPO (low LR)", "DS-GRPO"),
        *maze(),
    ]


def maze() -> list[SameRun]:
    """Return the rows of Table 4. The paper puts the group size into the name of the benchmark;
    our runs have it in the name of the method."""
    return [
        SameRun("table4_v2", method, "maze", f"{method} (N={N})", benchmark=f"Maze (N={N})")
        for N in GROUP_SIZES
        for method in MAZE
    ]


def group_sizes(table: str) -> list[SameRun]:
    return [
        *_same(table, "table2", "GRPO (N=2)", "GRPO (N=32)"),
        *(SameRun(table, f"{method} (N=8)", "table1", method) for method in ("GRPO", "F-GRPO")),
    ]


def controls(table: str) -> list[SameRun]:
    return [
        *_same(table, "table1", "F-GRPO"),
        *_same(table, "table4", "GRPO (entropy bonus)", "GRPO (KL)"),
    ]


def _same(table: str, of: str, *methods: str) -> list[SameRun]:
    return [SameRun(table, method, of, method) for method in methods]
