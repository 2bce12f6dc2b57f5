"""The sets of configs/, as nodes without a verifier, and rows to load as one."""

import json

from common.config.resolve import resolve
from common.datasets import command

SETS = command.sets()

NODES = {key: {k: v for k, v in node.items() if k != "verifier"} for key, node in SETS.items()}


def bare_answer(row: dict) -> str:
    """A stand-in for a verifier's `reference`."""
    return str(row["answer"])


def ifeval_from_text(row: dict) -> dict:
    return {"kwargs": [{k: v and json.loads(v) for k, v in one.items()} for one in row["kwargs"]]}


def instructions(row: dict) -> str:
    """A stand-in for IFEval's `reference`; None is left out, as there."""
    given = [{k: v for k, v in one.items() if v is not None} for one in row["kwargs"]]
    return json.dumps([row["instruction_id_list"], given], sort_keys=True)


def loaded(key: str, **changes) -> list:
    return resolve({**NODES[key], "chat": "qwen", "subset": None, **changes}, key)()


def node(**changes) -> dict:
    """Arguments of `load` for a set of two fields called q and a."""
    return {
        "name": "own",
        "hub": "some/set",
        "config": None,
        "revision": "main",
        "split": "train",
        "id": "own-{row}",
        "fields": {"problem": "q", "answer": "a"},
        "reference": {"_target_": "dataset_nodes.bare_answer"},
        "instruction": "bare",
        "chat": "plain",
        "rows": None,
        "kept": None,
        **changes,
    }
