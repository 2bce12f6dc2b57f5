"""The public sets: every file composes, local and hub rows give the same prompts, and bad rows,
counts and places are refused with a message. The hub is a cache folder that is made here."""

import base64
import importlib
import json
import pickle
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from tiny import ROOT

from common.config.compose import compose
from common.config.resolve import resolve
from common.config.schema import Data
from common.config.strict import strict
from common.datasets import __main__, templates
from common.datasets import hub as hub_module
from common.datasets import rows as dataset_rows
from common.datasets.benchmark import Benchmark
from common.datasets.hub import load
from common.errors import UserError
from common.results.files import read_jsonl

SHARED = ROOT.parent / "shared" / "data"
SETS = __main__.sets()
NODES = {key: {k: v for k, v in node.items() if k != "verifier"} for key, node in SETS.items()}
shared = pytest.mark.skipif(not SHARED.is_dir(), reason=f"needs {SHARED.name} data beside the code")


def bare_answer(row: dict) -> str:
    """A stand-in for a verifier's `reference`."""
    return str(row["answer"])


def shared_rows(file: str) -> list[dict]:
    return read_jsonl(SHARED / file)


def has_verifier(key: str) -> None:
    pytest.importorskip(f"common.verifiers.{SETS[key]['verifier']}")


def loaded(key: str, **changes) -> list:
    has_verifier(key)
    return resolve({**NODES[key], "chat": "qwen", "subset": None, **changes}, key)()


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """hub(id, revision, {file: rows}) puts a repository into an otherwise empty hub cache."""
    import huggingface_hub
    from datasets import Dataset

    cache = tmp_path / "hub"
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.delenv(hub_module.LOCAL, raising=False)

    def put(hub_id: str, revision: str, files: dict[str, list[dict]]) -> Path:
        repository = cache / f"datasets--{hub_id.replace('/', '--')}"
        commit = revision if len(revision) == 40 else "c" * 40
        folder = repository / "snapshots" / commit
        (repository / "refs").mkdir(parents=True, exist_ok=True)
        (repository / "refs" / revision).write_text(commit)
        for name, rows in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if name.endswith(".parquet"):
                Dataset.from_list(rows).to_parquet(folder / name)
            else:
                (folder / name).write_text("\n".join(map(json.dumps, rows)))
        return folder

    return put


@pytest.fixture
def local(tmp_path, monkeypatch):
    """local(rows) is a file in our shape; local(rows, name) puts it under $RLVR_DATA."""

    def put(rows: list[dict], name: str = "own.jsonl") -> str:
        (tmp_path / name).write_text("\n".join(map(json.dumps, rows)))
        monkeypatch.setenv(hub_module.LOCAL, str(tmp_path))
        return str(tmp_path / name)

    return put


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
        "reference": {"_target_": "test_datasets.bare_answer"},
        "instruction": "bare",
        "chat": "plain",
        "rows": None,
        "kept": None,
        **changes,
    }


def ours(*answers) -> list[dict]:
    return [
        {"id": f"p{i}", "problem": f"Problem {i}?", "answer": answer}
        for i, answer in enumerate(answers)
    ]


# ---- every file


def test_every_eval_file_is_a_benchmark():
    assert len([key for key in SETS if key.startswith("eval=")]) == 15
    for file in (ROOT / "configs" / "eval").glob("*.yaml"):
        found = strict(Benchmark, _composed("eval", f"eval={file.stem}"))
        assert found.name == file.stem
        if f"eval={file.stem}" in SETS:
            assert found.prompts["name"] == file.stem


def test_every_data_file_composes_into_an_experiment():
    keys = [key for key in SETS if key.startswith("data=")]
    assert len(keys) == 5
    for key in keys:
        found = strict(Data, compose("f_grpo", [key, "+model.chat=llama"]).data)
        assert found.name == found.train["name"] == key.partition("=")[2]
        assert found.train["chat"] == "llama"  # the model says which markup it reads
        assert strict(Data, compose("f_grpo", [key]).data).train["chat"] is None


@pytest.mark.parametrize("key", SETS)
def test_a_set_names_known_templates_arguments_and_one_verifier(key):
    node, verifier = NODES[key], SETS[key]["verifier"]
    resolve(node, key)
    assert node["instruction"] in templates.INSTRUCTIONS
    assert node["reference"] == {"_target_": f"common.verifiers.{verifier}.reference"}
    assert {"problem"} <= set(node["fields"])
    if "convert" in node:
        resolve(node["convert"], key)
    has_verifier(key)
    resolve(node["reference"], key)


def _composed(group: str, key: str):
    from omegaconf import OmegaConf

    return OmegaConf.load(ROOT / "configs" / group / f"{key.partition('=')[2]}.yaml")


@pytest.mark.parametrize("change", [{"n": 0}, {"deadline": 0}, {"top_p": 1.5}, {"temperature": 0}])
def test_a_benchmark_out_of_range_is_refused(change):
    config = _composed("eval", "eval=math500")
    config.update(change)
    with pytest.raises(UserError, match=next(iter(change))):
        strict(Benchmark, config)


# ---- whole sets, from the shared files and as the hub has them

HUB = 2000  # rows of a long set that are also loaded as from the hub

# what the shared files lack of a hub row is made up here; the rest is renamed back
HUB_ROWS = {
    "eval=math500": lambda i, r: r | {"unique_id": r["id"]},
    "eval=aime24": lambda i, r: r | {"id": int(r["id"].removeprefix("aime24-"))},
    "eval=aime25": lambda i, r: r | {"id": r["id"].removeprefix("aime25-")},
    "eval=amc23": lambda i, r: (
        r | {"id": int(r["id"].removeprefix("amc23-")), "answer": r["answer_orig"]}
    ),
    "eval=minerva": lambda i, r: {k: r[k] for k in ("problem", "solution", "type")},
    "eval=olympiadbench": lambda i, r: (
        r | {"id": int(r["id"].removeprefix("olympiadbench-")), "question": r["problem"]}
    ),
    "eval=gsm8k": lambda i, r: {"question": r["problem"], "answer": r["solution"]},
    "eval=arc_challenge": lambda i, r: _arc(i, r),
    "eval=mmlu_pro": lambda i, r: (
        r | {"question_id": int(r["id"].removeprefix("mmlu_pro-")), "question": r["problem"]}
    ),
    "eval=ifeval": lambda i, r: _ifeval(r),
    "data=math_train": lambda i, r: r | {"solution": f"So it is $\\boxed{{{r['answer']}}}$."},
    "eval=math_lighteval": lambda i, r: r | {"solution": f"Thus $x=\\boxed{{{r['answer']}}}.$"},
}
EXPECTED = {
    "eval=math500": (500, "test/precalculus/807.json"),
    "eval=aime24": (30, "aime24-60"),
    "eval=aime25": (30, "aime25-0"),
    "eval=amc23": (40, "amc23-0"),
    "eval=minerva": (272, "minerva-0"),
    "eval=olympiadbench": (675, "olympiadbench-1606"),
    "eval=gsm8k": (1319, "gsm8k-test-0"),
    "eval=arc_challenge": (1172, "arc-c-0"),
    "eval=mmlu_pro": (12032, "mmlu_pro-70"),
    "eval=ifeval": (541, "ifeval-1000"),
    "data=math_train": (7498, "math-train-0"),
    "eval=math_lighteval": (5000, "math-test-0"),
}


def _arc(i: int, row: dict) -> dict:
    labels = [str(n) if i % 3 == 0 else "ABCDE"[n - 1] for n in range(1, len(row["choices"]) + 1)]
    return {
        "question": row["problem"],
        "choices": {"text": row["choices"], "label": labels},
        "answerKey": labels[row["answer_index"]],
    }


def _ifeval(row: dict) -> dict:
    """The hub gives every instruction all arguments, None where it has none. As JSON text, since
    the made-up parquet file wants one type a column."""
    names = ("num_words", "relation", "num_highlights", "keywords", "prompt_to_repeat")
    filled = [
        dict.fromkeys(names) | {name: json.dumps(value) for name, value in one.items()}
        for one in row["kwargs"]
    ]
    return row | {"prompt": row["problem"], "kwargs": filled}


@shared
@pytest.mark.parametrize("key", EXPECTED)
def test_a_whole_set_from_local_files_and_from_the_hub(key, hub, monkeypatch, capsys):
    file = NODES[key].get("local") or f"{NODES[key]['name']}.jsonl"
    rows = shared_rows(file)
    put = [HUB_ROWS[key](i, row) for i, row in enumerate(rows[:HUB])]
    hub(NODES[key]["hub"], NODES[key]["revision"], {f"{NODES[key]['split']}.parquet": put})
    changes = {"config": None} if len(rows) <= HUB else {"config": None, "rows": HUB, "kept": None}
    stand_in = {}
    if key == "eval=ifeval":  # its own refuses the set where NLTK's data is missing
        changes["convert"] = {"_target_": "test_datasets.ifeval_from_text"}
        stand_in = {"reference": {"_target_": "test_datasets.instructions"}}
    from_hub = loaded(key, **changes, **stand_in)
    assert NODES[key]["hub"] in capsys.readouterr().err

    monkeypatch.setenv(hub_module.LOCAL, str(SHARED))
    from_file = loaded(key, **stand_in)
    said = capsys.readouterr().err
    assert file in said
    assert ("2 with empty answer" in said) == (key == "data=math_train")
    count, first = EXPECTED[key]
    assert (len(from_file), from_file[0].id) == (count, first)
    assert from_hub == (from_file[: len(from_hub)] if len(rows) > HUB else from_file)


def ifeval_from_text(row: dict) -> dict:
    return {"kwargs": [{k: v and json.loads(v) for k, v in one.items()} for one in row["kwargs"]]}


def instructions(row: dict) -> str:
    """A stand-in for IFEval's `reference`; None is left out, as there."""
    given = [{k: v for k, v in one.items() if v is not None} for one in row["kwargs"]]
    return json.dumps([row["instruction_id_list"], given], sort_keys=True)


@shared
def test_the_last_box_is_the_answer_of_all_worked_solutions():
    for file in ("math500.jsonl", "minerva_math.jsonl"):
        for row in shared_rows(file):
            assert dataset_rows.last_boxed(row["solution"]) == row["answer"], row["id"]


@shared
def test_synlogic_rows_of_the_hub(hub, monkeypatch):
    key = "eval=synlogic"
    rows = shared_rows("synlogic_sample.jsonl")
    put = [
        {
            "data_source": f"val/{row['data_source']}",
            "prompt": [{"role": "user", "content": row["problem"]}],
            "extra_info": {"game_data_str": json.dumps(row | {"question": "not this"})},
        }
        for row in rows
    ]
    put.append(put[0] | {"data_source": "val/cipher_of_tomorrow"})
    folder = hub(
        NODES[key]["hub"], NODES[key]["revision"], {"synlogic_easy/validation.parquet": put}
    )
    (folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: easy\n  data_files:\n  - split: validation\n"
        "    path: synlogic_easy/validation.parquet\n---\n"
    )
    from_hub = loaded(key)
    from_file = loaded(key, path=str(SHARED / "synlogic_sample.jsonl"))
    assert len(from_hub) == len(from_file) == 284
    assert [p.reference for p in from_hub] == [p.reference for p in from_file]
    assert [p.text for p in from_hub] == [p.text for p in from_file]


# ---- rows that need more than renaming


def test_gpqa_choices_are_shuffled_by_our_own_seed():
    rows = [
        {"Question": f"Q{i}", "Correct Answer": " right\n",
         **{f"Incorrect Answer {j}": f"wrong {j}" for j in (1, 2, 3)}}
        for i in range(200)
    ]  # fmt: skip
    made = [dataset_rows.gpqa(row, seed=0) for row in rows]
    assert made == [dataset_rows.gpqa(row, seed=0) for row in rows]
    for one in made:
        assert one["choices"]["ABCD".index(one["answer"])] == "right"
        assert sorted(one["choices"]) == ["right", "wrong 1", "wrong 2", "wrong 3"]
    letters = [one["answer"] for one in made]
    assert all(35 <= letters.count(letter) <= 65 for letter in "ABCD")  # 50 +- 2.4 sigma
    assert letters != [dataset_rows.gpqa(row, seed=1)["answer"] for row in rows]
    assert "".join(letters[:12]) == "".join(
        dataset_rows.gpqa(row, seed=0)["answer"] for row in rows[:12]
    )


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so $\boxed{1}$, no, $\boxed{\frac{a}{b}}$.", r"\frac{a}{b}"),
        (r"$\fbox{7}$", "7"),
        (r"the answer is $\boxed 3$.", "3"),
        (r"$\boxed {x}$", "x"),
        (r"$\boxed{}$", ""),
        (r"$\boxed{1$", ""),
        ("none", ""),
        (r"$\boxed{\{1, 2\}}$", r"\{1, 2\}"),
        (r"$\boxed{\left\{ 1 \right.}$ or }", r"\left\{ 1 \right."),
    ],
)
def test_last_boxed(text, answer):
    assert dataset_rows.last_boxed(text) == answer


def test_amc_answers_are_whole_numbers_and_others_stay():
    assert [dataset_rows.number({"answer": a})["answer"] for a in (27.0, 27, 0.5, "025")] == [
        "27", "27", "0.5", "025",
    ]  # fmt: skip


STDIN = [{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]


def lcb_row(id: str, date: str) -> dict:
    hidden = zlib.compress(pickle.dumps(json.dumps(STDIN)))  # as on the hub
    return {
        "question_id": id,
        "question_content": "Add.",
        "starter_code": "",
        "public_test_cases": json.dumps(STDIN),
        "private_test_cases": base64.b64encode(hidden).decode(),
        "metadata": "{}",
        "contest_date": f"{date}T00:00:00",
        "difficulty": "easy",
    }


def test_livecodebench_files_and_window(hub):
    files = {
        "test.jsonl": [lcb_row("a", "2024-07-31")],
        "test2.jsonl": [
            lcb_row("b", "2024-08-01"), lcb_row("c", "2025-04-30"), lcb_row("d", "2025-05-01"),
        ],
        "other.jsonl": [{"broken": 1}],
    }  # fmt: skip
    key = "eval=livecodebench_v6"
    folder = hub(NODES[key]["hub"], NODES[key]["revision"], files)
    (folder / "code_generation_lite.py").write_text("raise SystemExit")  # as on the hub
    some = {"files": ["test.jsonl", "test2.jsonl"]}
    found = loaded(key, **some, rows=4, kept=2)
    assert [p.id for p in found] == ["b", "c"]
    assert len(json.loads(found[0].reference)["tests"]) == 2  # public and private
    assert len(loaded(key, **some, rows=4, kept=4, window=None)) == 4
    with pytest.raises(UserError, match=r"livecodebench_v6\.rows=1055: .* gives 4"):
        loaded(key, **some)
    with pytest.raises(UserError, match=r"files=\['none\*'\]"):
        loaded(key, files=["none*"])


def test_taco_rows_without_tests_are_dropped(hub, capsys):
    cases = [
        json.dumps({"inputs": ["1\n", ["2", "3"]], "outputs": ["2\n", ["4"]]}),
        json.dumps({"fn_name": "f", "inputs": [[[1, 2], "x"]], "outputs": [[True]]}),
        json.dumps({"inputs": [], "outputs": []}),
        "",
    ]
    rows = [
        {"question": f"P{i}", "starter_code": "", "input_output": text, "difficulty": "EASY",
         "source": "x"}
        for i, text in enumerate(cases)
    ]  # fmt: skip
    key = "data=taco"
    parts = {"train-0": rows[:2], "train-1": rows[2:], "test-0": rows}
    hub(NODES[key]["hub"], "main", {f"ALL/{n}.parquet": part for n, part in parts.items()})
    found = loaded(key, rows=4, kept=2)
    assert [p.id for p in found] == ["taco-0", "taco-1"]
    assert [json.loads(p.reference)["fn_name"] for p in found] == [None, "f"]
    assert "2 with empty input_output" in capsys.readouterr().err


def test_codecontests_rows_that_cannot_be_judged_are_dropped(hub, capsys):
    tests = {"input": ["1"], "output": ["2"]}
    row = {
        "name": "n", "description": "P", "difficulty": 7, "source": 2,
        "public_tests": tests, "private_tests": tests,
        "generated_tests": {"input": ["3"], "output": ["4"]},
        "time_limit": {"seconds": 7, "nanos": 0}, "input_file": "", "output_file": "",
    }  # fmt: skip
    none = {"input": [], "output": []}
    rows = [
        row,
        row | {"output_file": "out.txt"},
        row | {f"{kind}_tests": none for kind in ("public", "private", "generated")},
        row | {"public_tests": none},
    ]
    key = "data=codecontests"
    hub(NODES[key]["hub"], NODES[key]["revision"], {"data/train-0.parquet": rows})
    found = loaded(key, rows=4, kept=2)
    assert [p.id for p in found] == ["codecontests-0", "codecontests-3"]
    assert [len(json.loads(p.reference)["tests"]) for p in found] == [3, 2]
    assert json.loads(found[0].reference)["time_limit"] == 7
    assert "2 with empty public_tests" in capsys.readouterr().err


# ---- load: what is dropped, counted and refused


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
    with pytest.raises(UserError, match=r"own\.kept=3: .*own\.jsonl gives 2"):
        load(**node(path=path, rows=3, kept=3))


def test_a_wrong_number_of_rows_names_both(local):
    with pytest.raises(UserError, match=r"own\.rows=4: .* gives 3; pin the revision .* rows=3"):
        load(**node(path=local(ours("1", "2", "3")), rows=4))


def test_conflicting_duplicates_all_go_and_agreeing_ones_stay(local, capsys):
    rows = ours("1", "2", "3", "4", "4")
    rows[1]["problem"] = " Problem  0?"  # as 0 but for spaces, with another answer
    rows[4]["problem"] = rows[3]["problem"]
    path = local(rows)
    assert [p.id for p in load(**node(path=path, drop_conflicts=True))] == ["p2", "p3", "p4"]
    assert "2 in conflict with a duplicate" in capsys.readouterr().err
    assert len(load(**node(path=path))) == 5


def test_the_same_question_with_other_choices_is_no_duplicate(local):
    rows = [row | {"choices": [row["answer"], "x"]} for row in ours("1", "2")]
    rows[1]["problem"] = rows[0]["problem"]
    assert len(load(**node(path=local(rows), drop_conflicts=True))) == 2


@pytest.fixture
def tokenizer(tmp_path):
    """A tokenizer that counts words."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(tmp_path / "words")
    return str(tmp_path / "words")


def test_long_prompts_are_dropped_by_the_tokenizers_count(local, tokenizer, capsys):
    rows = ours("1", "2", "3")
    rows[1]["problem"] = "one two three four"
    rows[2]["problem"] = "one two three"
    limits = {"max_prompt_tokens": 3, "tokenizer": tokenizer}
    path = local(rows)
    assert [p.id for p in load(**node(path=path, **limits))] == ["p0", "p2"]
    assert "1 over 3 tokens" in capsys.readouterr().err
    # the instruction counts too: what the model reads is what is long
    assert load(**node(path=path, instruction="boxed_system", **limits)) == []
    with pytest.raises(UserError, match=r"tokenizer=no/such: cannot be loaded"):
        load(**node(path=path, max_prompt_tokens=3, tokenizer="no/such"))
    with pytest.raises(UserError, match="tokenizer=None"):
        load(**node(path=path, max_prompt_tokens=3))


def test_a_subset_is_drawn_by_its_seed_in_the_order_of_the_set(local):
    path = local(ours(*range(1, 101)))
    drawn = [[p.id for p in load(**node(path=path, subset=20, seed=seed))] for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0] == sorted(set(drawn[0]), key=lambda id: int(id[1:]))
    assert len(drawn[0]) == 20
    with pytest.raises(UserError, match="subset=101: 1 to 100"):
        load(**node(path=path, subset=101))


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"fields": {"problem": "question", "answer": "a"}}, ["row 0", "'question'", "['a', 'q']"]),
        ({"id": "{key}"}, ["row 0", "'key'"]),
        ({"id": "same"}, ["own.id=['same']", "twice"]),
        ({"convert": {"_target_": "common.datasets.rows.boxed"}}, ["row 0", "'solution'"]),
        ({"convert": {"_target_": "common.datasets.rows.box"}}, ["convert._target_", "imported"]),
        ({"convert": {"_target_": "common.datasets.rows.gpqa"}}, ["convert", "['seed']"]),
        ({"instruction": "shout"}, ["instruction=shout", "boxed_system"]),
        ({"chat": "chatgpt"}, ["chat=chatgpt", "qwen"]),
        ({"chat": None}, ["chat=None", "llama"]),
        ({"split": "test"}, ["split=test"]),
        ({"config": "hard"}, ["config=hard"]),
        ({"hub": "no/set"}, ["hub=no/set", "prefetch", "RLVR_DATA"]),
        ({"revision": "a" * 40}, ["revision=aaaa", "prefetch"]),
        ({"path": "nowhere.jsonl"}, ["nowhere.jsonl", "does not exist"]),
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


def test_a_window_needs_dates(local):
    path = local(ours("1"))
    with pytest.raises(UserError, match=r"row 1=\['date'\]"):
        load(**node(path=path, window=["2024-01-01", "2025-01-01"]))


def test_local_files_come_before_the_hub_but_only_where_they_are(hub, local, monkeypatch):
    hub("some/set", "main", {"train.jsonl": [{"q": "1?", "a": "hub"}]})
    assert load(**node())[0].reference == "hub"
    local(ours("file"), "other.jsonl")
    assert load(**node())[0].reference == "hub"
    assert load(**node(local="other.jsonl"))[0].reference == "file"
    local(ours("named"), "own.jsonl")
    assert load(**node())[0].reference == "named"
    monkeypatch.setenv(hub_module.LOCAL, "nowhere")
    with pytest.raises(UserError, match="RLVR_DATA=nowhere: no such folder"):
        load(**node())


# ---- templates


ROW = {"problem": "1+1?", "choices": ["1", "2"]}


def test_instructions():
    made = {name: f(ROW) for name, f in templates.INSTRUCTIONS.items()}
    assert made["bare"] == (None, "1+1?\nA. 1\nB. 2")
    boxed = "Please reason step by step, and put your final answer within \\boxed{}."
    assert made["boxed_system"] == (boxed, "1+1?\nA. 1\nB. 2")
    assert made["boxed_user"] == (templates.HELPFUL, f"1+1?\nA. 1\nB. 2\n{boxed}")
    assert made["helpful"] == (templates.HELPFUL, "1+1?\nA. 1\nB. 2")
    assert "<think> </think> and <answer> </answer>" in made["think_tags"][0]
    assert '"the answer is (X)"' in made["letter"][1]
    assert "reads the input from stdin" in templates.code(ROW)[1]
    assert "def f(x):\n```" in templates.code(ROW | {"starter_code": "def f(x):\n"})[1]


def test_chats():
    assert templates.plain(None, "u") == "u\n"
    assert templates.plain("s", "u") == "s\n\nu\n"
    assert templates.qwen("s", "u") == (
        "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n"
    )
    assert templates.qwen(None, "u") == ("<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n")
    assert templates.qwen_no_think(None, "u").endswith("assistant\n<think>\n\n</think>\n\n")
    assert templates.llama("s", "u") == (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
        "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\ns<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nu<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )
    opened = "<｜begin▁of▁sentence｜>s<｜User｜>u<｜Assistant｜><think>\n"
    assert templates.r1_distill("s", "u") == opened


def test_every_pair_is_a_prompt():
    texts = {
        templates.render(ROW, instruction=instruction, chat=chat)
        for instruction in templates.INSTRUCTIONS
        for chat in templates.CHATS
    }
    assert len(texts) == len(templates.INSTRUCTIONS) * len(templates.CHATS)
    assert all("1+1?" in text for text in texts)


# ---- commands


def run(*arguments: str) -> int | None:
    try:
        __main__.main([*arguments])
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def test_list_prefetch_and_show(hub, local, capsys):
    key = "eval=aime25"
    has_verifier(key)
    rows = [{"id": str(i), "problem": f"P{i}", "answer": i} for i in range(30)]
    folder = hub(NODES[key]["hub"], NODES[key]["revision"], {"test.jsonl": rows})
    run("list")
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert set(lines) == {"set", *SETS}
    assert lines[key].split()[1:] == ["math-ai/aime25", "test", "30", "math", "cached"]
    assert lines["eval=math500"].endswith("no")
    run("prefetch", key)
    assert capsys.readouterr().out == f"{key}: 30 prompts, math-ai/aime25 at {folder.name}\n"
    run("show", key, "index=7", "chat=qwen")
    shown = capsys.readouterr().out
    assert shown.startswith("id: aime25-7\nreference: 7\n")
    assert "user\nP7<|im_end|>" in shown
    local([{"id": "x", "problem": "?", "answer": "1"}], "aime25.jsonl")
    run("list")
    assert "local file" in capsys.readouterr().out


def test_prefetch_says_which_commit_main_was_and_what_failed(hub, capsys):
    key = "eval=amc23"
    has_verifier(key)
    rows = [{"id": i, "problem": f"P{i}", "answer": 1.0, "url": ""} for i in range(40)]
    hub(NODES[key]["hub"], "main", {"train.jsonl": rows})
    assert run("prefetch", "eval=amc23,math500") == 2
    done = capsys.readouterr()
    assert f"pin it: revision: {'c' * 40}" in done.out
    assert "not prefetched: eval=math500" in done.err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["fetch"], "list, prefetch, show"),
        (["show", "eval=math50"], "eval=math500"),
        (["show"], "name one set"),
        (["show", "eval=math500", "index=x"], "whole number"),
        (["prefetch"], "say all"),
        (["prefetch", "eval=math500", "index=1"], "does not take it"),
    ],
)
def test_mistaken_commands(arguments, part, capsys):
    assert run(*arguments) == 2
    assert part in capsys.readouterr().err


def test_the_command_starts_and_helps():
    done = subprocess.run(
        [sys.executable, "-m", "common.datasets", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert "prefetch eval=math500,aime24" in done.stdout
    assert importlib.import_module("common.datasets").__doc__
