"""Writes prompts as the parquet files that verl reads, and references, which may take megabytes, as
a separate file for reward.py: verl sends a row's columns along with every sample."""

import json
from pathlib import Path
from typing import BinaryIO

import pandas as pd

from common.errors import require
from common.experiment import Experiment
from common.models.load import input_ids
from common.results.files import write, writing
from common.types import Prompt

TRAIN = "train"  # data_source of training rows; validation rows carry their benchmark's name
REFERENCES = "references.jsonl"  # of all rows, one JSON text a line
ROWS = 10_000  # of a row group: above 2 GiB of nested texts in one, a parquet cannot be read


def rows(chosen: list[Prompt], source: str, limits: list[int], file: BinaryIO) -> list[dict]:
    """Return rows with verl's columns, and append their references to `file`. `ground_truth` is the
    byte of the file where the reference begins, `max_tokens` the limit of the response."""
    found = []
    for index, (prompt, limit) in enumerate(zip(chosen, limits, strict=True)):
        row = {
            "data_source": source,
            "prompt": [{"role": "user", "content": prompt.text}],
            "reward_model": {"style": "rule", "ground_truth": file.tell()},
            "extra_info": {"index": index, "problem_id": prompt.id, "max_tokens": limit},
        }
        file.write(json.dumps(prompt.reference).encode() + b"\n")
        found.append(row)
    return found


def reference(file: BinaryIO, start: int) -> str:
    file.seek(start)
    return json.loads(file.readline())


def prompt_lengths(chosen: list[Prompt], tokenizer, context: int) -> list[int]:
    """Return the tokens of each prompt. Raises UserError for an empty or too long prompt."""
    texts = [prompt.text for prompt in chosen]
    counts = [len(ids) for ids in input_ids(tokenizer, texts)]
    for prompt, count in zip(chosen, counts, strict=True):
        require(count > 0, "prompt id", prompt.id, "has no token that the model's tokenizer knows")
        remedy = f"has {count} tokens, and the model reads {context}: no room for a response; "
        remedy += (
            "drop it (max_prompt_tokens of its data set) or take a model with a longer context"
        )
        require(count < context, "prompt id", prompt.id, remedy)
    return counts


def write_parquet(
    x: Experiment, folder: Path, train: list[Prompt], benchmarks: dict, tokenizer, context: int
) -> int:
    """Write `train.parquet`, `val.parquet` (all benchmarks) and their references; return the
    longest prompt in tokens. Responses get what long prompts leave of `context`."""
    tables, longest = {"train": [], "val": []}, 0
    with writing(folder / REFERENCES) as file:
        for source, chosen in {TRAIN: train, **benchmarks}.items():
            most = x.sampling.max_tokens if source == TRAIN else x.eval.max_tokens
            counts = prompt_lengths(chosen, tokenizer, context)
            limits = [min(most, context - count) for count in counts]
            tables["train" if source == TRAIN else "val"] += rows(chosen, source, limits, file)
            longest = max(longest, *counts)
    for name, table in tables.items():
        parquet = pd.DataFrame(table).to_parquet(index=False, row_group_size=ROWS)
        write(folder / f"{name}.parquet", parquet)
    return longest
