"""Rows of several papers in one process."""

from common.experiment import load


def test_two_papers_rows_of_one_name_are_kept_apart():
    """cluster/qwen7b_grpo is a row of three papers; Hydra keeps one store a process."""
    papers = ["fade", "f_grpo", "cov_grpo", "f_grpo", "fade"]
    found = [load(["experiment=cluster/qwen7b_grpo"], paper) for paper in papers]
    assert [x.model.path for x in found] == [
        "results/fade/sft/qwen25_7b",
        "Qwen/Qwen2.5-7B",
        "Qwen/Qwen2.5-Math-7B-Instruct",
        "Qwen/Qwen2.5-7B",
        "results/fade/sft/qwen25_7b",
    ]
