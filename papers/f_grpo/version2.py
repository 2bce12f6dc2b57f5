"""Which runs stand for the printed rows of F-GRPO's second version: most are printed twice."""

from common.comparison.spec import SameRun

BASES = ("GRPO", "DAPO", "CISPO")
METHODS = [f"{focal}{base}" for base in BASES for focal in ("", "F-")]
# Of Table 6 the exponents that are not the chosen one, of some model
UNCHOSEN = {"GRPO": (1, 2), "DAPO": (0.5, 1, 2), "CISPO": (0.5, 1, 2)}
SWEPT = [f"F-{base} (gamma={gamma})" for base in BASES for gamma in UNCHOSEN[base]]

DENSE = "AIME25 (n=64)"  # of Figs 8 to 10: SCALE=cluster_v2_first
GROUP_SIZES = (4, 8, 16, 32, 64, 128)  # of Table 4
MAZE = ("GRPO", "F-GRPO (gamma=0.5)", "F-GRPO (gamma=1)")


def second_version() -> list[SameRun]:
    """Of Tables 1, 2, 3, 6 and 10 to 14 the rows that another table's runs stand for. New runs have
    the table that prints them first: table1_v2 (Qwen3-4B-Base), table2_v2 (N = 4 and 16), table3_v2
    (lower rate, DS-GRPO); those of the gamma sweep are in the table of their baseline."""
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
    """Table 4 names the group size with the benchmark, our runs with the method."""
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
