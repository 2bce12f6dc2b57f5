import pytest
from dataset_nodes import node
from refuses import refuses

from common.datasets import hub as hub_module
from common.datasets.hub import load
from common.errors import UserError


def ours(*answers) -> list[dict]:
    return [
        {"id": f"p{i}", "problem": f"Problem {i}?", "answer": answer}
        for i, answer in enumerate(answers)
    ]


def test_rows_of_a_folder_in_the_layout_of_the_hub(hub, capsys):
    folder = hub(
        "some/set", "main", {"train.jsonl": [{"q": "1+1?", "a": "2"}, {"q": "?", "a": ""}]}
    )
    prompts = load(**node(hub=str(folder), rows=2, kept=1))
    assert [(p.id, p.text, p.reference) for p in prompts] == [("own-0", "1+1?\n", "2")]
    assert "own: 1 of 2 rows" in (said := capsys.readouterr().err)
    assert "1 with empty answer" in said
    assert load(**node(rows=2, kept=1)) == prompts  # by its id, from the cache, without a network


@pytest.mark.parametrize("empty", [None, "", " \n"])
def test_empty_golds_are_dropped_and_counted(local, capsys, empty):
    path = local(ours("1", empty, "3"))
    assert [p.id for p in load(**node(path=path, rows=3, kept=2))] == ["p0", "p2"]
    assert "1 with empty answer" in capsys.readouterr().err
    with refuses("own.kept", 3):
        load(**node(path=path, rows=3, kept=3))
    assert len(load(**node(path=path, rows=3, kept=[1, 2]))) == 2
    with refuses("own.kept", "[3, 4]"):
        load(**node(path=path, rows=3, kept=[3, 4]))


def test_conflicting_duplicates_all_go_and_agreeing_ones_stay(local, capsys):
    rows = ours("1", "2", "3", "4", "4")
    rows[1]["problem"] = " Problem  0?"  # as 0 but for spaces, with another answer
    rows[4]["problem"] = rows[3]["problem"]
    path = local(rows)
    assert [p.id for p in load(**node(path=path, drop_conflicts=True))] == ["p2", "p3", "p4"]
    assert "2 in conflict with a duplicate" in capsys.readouterr().err
    assert len(load(**node(path=path))) == 5


def test_long_prompts_are_dropped_by_the_tokenizers_count(local, tokenizer, capsys):
    rows = ours("1", "2", "3")
    rows[1]["problem"] = "one two three four"
    rows[2]["problem"] = "one two three"
    limits = {"max_prompt_tokens": 3, "tokenizer": tokenizer("words")}
    path = local(rows)
    assert [p.id for p in load(**node(path=path, **limits))] == ["p0", "p2"]
    assert "1 over 3 tokens" in capsys.readouterr().err
    # the instruction counts too: what the model reads is what is long
    assert load(**node(path=path, instruction="boxed_system", **limits)) == []
    with refuses("tokenizer", "no/such"):
        load(**node(path=path, max_prompt_tokens=3, tokenizer="no/such"))
    with refuses("tokenizer", "None"):
        load(**node(path=path, max_prompt_tokens=3))


def test_a_subset_is_drawn_by_its_seed_in_the_order_of_the_set(local):
    path = local(ours(*range(1, 101)))
    drawn = [[p.id for p in load(**node(path=path, subset=20, seed=seed))] for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0] == sorted(set(drawn[0]), key=lambda id: int(id[1:]))
    assert len(drawn[0]) == 20
    with refuses("subset", 101):
        load(**node(path=path, subset=101))


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"fields": {"problem": "question", "answer": "a"}}, ["row 0", "'question'", "['a', 'q']"]),
        ({"id": "{key}"}, ["row 0", "'key'"]),
        ({"id": "same"}, ["own.id=['same']", "twice"]),
        ({"convert": {"_target_": "common.datasets.rows.boxed"}}, ["row 0", "'solution'"]),
        ({"instruction": "shout"}, ["instruction=shout", "boxed_system"]),
        ({"chat": "chatgpt"}, ["chat=chatgpt", "qwen"]),
        ({"split": "test"}, ["split=test"]),
        ({"hub": "no/set"}, ["hub=no/set", "prefetch", "RLVR_DATA"]),
        ({"path": "nowhere.jsonl"}, ["path=nowhere.jsonl"]),
    ],
)
def test_mistakes_are_named(hub, changes, parts):
    hub("some/set", "main", {"train.jsonl": [{"q": "1?", "a": "1"}, {"q": "2?", "a": "2"}]})
    assert len(load(**node())) == 2
    with pytest.raises(UserError) as caught:
        load(**node(**changes))
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "row", [{"id": "x"}, {"problem": "?", "answer": "1"}, ["x"], {"id": "x", "problem": ""}]
)
def test_a_local_row_that_lacks_something_is_named(local, row):
    with pytest.raises(UserError, match=r"own\.jsonl, row 2=\["):
        load(**node(path=local([*ours("1"), row])))


def test_local_files_come_before_the_hub_but_only_where_they_are(hub, local, monkeypatch):
    hub("some/set", "main", {"train.jsonl": [{"q": "1?", "a": "hub"}]})
    assert load(**node())[0].reference == "hub"
    local(ours("file"), "other.jsonl")
    assert load(**node())[0].reference == "hub"
    assert load(**node(local="other.jsonl"))[0].reference == "file"
    local(ours("named"), "own.jsonl")
    assert load(**node())[0].reference == "named"
    monkeypatch.setenv(hub_module.LOCAL, "nowhere")
    with refuses("RLVR_DATA", "nowhere"):
        load(**node())
