import json

import pytest
from dataset_nodes import NODES, SETS, loaded
from labelled import DATA, rows
from omegaconf import OmegaConf
from tiny import ROOT

from common.config.resolve import resolve
from common.config.strict import strict
from common.datasets import hub as hub_module
from common.datasets import templates
from common.datasets.benchmark import Benchmark
from common.experiment import load

# ---- every file


def test_every_eval_file_is_a_benchmark():
    assert len([key for key in SETS if key.startswith("eval=")]) == 17
    for file in (ROOT / "configs" / "eval").glob("*.yaml"):
        config = OmegaConf.load(file)
        if file.stem in ("jsonl", "hub"):
            config.prompts["path" if file.stem == "jsonl" else "hub"] = "mine"
        benchmark = strict(Benchmark, config)
        assert benchmark.name == file.stem
        if f"eval={file.stem}" in SETS:
            trained_on = file.stem == "rare_correct"  # F-GRPO's training prompts
            assert benchmark.prompts["name"] == ("deepscaler" if trained_on else file.stem)


def test_every_data_file_composes_into_an_experiment():
    keys = [key for key in SETS if key.startswith("data=")]
    assert len(keys) == 6
    for key in keys:
        data = load([key, "+model.chat=llama"], "f_grpo").data
        assert data.name == data.train["name"] == key.partition("=")[2]
        assert data.train["chat"] == "llama"  # the model says which markup it reads
        assert load([key], "f_grpo").data.train["chat"] is None


@pytest.mark.parametrize("key", SETS)
def test_a_set_names_known_templates_arguments_and_one_verifier(key):
    node, verifier = NODES[key], SETS[key]["verifier"]
    resolve(node, key)
    assert node["instruction"] in templates.INSTRUCTIONS
    assert node["reference"] == {"_target_": f"common.verifiers.{verifier}.reference"}
    assert {"problem"} <= set(node["fields"])
    if "convert" in node:
        resolve(node["convert"], key)
    resolve(node["reference"], key)


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


@pytest.mark.parametrize("key", EXPECTED)
def test_a_whole_set_from_local_files_and_from_the_hub(key, hub, monkeypatch, capsys):
    file = NODES[key].get("local") or f"{NODES[key]['name']}.jsonl"
    stored = rows(file.removesuffix(".jsonl"))
    put = [HUB_ROWS[key](i, row) for i, row in enumerate(stored[:HUB])]
    hub(NODES[key]["hub"], NODES[key]["revision"], {f"{NODES[key]['split']}.parquet": put})
    changes = (
        {"config": None} if len(stored) <= HUB else {"config": None, "rows": HUB, "kept": None}
    )
    stand_in = {}
    if key == "eval=ifeval":  # its own refuses the set where NLTK's data is missing
        changes["convert"] = {"_target_": "dataset_nodes.ifeval_from_text"}
        stand_in = {"reference": {"_target_": "dataset_nodes.instructions"}}
    from_hub = loaded(key, **changes, **stand_in)
    assert NODES[key]["hub"] in capsys.readouterr().err

    monkeypatch.setenv(hub_module.LOCAL, str(DATA))
    from_file = loaded(key, **stand_in)
    said = capsys.readouterr().err
    assert file in said
    assert ("2 with empty answer" in said) == (key == "data=math_train")
    count, first = EXPECTED[key]
    assert (len(from_file), from_file[0].id) == (count, first)
    assert from_hub == (from_file[: len(from_hub)] if len(stored) > HUB else from_file)


def test_synlogic_rows_of_the_hub(hub, monkeypatch):
    key = "eval=synlogic"
    put = [
        {
            "data_source": f"val/{row['data_source']}",
            "prompt": [{"role": "user", "content": row["problem"]}],
            "extra_info": {"game_data_str": json.dumps(row | {"question": "not this"})},
        }
        for row in rows("synlogic_sample")
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
    from_file = loaded(key, path=str(DATA / "synlogic_sample.jsonl"))
    assert len(from_hub) == len(from_file) == 284
    assert [p.reference for p in from_hub] == [p.reference for p in from_file]
    assert [p.text for p in from_hub] == [p.text for p in from_file]
