"""What a set has is counted before its jobs are submitted, and another number than stated is
refused."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from dataset_nodes import NODES
from refuses import refuses

from common.config.files import ROOT, read
from common.datasets import counted as counted_module
from common.datasets.counted import counted
from common.sweeps.profiles import load_profile
from slurm import dry_run, plan, prefetch, submit

AMC = NODES["eval=amc23"]


@pytest.fixture
def there(tmp_path, monkeypatch):
    """A file of so many problems in the place of AMC 23; the name of each read is added."""
    reads = []
    resolve = counted_module.resolve
    noting = lambda node, key: reads.append(key) or resolve(node, key)  # noqa: E731
    monkeypatch.setattr(counted_module, "resolve", noting)
    monkeypatch.setenv("RLVR_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def put(number: int) -> list[str]:
        rows = [{"id": str(i), "problem": f"P{i}", "answer": "1"} for i in range(number)]
        (tmp_path / "amc23.jsonl").write_text("\n".join(map(json.dumps, rows)))
        return reads

    return put


@pytest.fixture
def x(one):
    """A training that is evaluated on AMC 23."""
    node = {key: value for key, value in AMC.items() if key != "verifier"} | {"chat": "plain"}
    return replace(one, data=replace(one.data, benchmarks={"amc23": node}))


def test_a_set_is_counted_once_for_each_content(there):
    reads = there(40)
    assert [counted(AMC), counted(AMC | {"subset": 3}), counted(AMC | {"chat": "qwen"})] == [40] * 3
    assert reads == ["amc23"]
    there(39)
    with refuses("amc23.kept"):
        counted(AMC | {"rows": None})
    assert counted(AMC | {"rows": None, "kept": [38, 39]}) == 39
    assert reads == ["amc23"] * 3


def test_the_number_is_said_beside_the_stated_one(there, x):
    there(40)
    said: list[str] = []
    assert prefetch.count([x], said.append) == []
    assert said == ["set amc23: 40 prompts, 40 stated of 40 rows"]


def test_a_set_that_is_not_here_is_left_to_prefetch(x):
    said: list[str] = []
    assert prefetch.count([x], said.append) == []
    assert len(said) == 1
    assert "not here" in said[0]


def test_other_numbers_than_stated_are_refused_before_anything_is_submitted(
    there, x, tmp_path, monkeypatch
):
    there(39)
    profile = load_profile("h100-1x8")
    said: list[str] = []
    where = {"paper": "two_stage", "profile": profile, "root": tmp_path}
    dry_run.show(plan.plan([x], []), **where, say=said.append)
    assert any(line.startswith("REFUSED: amc23.rows=40") for line in said)
    monkeypatch.setattr(submit, "check", lambda *_: None)
    with refuses("amc23.rows", 40):
        submit.submit([x], [], **where, say=said.append)
    assert not (tmp_path / "two_stage" / "cluster").exists()


def test_the_sets_of_a_mixture_are_known(one):
    mixture = read(ROOT / "papers/fade/configs/data/codecontests_taco.yaml")["train"]
    x = replace(one, data=replace(one.data, train=mixture))
    assert [node["name"] for node in prefetch.sets([x], [])] == ["codecontests", "taco"]


def test_the_start_model_of_a_command_is_downloaded_in_the_place_of_what_it_makes(one, monkeypatch):
    x = replace(one, model=replace(one.model, path="no/such/made", pretrain=None))
    command = SimpleNamespace(makes="no/such/made", loads="owner/start")
    asked: list[str] = []
    monkeypatch.setattr(prefetch, "_model", lambda it: asked.append(it.path))
    prefetch.prefetch([x], [], [command], say=lambda *_: None)
    assert asked == ["owner/start"]
