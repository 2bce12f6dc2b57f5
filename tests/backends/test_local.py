import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from late import Late
from local_loop import BONUS
from tiny import ROOT

from common.backends import local, run_experiment
from common.backends.local import train
from common.errors import UserError
from common.models import load as load_module
from common.models import pretrain, store
from common.results.files import read_csv, read_jsonl
from common.verifiers import countdown

hf = Late("common.models.hf")
FILES = ["metrics.csv", "metrics.jsonl", "counts.csv", "samples/natural.jsonl.gz"]
FILES += ["samples/rare.jsonl.gz", "model/model.safetensors", "eval/step-00003.csv"]


def content(path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in FILES}


def test_training_raises_the_reward(tiny):
    """16 prompts over and over at a high rate: pass@1 goes from 0.02 to 0.5 in 30 steps."""
    path = train(
        tiny(
            "data.train.size=16",
            "sampling.prompts=16",
            "sampling.group_size=16",
            "optim.lr=3e-3",
            "optim.steps=30",
            "optim.micro_batch=1024",
            "eval.every=30",
            "eval.rare_nll_samples=0",
        ),
        progress=False,
    )
    reward = [row["reward"] for row in read_jsonl(path / "metrics.jsonl")]
    assert len(reward) == 30
    assert sum(reward[-5:]) / 5 > sum(reward[:5]) / 5 + 0.2


def test_same_seed_same_bytes(tiny, run, pretrained, tmp_path):
    shutil.copytree(pretrained, tmp_path / "again")
    elsewhere = [f"results_dir={tmp_path}/again", "checkpoint_every=100"]
    again = train(tiny(BONUS, *elsewhere), progress=False)
    assert again.name == run.name
    assert again != run
    assert content(again) == content(run)
    assert all(row["grad_norm"] > 1e-4 for row in read_jsonl(run / "metrics.jsonl"))
    other = train(tiny(BONUS, "seed=2"), progress=False)
    assert not set(content(other).values()) & set(content(run).values())


def test_divergence_from_the_start_is_nothing_at_first_and_changes_no_other_number(tiny, run):
    """It is measured by the samples of an evaluation, and with the weights as they are it is 0."""
    x = tiny("kl_from_start=true", "optim.steps=0", "eval.rare_nll_samples=0")
    rows = read_csv(train(x, progress=False) / "metrics.csv")
    assert rows.loc[rows["metric"] == "kl_from_start", "value"].abs().max() < 1e-4
    before = read_csv(run / "metrics.csv")
    shutil.rmtree(run)
    after = read_csv(train(tiny(BONUS, "kl_from_start=true"), progress=False) / "metrics.csv")
    kl = after[after["metric"] == "kl_from_start"]
    assert set(zip(kl["benchmark"], kl["step"], strict=True)) == {
        (benchmark, step) for benchmark in ("natural", "rare") for step in (3, 6)
    }
    assert (kl.loc[kl["step"] == 6, "value"] > 0.01).all()  # an estimate, near 0 at first
    rest = after[after["metric"] != "kl_from_start"].reset_index(drop=True)
    pd.testing.assert_frame_equal(rest, before)


def test_what_a_run_leaves(tiny, run):
    x = tiny(BONUS)
    files = {str(f.relative_to(run)) for f in run.rglob("*") if f.is_file()}
    assert set(FILES) < files
    assert not any(name.endswith((".tmp", "checkpoint.pt")) for name in files)
    rows = read_csv(run / "metrics.csv")
    assert sorted(set(rows["step"])) == [3, 6]
    assert set(rows["run_id"]) == {x.run_id}
    assert set(rows["method"]) == {x.label}
    last = rows[rows["step"] == 6]
    passk = last[(last["benchmark"] == "rare") & last["metric"].str.startswith("pass@")]
    assert passk["k"].tolist() == [1, 4, 8]
    curve = rows[(rows["step"] == 3) & (rows["benchmark"] == "rare")]
    assert curve[curve["metric"].str.startswith("pass@")]["k"].tolist() == [1, 4]  # curve_n = 4
    counts = pd.read_csv(run / "counts.csv")
    assert (counts["n"] == 8).all()
    assert len(counts) == 12
    expected = 100 * (counts["c"] / 8).groupby(counts["benchmark"]).mean()
    for benchmark in ("natural", "rare"):
        pass_1 = last[(last["benchmark"] == benchmark) & (last["metric"] == "pass@1")]
        assert pass_1["value"].item() == pytest.approx(expected[benchmark], abs=1e-9)
    assert last[~last["metric"].str.startswith("pass@")]["k"].isna().all()  # missing, not 0
    samples = pd.DataFrame(read_jsonl(run / "samples" / "rare.jsonl.gz"))
    right = (samples["outcome"] == "correct").groupby(samples["problem_id"]).sum()
    assert (
        right.to_dict()
        == counts[counts["benchmark"] == "rare"].set_index("problem_id")["c"].to_dict()
    )
    for _, row in samples.iterrows():  # what is stored can be verified again
        assert countdown.verify(row["response"], row["problem_id"]).outcome == row["outcome"]
    steps = read_jsonl(run / "metrics.jsonl")
    assert [row["step"] for row in steps] == [1, 2, 3, 4, 5, 6]
    first = rows[(rows["benchmark"] != "training") & (rows["metric"] == "pass@1")]
    scores = [
        (row["step"], name, row.get(f"pass@1/{name}")) for row in steps for name in expected.index
    ]
    assert [one for one in scores if one[2] is not None] == [
        (step, name, pytest.approx(value))
        for step, name, value in zip(first["step"], first["benchmark"], first["value"], strict=True)
    ]
    active = last[last["metric"] == "active_groups"]["value"].item()
    assert active == pytest.approx(100 * sum(row["active_groups"] for row in steps) / 6)


def test_a_finished_run_is_not_repeated(tiny, run, monkeypatch):
    before = {f: f.stat().st_mtime_ns for f in run.rglob("*") if f.is_file() and f.name != ".lock"}
    monkeypatch.setattr(local, "Loop", None)
    assert run_experiment(tiny(BONUS)) == run
    assert {f: f.stat().st_mtime_ns for f in before} == before


def test_the_base_model_is_evaluated_without_steps(tiny):
    run = train(tiny("optim.steps=0"), progress=False)
    rows = read_csv(run / "metrics.csv")
    assert set(rows["step"]) == {0}
    assert "active_groups" not in set(rows["metric"])
    assert (run / "metrics.jsonl").read_text() == ""
    change = rows[rows["metric"] == "delta_NLL_rare"]["value"].item()
    assert change == pytest.approx(0, abs=1e-6)  # against itself


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("raises", r"calls a right answer error \(ZeroDivisionError in raises"),
        ("hangs", r"calls a right answer timeout \(no verdict within 0.3 s"),
        ("dies", r"calls a right answer error \(the worker process died"),
        ("never", "calls a right answer wrong"),
        ("always", "calls an empty response correct"),
        ("any_answer", "calls one answer correct for 4 different prompts"),
        ("often_raises", "of 64 verdicts are timeouts or errors"),
    ],
)
def test_a_broken_verifier_stops_training_before_it_learns(tiny, monkeypatch, function, message):
    monkeypatch.setattr("sys.path", [str(ROOT / "tests" / "support"), *sys.path])
    x = tiny(
        f"data.verifier._target_=broken_verifiers.{function}",
        "verification.deadline=0.3",
        "optim.steps=1",
    )
    with pytest.raises(UserError, match=message):
        train(x, progress=False)
    folder = Path(x.results_dir) / x.paper / x.run_id
    assert not (folder / "DONE").exists()
    assert not (folder / "metrics.csv").exists()
    assert (folder / "metrics.jsonl").read_text() == ""  # not one step was taken


def test_the_saved_model_loads_like_any_other(tiny, run):
    made, texts = (
        pretrain.tokenizer(),
        ["3 5 7 12 = 41", "\\boxed{(12-5)*3}<eos>", "12 1 2=50 3", ""],
    )
    for folder in (run / "model", Path(store.folder(tiny().model, Path(tiny().results_dir)))):
        tokenizer = hf.AutoTokenizer.from_pretrained(folder)
        model = hf.AutoModelForCausalLM.from_pretrained(folder)
        assert model.config.vocab_size == len(tokenizer) == len(made)
        assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 0)
        assert model.config.eos_token_id == made.eos_token_id
        assert tokenizer.get_vocab() == made.get_vocab()
        for text in texts:
            ids = made(text, add_special_tokens=False)["input_ids"]
            assert tokenizer(text, add_special_tokens=False)["input_ids"] == ids
            decoded = tokenizer.decode(ids, skip_special_tokens=True)
            assert decoded == text.replace(" ", "").replace("<eos>", "")
        message = [{"role": "user", "content": "3 5 = 8"}]
        assert tokenizer.apply_chat_template(message, tokenize=False) == "3 5 = 8"
    loaded, _ = load_module.load_model(
        replace(tiny().model, path=str(run / "model"), pretrain=None), run, "cpu"
    )
    plain, ids = hf.AutoModelForCausalLM.from_pretrained(run / "model"), torch.tensor([[5, 6, 7]])
    torch.testing.assert_close(loaded(ids).logits, plain(ids).logits, rtol=1e-5, atol=1e-5)


def test_a_training_keeps_the_commits_of_its_public_sets(tiny, monkeypatch):
    monkeypatch.setattr(local, "sets", lambda x: {"amc23": "hub@c"})
    path = train(tiny("optim.steps=0"), progress=False)
    assert json.loads((path / "sets.json").read_text()) == {"amc23": "hub@c"}
