"""The training files of FADE's supervised fine-tuning, made shard by shard.

<folder>/<set>/part-00012.parquet   the column `messages`, as verl's SFT trainer reads it
<folder>/<set>.counts/00012.json    rows read, kept, and left out by reason
<folder>/<set>.counts/asked.json    the settings that all shards of the set were made with

A shard is complete or absent and is never made again, so the same command resumes. Memory holds one
row group (BATCH rows) and the problems that OpenCodeReasoning-2 points to (about 60,000 texts).
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Annotated, Any

from pydantic import Field

from common.config.resolve import resolve
from common.datasets.hub import snapshot
from common.errors import UserError, require
from common.results.files import write_json, writing
from papers.fade.sft import sources

BATCH = 256  # rows of a row group


@dataclass(frozen=True)
class Set:
    """A data set of reasoning chains, or a set of problems that such a set refers to."""

    hub: str  # hub id, or a folder in the layout of a hub repository
    revision: str
    files: list[str]  # glob patterns
    rows: int | None  # the expected number of rows in all files; None: not known


@dataclass(frozen=True)
class Chains(Set):
    messages: dict[str, Any]  # the function of sources.py that turns a row into a conversation
    share: Annotated[float, Field(gt=0, le=1)]  # share of the rows that is drawn, with `seed`


@dataclass(frozen=True)
class Prepare:
    folder: str
    seed: int
    sets: dict[str, Chains]
    problems: dict[str, dict[str, Set]]  # data set -> split, as OpenCodeReasoning-2 names them


def prepare(config: Prepare) -> dict[str, Counter]:
    """Make the missing files and return the counts of each set. Raises UserError for a set that
    cannot be found, lacks a field, has an unexpected number of rows, or keeps none."""
    question = Problems(config.problems)
    counts = {}
    for name, chains in config.sets.items():
        counts[name] = made(name, chains, Path(config.folder), config.seed, question)
        print(f"{name}: {dict(counts[name])}", file=sys.stderr)
    return counts


def made(name: str, chains: Chains, folder: Path, seed: int, question) -> Counter:
    home, counts = snapshot(chains.hub, chains.revision, chains.files), Counter()
    convert = resolve(chains.messages, f"sets.{name}.messages", open_ended=True)
    asked, settings = folder / f"{name}.counts" / "asked.json", asdict(chains) | {"seed": seed}
    settings.pop("rows")
    settings["commit"] = home.name  # what `revision` stood for
    if asked.exists() and json.loads(asked.read_text()) != settings:
        raise UserError(
            f"{folder / name} was made with other settings; delete it and {asked.parent}"
        )
    write_json(asked, settings)
    for number, shard in enumerate(shards(home, chains.files, name)):
        part = folder / name / f"part-{number:05d}.parquet"
        count = folder / f"{name}.counts" / f"{number:05d}.json"
        if not (part.exists() and count.exists()):
            drawn = Random(f"{seed}-{name}-{shard.name}")
            said = Counter()
            write_part(part, kept(rows(shard), convert, question, chains.share, drawn, said, name))
            write_json(count, dict(said))  # written last: a part without its count is made again
        counts.update(json.loads(count.read_text()))
    remedy = f"{chains.hub} gives {counts['rows']}; pin another revision, or set this key to it"
    require(chains.rows in (None, counts["rows"]), f"sets.{name}.rows", chains.rows, remedy)
    require(counts["kept"] > 0, f"sets.{name}", dict(counts), "keeps no row; correct its files")
    return counts


def kept(
    table, convert, question, share: float, drawn: Random, counts: Counter, name: str
) -> Iterator[list[dict]]:
    """Yield the conversations of the drawn and complete rows of a shard, and fill `counts`."""
    for i, row in enumerate(table):
        counts["rows"] += 1
        if drawn.random() >= share:
            counts["not drawn"] += 1
            continue
        try:
            messages = convert(row=row, question=question)
        except KeyError as error:
            raise UserError(
                f"sets.{name}: row {i} lacks {error}; it has {sorted(row)}. Pin another revision"
            ) from error
        if isinstance(messages, str):
            counts[messages] += 1
            continue
        counts["kept"] += 1
        yield messages


def write_part(path: Path, conversations: Iterator[list[dict]]) -> None:
    """Write a parquet file that appears only when complete; memory holds one row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    turn = pa.struct([("role", pa.string()), ("content", pa.string())])
    schema = pa.schema([("messages", pa.list_(turn))])
    with writing(path) as file, pq.ParquetWriter(file, schema) as writer:
        group = []
        for messages in conversations:
            group.append({"messages": messages})
            if len(group) == BATCH:
                writer.write_table(pa.Table.from_pylist(group, schema))
                group = []
        writer.write_table(pa.Table.from_pylist(group, schema))


class Problems:
    """Look up the problem that a row of OpenCodeReasoning-2 refers to by (dataset, split, index). A
    data set is read when the first row refers to it, and only its texts are kept."""

    def __init__(self, sets: dict[str, dict[str, Set]]):
        self.sets, self.texts = sets, {}

    def __call__(self, row: dict) -> str | None:
        name, split = row["dataset"].rpartition("/")[2], row["split"]
        where, index = f"problems.{name}.{split}", int(row["index"])
        if where not in self.texts:
            source = self.sets.get(name, {}).get(split)
            require(source is not None, where, source, "a row refers to this set; name its files")
            self.texts[where] = problem_texts(name, source, where)
        texts = self.texts[where]
        require(index < len(texts), f"{where} index", index, f"it has {len(texts)} problems")
        return texts[index]


def problem_texts(name: str, source: Set, where: str) -> list[str | None]:
    home, columns = snapshot(source.hub, source.revision, source.files), COLUMNS[name]
    table = (row for shard in shards(home, source.files, where) for row in rows(shard, columns))
    texts = [sources.problem(name, row) for row in table]
    remedy = f"{source.hub} has {len(texts)}; OpenCodeReasoning-2 counts rows, so pin a revision"
    require(source.rows in (None, len(texts)), f"{where}.rows", source.rows, remedy)
    return texts


COLUMNS = {  # the columns to read of each set of problems: its tests are many times larger
    "taco": ["question"],
    "apps": ["question"],
    "code_contests": ["description"],
    "codeforces": ["description", "input_format", "output_format", "examples", "note"],
}


def shards(home: Path, files: list[str], name: str) -> list[Path]:
    found = sorted(path for pattern in files for path in home.glob(pattern))
    require(bool(found), f"{name}.files", files, f"match no file in {home}")
    return found


def rows(shard: Path, columns: list[str] | None = None):
    from datasets import load_dataset

    chosen = {"columns": columns} if columns else {}
    return load_dataset("parquet", data_files=str(shard), split="train", streaming=True, **chosen)
