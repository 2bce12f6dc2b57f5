"""Each run stores the commit of every public set, goes on with that one alone, and numbers of
sets that were read from two are not compared."""

import json

import pandas as pd
from dataset_nodes import NODES
from refuses import refuses, refuses_file

from common.comparison.cells import one_source_each
from common.datasets.commits import read_from, read_whole
from common.results import provenance
from common.results.files import write
from common.results.run import Run

AMC = NODES["eval=amc23"]
HUB = AMC["hub"]
ROWS = [{"id": i, "problem": f"P{i}", "answer": 1.0, "url": ""} for i in range(40)]


def test_a_set_is_pinned_to_one_commit_unless_none_could_be_found():
    revisions = {key: node.get("revision", "") for key, node in NODES.items()}
    loose = {key for key, one in revisions.items() if one == "main"}
    assert loose == {"eval=amc23", "eval=minerva", "eval=olympiadbench", "data=taco"}
    assert all(len(one) == 40 for key, one in revisions.items() if one and key not in loose)
    assert revisions["data=math_train"] == revisions["eval=math_lighteval"]


def finished(root, name: str, found: dict):
    run = Run(root, "f_grpo", name, {})
    run.keep_sets(found)
    run.finish()
    return provenance.trace(root, run.path, {})


def test_main_is_the_commit_that_the_cache_has(hub, tmp_path, monkeypatch):
    folder = hub(HUB, "main", {"train.jsonl": ROWS})
    assert read_from(AMC) == {"amc23": f"{HUB}@{'c' * 40}"}
    part = {"_target_": "common.datasets.prompts.part", "of": AMC, "number": 0, "parts": 2}
    assert read_from([part, {"size": 3}]) == read_from(AMC)
    (folder.parents[1] / "refs" / "main").write_text("d" * 40)  # the hub's main has moved on
    folder.with_name("d" * 40).symlink_to(folder)
    assert read_from(AMC) == {"amc23": f"{HUB}@{'d' * 40}"}
    monkeypatch.setenv("RLVR_DATA", str(tmp_path))
    (tmp_path / "amc23.jsonl").write_text("{}\n")
    assert read_from(AMC)["amc23"].startswith("sha256:")
    assert read_from(AMC | {"path": "own.jsonl"}) == {}


def test_a_run_stores_what_it_read_and_goes_on_with_that_alone(tmp_path):
    run = Run(tmp_path, "f_grpo", "a", {})
    run.keep_sets({"amc23": "hub@c"})
    run.close()
    again = Run(tmp_path, "f_grpo", "a", {})
    again.keep_sets({"amc23": "hub@c", "aime24": "hub@x"})
    with refuses("set amc23", "hub@d"):
        again.keep_sets({"amc23": "hub@d"})
    kept = (again.path / "sets.json").read_text()
    for damaged in (kept[:20], "[]", "\udc80"):
        write(again.path / "sets.json", damaged.encode(errors="surrogateescape"))
        with refuses_file(again.path / "sets.json"):
            again.keep_sets({"amc23": "hub@c"})
    write(again.path / "sets.json", kept)
    again.finish()
    stored = {"amc23": "hub@c", "aime24": "hub@x"}
    assert json.loads((again.path / "sets.json").read_text()) == stored
    assert "sets.json" in json.loads((again.path / "DONE").read_text())
    Run(tmp_path, "f_grpo", "made", {}).keep_sets({})
    assert not (tmp_path / "f_grpo" / "made" / "sets.json").exists()


def test_numbers_of_a_set_of_two_commits_are_neither_averaged_nor_compared(tmp_path):
    ones = {"a": {"amc23": "hub@c", "aime24": "hub@x"}, "b": {"amc23": "hub@d"}, "c": {}}
    runs = [{"run_id": n} | finished(tmp_path, n, found) for n, found in ones.items()]
    table = pd.DataFrame(runs, columns=provenance.COLUMNS)
    places = [("AMC", "a"), ("AMC", "b"), ("AIME", "a"), ("AIME", "c"), ("MATH", "b")]
    rows = pd.DataFrame(places, columns=["benchmark", "run_id"]).assign(table="table1", model="M")
    left, (said,) = one_source_each(rows, table)
    for part in ("table1, M, AMC", "set amc23", "hub@c: a", "hub@d: b"):
        assert part in said
    assert left.index.tolist() == [2, 3, 4]
    whole, said = one_source_each(rows[1:], table)
    assert (len(whole), said) == (4, [])
    empty, said = one_source_each(rows[:0], table[:0])
    assert (len(empty), said) == (0, [])


def test_prefetch_says_the_commit(hub):
    hub(HUB, "main", {"train.jsonl": ROWS})
    assert read_whole(AMC | {"chat": "plain"}).endswith(f" prompts, {HUB}@{'c' * 40}")
