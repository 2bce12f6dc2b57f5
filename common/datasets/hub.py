"""Prompts of the public sets, from the hub or from local files. The sets are configs/eval/*.yaml
and configs/data/*.yaml; docs/data.md and `rlvr data --help` describe them."""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from common.config.resolve import resolve
from common.datasets.prompts import own_rows, unique
from common.datasets.rows import asked
from common.datasets.templates import render
from common.errors import UserError, require
from common.types import Prompt

LOCAL = "RLVR_DATA"  # environment variable: a folder of JSONL files in our row format
NONE = (None, "", [], {})


def load(
    *,
    name: str,
    hub: str,  # hub id, or a folder in the layout of a hub repository
    config: str | None,  # the hub's name of a subset
    revision: str,  # a commit; "main" is whatever the cache or the hub has
    split: str,
    id: str,  # format of a prompt's id; it may use the hub's fields and {row}, the row's number
    fields: dict[str, str],  # our field: the hub's field
    reference: dict[str, Any],  # the verifier's function that makes a row's reference
    instruction: str,
    chat: str | None,  # for instruction and chat see common/datasets/templates.py
    rows: int | None,  # expected number in the source; None: not known
    # expected number after rows were dropped, or [least, most]; None: not known
    kept: int | list[int] | None,
    files: list[str] | None = None,  # read these (globs) instead of what the hub calls a split
    local: str | None = None,  # file name under $RLVR_DATA; None: <name>.jsonl
    path: str | None = None,  # a JSONL file in our row format, read instead of all the above
    convert: dict[str, Any] | None = None,  # a function of common/datasets/rows.py
    gold: str = "answer",  # a row where this field is empty cannot be scored and is dropped
    window: list[str] | None = None,  # [first, end): keep rows whose date is in it
    drop_conflicts: bool = False,  # drop every prompt that occurs with different references
    tokenizer: str | None = None,
    max_prompt_tokens: int | None = None,  # drop longer prompts, counted by `tokenizer`
    subset: int | None = None,  # take so many prompts, drawn by `seed`, in the set's order
    seed: int = 0,
) -> list[Prompt]:
    """Return the prompts of one set; the dropped rows are counted on stderr. Raises UserError for a
    missing set, a missing or unknown field, a repeated id, and an unexpected number of rows."""
    from rich.console import Console
    from rich.progress import track

    known = {"name": name, "hub": hub, "id": id, "fields": fields, "convert": convert}
    if path or (path := local_file(name, local)):
        source, raw = path, _local_rows(path, ["id", "problem", *(["date"] if window else [])])
    else:
        folder = snapshot(hub, revision, files)
        source = f"{hub} ({folder.name[:12]})"
        raw = _converted(_read(folder, config, split, files, name), **known)
    to_reference = resolve(reference, "reference")
    prompts, dropped, count = [], Counter(), 0
    console = Console(stderr=True)
    bar = {"console": console, "transient": True, "disable": not console.is_terminal}
    for row in track(raw, name, total=rows, **bar):
        count += 1
        if window and not window[0] <= row["date"] < window[1]:
            dropped["outside the window"] += 1
        elif row.get(gold) in NONE or not str(row[gold]).strip():
            dropped[f"with empty {gold}"] += 1
        else:
            text = render(row, instruction=instruction, chat=chat)
            prompts.append(Prompt(str(row["id"]), text, to_reference(row)))
    _expect(name, "rows", count, rows, source)
    unique(prompts, f"{name}.id")
    if drop_conflicts:
        prompts = _keep(prompts, _agreed(prompts), dropped, "in conflict with a duplicate")
    if max_prompt_tokens:
        short = _short(prompts, tokenizer, max_prompt_tokens)
        prompts = _keep(prompts, short, dropped, f"over {max_prompt_tokens} tokens")
    reasons = "".join(f", {number} {reason}" for reason, number in dropped.items())
    print(f"{name}: {len(prompts)} of {count} rows from {source}{reasons}", file=sys.stderr)
    _expect(name, "kept", len(prompts), kept, source)
    if subset is not None:
        require(0 < subset <= len(prompts), "subset", subset, f"use 1 to {len(prompts)} of {name}")
        chosen = sorted(Random(f"{name}-{seed}").sample(range(len(prompts)), subset))
        prompts = [prompts[i] for i in chosen]
    return prompts


def snapshot(hub: str, revision: str, files: list[str] | None, offline: bool = False) -> Path:
    """Return the folder of a repository's files at a revision, after a download if it is not
    cached. Raises UserError that says how to prefetch."""
    if Path(hub).is_dir():
        return Path(hub)
    import huggingface_hub
    from httpx import HTTPError
    from huggingface_hub.errors import GatedRepoError

    try:
        return Path(
            huggingface_hub.snapshot_download(
                hub,
                repo_type="dataset",
                revision=revision,
                allow_patterns=files,
                local_files_only=offline or huggingface_hub.constants.HF_HUB_OFFLINE,
            )
        )
    except GatedRepoError as error:
        raise UserError(
            f"hub={hub}: accept its authors' terms on the set's page, then run `hf auth login`"
        ) from error
    except (OSError, ValueError, HTTPError) as error:
        raise UserError(
            f"hub={hub} revision={revision}: not in the cache and cannot be downloaded here "
            f"({type(error).__name__}); run `rlvr data prefetch=true ...` where there "
            f"is a network, with the same HF_HOME, or set {LOCAL} to a folder of local files"
        ) from error


def _read(folder: Path, config: str | None, split: str, files: list[str] | None, name: str):
    from datasets import load_dataset

    try:
        if files:
            paths = sorted(str(path) for pattern in files for path in folder.glob(pattern))
            require(bool(paths), f"{name}.files", files, f"{folder} has none of these")
            kind = "parquet" if paths[0].endswith(".parquet") else "json"
            return load_dataset(kind, data_files=paths, split="train", streaming=True)
        return load_dataset(str(folder), config, split=split, streaming=True)
    except (OSError, ValueError) as error:  # an unknown subset or split, an empty folder
        raise UserError(f"{name}: config={config} split={split}: {error}") from error


def _local_rows(path: str, needed: list[str]) -> Iterator[dict]:
    for i, row in enumerate(own_rows(path), 1):
        missing = [field for field in needed if not isinstance(row, dict) or not row.get(field)]
        require(not missing, f"{path}, row {i}", missing, "is missing or empty; fix or drop it")
        yield row


def _converted(table, *, name, hub, id, fields, convert) -> Iterator[dict]:
    change = resolve(convert, "convert") if convert else lambda row: {}
    for i, row in enumerate(table):
        try:
            row = {**row, **change(row)}
            ours = {field: row[theirs] for field, theirs in fields.items()}
            ours["problem"] = asked(ours["problem"])
            made = {"id": id.format_map({**row, "row": i}), **ours}
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise UserError(
                f"{name}: row {i} of {hub} lacks or garbles {error}; it has {sorted(row)}. "
                "Correct fields, id or convert, or pin another revision"
            ) from error
        yield made


def local_file(name: str, local: str | None) -> str | None:
    """Return the set's file under $RLVR_DATA, or None."""
    folder = os.environ.get(LOCAL)
    if not folder:
        return None
    require(Path(folder).is_dir(), LOCAL, folder, "no such folder; correct or unset it")
    path = Path(folder) / (local or f"{name}.jsonl")
    return str(path) if path.is_file() else None


def _expect(
    name: str, key: str, number: int, expected: int | list[int] | None, source: str
) -> None:
    least, most = expected if isinstance(expected, list) else (expected, expected)
    fits = expected is None or least <= number <= most
    remedy = f"{source} gives {number}; pin the revision that has {expected}, or set {key}={number}"
    require(fits, f"{name}.{key}", expected, remedy)


def _keep(prompts: list, flags: list[bool], dropped: Counter, reason: str) -> list:
    kept = [prompt for prompt, keep in zip(prompts, flags, strict=True) if keep]
    if len(kept) < len(prompts):
        dropped[reason] = len(prompts) - len(kept)
    return kept


def _agreed(prompts: list[Prompt]) -> list[bool]:
    """Return False for each prompt whose text, apart from spaces, also occurs with another
    reference: either may be wrong. Duplicates that agree stay."""
    references: dict[str, set[str]] = {}
    texts = [" ".join(prompt.text.split()) for prompt in prompts]
    for text, prompt in zip(texts, prompts, strict=True):
        references.setdefault(text, set()).add(prompt.reference)
    return [len(references[text]) == 1 for text in texts]


def _short(prompts: list[Prompt], tokenizer: str | None, limit: int) -> list[bool]:
    from common.models.load import input_ids, read_tokenizer

    require(tokenizer is not None, "tokenizer", tokenizer, "max_prompt_tokens needs a tokenizer")
    encode = read_tokenizer(tokenizer, key="tokenizer")
    texts = [prompt.text for prompt in prompts]
    return [len(ids) <= limit for ids in input_ids(encode, texts)]
