import sys

import pytest

from common.config.compose import CONFIGS, compose
from common.config.contents import LARGE, _hashed, contents
from common.config.strict import strict
from common.evaluation.config import Evaluate
from common.experiment import load


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def data(tmp_path):
    file = tmp_path / "own.jsonl"
    file.write_text('{"id": 1, "problem": "1+1=", "answer": "2"}\n')
    return file


def training(data) -> str:
    paths = [f"data.{key}.path={data}" for key in ("train", "benchmarks.test")]
    return load(["data=jsonl", *paths], "f_grpo").run_id


def evaluation(tmp_path, *overrides: str) -> str:
    words = [f"results_dir={tmp_path}/results", *overrides]
    return strict(Evaluate, compose(CONFIGS, words, "evaluate")).path.name


def test_an_edited_data_file_is_another_run(data, tmp_path):
    own = ["eval=math500", f"+eval.prompts.path={data}"]
    before = training(data), evaluation(tmp_path, *own)
    assert (training(data), evaluation(tmp_path, *own)) == before
    data.write_text(data.read_text().replace('"2"', '"3"'))
    after = training(data), evaluation(tmp_path, *own)
    assert after[0] != before[0]
    assert after[1] != before[1]


def test_a_kept_hash_that_a_power_cut_emptied_is_made_again(tmp_path, cache):
    large = tmp_path / "large.jsonl"
    large.write_bytes(b"a" * LARGE)
    before = contents({"path": str(large)}, "results")
    (kept,) = (cache / "rlvr_papers" / "sha256").iterdir()
    kept.write_text("")
    _hashed.cache_clear()  # as in a later process
    assert contents({"path": str(large)}, "results") == before
    assert kept.read_text() == before["path"]


def test_other_weights_in_the_same_folder_are_another_run(tmp_path):
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"a" * 100)
    words = ["model=huggingface", f"model.path={folder}"]
    before = evaluation(tmp_path, *words), load(words, "f_grpo").run_id
    (folder / "model.safetensors").write_bytes(b"b" * 100)
    assert evaluation(tmp_path, *words) != before[0]
    assert load(words, "f_grpo").run_id != before[1]


def test_an_own_function_that_was_edited_is_another_run(tmp_path, monkeypatch):
    package = tmp_path / "mine"
    package.mkdir()
    (package / "helper.py").write_text("ONE = 1\n")
    (package / "judge.py").write_text(
        "from mine.helper import ONE\ndef verify(response, reference): return ONE\n"
    )
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    node = {"verifier": {"_target_": "mine.judge.verify"}}
    before = contents(node, "results")
    assert set(before) == {"verifier._target_"}
    (package / "helper.py").write_text("ONE = 2\n")  # what it imports counts too
    assert contents(node, "results") != before
    for name in [name for name in sys.modules if name.startswith("mine")]:
        del sys.modules[name]


def test_hub_ids_ours_and_what_lies_in_results_have_no_hash(tmp_path):
    made = tmp_path / "results" / "f_grpo" / "run" / "model"
    made.mkdir(parents=True)
    (made / "config.json").write_text("{}")
    config = {
        "model": {"path": "Qwen/Qwen2.5-7B"},
        "verifier": {"_target_": "common.verifiers.countdown.verify"},
        "loss": {"_target_": "torch.nn.functional.relu"},
        "sampler": {"path": str(made)},
    }
    assert contents(config, str(tmp_path / "results")) == {}
    assert set(contents(config, str(tmp_path / "other"))) == {"sampler.path"}
