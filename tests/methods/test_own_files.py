import json
import shutil
from pathlib import Path

import pytest
from refuses import refuses

from common.config.resolve import import_target, module, resolve
from common.errors import UserError
from common.experiment import load
from common.methods import theory
from common.methods.catalogue import method
from common.verifiers.worker import judge
from common.verifiers.worker import load as loaded

SHRUNK = """
def shrunk(rewards, *, shrink):
    return rewards - shrink * rewards.mean(1, keepdim=True)
"""
FILE = """
defaults: [plain, _self_]
name: shrunk
advantage: {_target_: "mine.py:shrunk", shrink: 0.5}
"""
REWARDS = """
def short(response, reference, *, most: int = 5):
    return len(response) <= most

def graded(response, reference):
    return len(response) / 10

def broken(response, reference):
    return {}["gone"]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(SHRUNK)
    (tmp_path / "shrunk.yaml").write_text(FILE)
    (tmp_path / "plain.yaml").write_text("defaults: [_base, _self_]\n")
    (tmp_path / "rewards.py").write_text(REWARDS)
    return tmp_path


def test_a_file_is_a_method_for_training_theory_and_others():
    x = load(["method=shrunk.yaml"], "f_grpo")
    assert x.method.name == "shrunk"
    assert x.method.advantage == {"_target_": "mine.py:shrunk", "shrink": 0.5}
    assert x.method.loss["_target_"] == "common.losses.clip.ppo_clip"  # of _base
    assert method("shrunk.yaml") == x.method
    Path("müller").mkdir()
    for file in ("shrunk.yaml", "plain.yaml"):
        shutil.copy(file, "müller")
    assert load(["method=müller/shrunk.yaml"], "f_grpo").method == x.method
    assert method("shrunk.yaml", shrink=1).advantage["shrink"] == 1
    Path("grpo.yaml").write_text("defaults: [grpo]\nname: mine\nkl_coef: 1.0\n")  # of ours
    x = load(["method=grpo.yaml"], "f_grpo")
    assert (x.method.name, x.method.kl_coef) == ("mine", 1.0)
    assert load(["method=grpo"], "f_grpo").method.kl_coef == 0


def test_its_masses_are_those_of_its_formula(capsys):
    theory.main(["method=shrunk.yaml", "p=0.5", "G=8", "json=true"])
    row = json.loads(capsys.readouterr().out)
    assert row["m_S"] == pytest.approx(0.5 * (1 - 0.5 * (0.5 + 0.5 / 8)))


def test_an_advantage_in_single_precision_has_masses(capsys, folder):
    single = "def single(rewards, *, correct):\n    return correct.float() - 0.5\n"
    (folder / "single.py").write_text(single)
    target = 'advantage: {_target_: "single.py:single"}\n'
    (folder / "single.yaml").write_text(f"defaults: [plain, _self_]\nname: single\n{target}")
    theory.main(["method=single.yaml", "p=0.5", "G=8", "json=true"])
    row = json.loads(capsys.readouterr().out)
    assert (row["m_S"], row["m_F"]) == pytest.approx((0.25, 0.25))


@pytest.mark.parametrize(
    ("file", "key", "value"),
    [
        ("gone.yaml", "method", "gone.yaml"),
        ("child.yaml", "defaults", "nobody"),
        ("lost.yaml", "method.advantage._target_", "gone.py:f"),
        ("lost2.yaml", "method.advantage._target_", "mine.py:f"),
    ],
)
def test_what_is_not_there_is_said(folder, file, key, value):
    (folder / "child.yaml").write_text("defaults: [nobody]\n")
    lost = "defaults: [_base, _self_]\nname: lost\nadvantage: {_target_: 'gone.py:f'}\n"
    (folder / "lost.yaml").write_text(lost)
    (folder / "lost2.yaml").write_text(lost.replace("gone", "mine"))
    with refuses(key, value):
        load([f"method={file}"], "f_grpo")


def test_a_method_that_needs_a_limit_says_so():
    with pytest.raises(UserError, match=r"\bmax_tokens\b"):
        method("dr_grpo", reward={"correct": 1.0, "wrong": 0.0})


def test_a_plain_function_is_a_verifier(monkeypatch, folder):
    short = loaded({"_target_": "rewards.py:short", "most": 3})
    assert judge(short, "abc", "") == ["correct", 1.0, None, ""]
    assert judge(short, "abcd", "") == ["wrong", 0.0, None, ""]
    graded = loaded({"_target_": "rewards.py:graded"})
    assert judge(graded, "abc", "") == ["wrong", 0.3, None, ""]
    monkeypatch.syspath_prepend(folder)
    assert import_target("rewards:short", "verifier")("abc", "") is True
    with refuses("least", 3):
        resolve({"_target_": "rewards.py:short", "least": 3}, "verifier")
    with refuses("most", "3e0"):  # what YAML reads as a text
        resolve({"_target_": "rewards.py:short", "most": "3e0"}, "verifier")


def test_its_own_message_is_kept():
    _, _, _, reason = judge(loaded({"_target_": "rewards.py:broken"}), "a", "b")
    assert reason == "KeyError in broken, line 9: 'gone'"


def test_a_file_is_read_once_and_hides_no_other_module(folder):
    (folder / "json.py").write_text("def f():\n    return 1\n")
    node = {"_target_": "json.py:f"}
    assert module(node) is module(node)
    assert import_target(node["_target_"], "key")() == 1
    assert json.loads("1") == 1
