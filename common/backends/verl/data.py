"""Our prompts as the parquet files that verl reads. Nothing here imports verl."""

from pathlib import Path

import pandas as pd

from common.experiment import Experiment
from common.results.files import write
from common.types import Prompt

TRAIN = "train"  # data_source of training rows; validation rows carry their benchmark's name


def rows(chosen: list[Prompt], source: str, max_tokens: int) -> list[dict]:
    """verl's columns: `prompt` a list of messages (agent.py takes the one text), `data_source`,
    `reward_model.ground_truth` the reference, `extra_info` what travels with a sample."""
    return [
        {
            "data_source": source,
            "prompt": [{"role": "user", "content": prompt.text}],
            "reward_model": {"style": "rule", "ground_truth": prompt.reference},
            "extra_info": {"index": index, "problem_id": prompt.id, "max_tokens": max_tokens},
        }
        for index, prompt in enumerate(chosen)
    ]


def write_parquet(x: Experiment, folder: Path, train: list[Prompt], benchmarks: dict) -> None:
    """`train.parquet` and `val.parquet`, the benchmarks one after another."""
    tests = [
        row for name, chosen in benchmarks.items() for row in rows(chosen, name, x.eval.max_tokens)
    ]
    for name, table in {
        "train": rows(train, TRAIN, x.sampling.max_tokens),
        "val": tests,
    }.items():
        write(folder / f"{name}.parquet", pd.DataFrame(table).to_parquet(index=False))
