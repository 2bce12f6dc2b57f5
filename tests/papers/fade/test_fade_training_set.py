import pytest
from refuses import refuses
from tiny import ROOT

from papers.fade.code_rewards import training_set


def jsonl(path, ids: list[str]) -> dict:
    rows = (f'{{"id": "{i}", "problem": "problem {i[-1]}", "answer": "1"}}' for i in ids)
    path.write_text("\n".join(rows))
    return {"_target_": "common.datasets.prompts.jsonl", "path": str(path)}


def test_sets_are_mixed_without_repeats(tmp_path):
    parts = [jsonl(tmp_path / "a", ["a1", "a2", "a3"]), jsonl(tmp_path / "b", ["b3", "b4"])]
    every = training_set.mixed(parts=parts, size=None, seed=0)
    assert [prompt.id for prompt in every] == ["a1", "a2", "a3", "b4"]
    some = training_set.mixed(parts=parts, size=3, seed=0)
    assert len(some) == 3
    assert [p for p in every if p in some] == some
    assert some == training_set.mixed(parts=parts, size=3, seed=0)
    assert any(training_set.mixed(parts=parts, size=3, seed=s) != some for s in range(1, 9))
    with refuses("size", 5):
        training_set.mixed(parts=parts, size=5, seed=0)


@pytest.mark.parametrize("name", ["codecontests", "taco"])
def test_the_cluster_rows_read_the_sets_as_their_own_files_do(name):
    from omegaconf import OmegaConf

    file = OmegaConf.load(ROOT / "configs" / "data" / f"{name}.yaml").train
    mix = OmegaConf.load(ROOT / "papers/fade/configs/data/codecontests_taco.yaml")
    (part,) = [p for p in mix.train.parts if p.name == name]
    plain = lambda node: OmegaConf.to_container(node, resolve=False)  # noqa: E731
    extra = {"tokenizer": "${model.path}", "max_prompt_tokens": 2048}
    assert plain(part) == plain(file) | extra
