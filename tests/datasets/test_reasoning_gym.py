"""Problems of reasoning-gym: of the package itself where it is installed, else of a stand-in with
the two names that are used of it."""

import sys
from types import ModuleType

import pytest

from common.config.compose import compose
from common.config.resolve import resolve
from common.config.schema import Data
from common.config.strict import strict
from common.datasets.reasoning_gym import problems
from common.errors import UserError

SUM = {"task": "sums", "split": "train", "size": 20, "seed": 0}


@pytest.fixture
def stand_in(monkeypatch):
    def create_dataset(task, *, size, seed, most=5000):
        if most < 2:
            raise AssertionError("most must be at least 2")
        numbers = [((i * 7 + seed) % most, i % 5) for i in range(size)]
        answers = {"sums": lambda a, b: str(a + b), "words": lambda a, b: f"{a} and {b}"}
        return [{"question": f"{a}+{b}?", "answer": answers[task](a, b)} for a, b in numbers]

    gym, factory = ModuleType("reasoning_gym"), ModuleType("reasoning_gym.factory")
    factory.DATASETS = {"sums": None, "words": None}
    gym.factory, gym.create_dataset = factory, create_dataset
    monkeypatch.setitem(sys.modules, "reasoning_gym", gym)
    monkeypatch.setitem(sys.modules, "reasoning_gym.factory", factory)


def test_splits_share_no_question(stand_in):
    rows = {split: problems(**SUM | {"split": split, "size": 5}) for split in ("train", "test")}
    asked = {split: {row["problem"] for row in some} for split, some in rows.items()}
    assert len(asked["train"]) == len(asked["test"]) == 5
    assert not asked["train"] & asked["test"]
    other = {row["problem"] for row in problems(**SUM | {"seed": 3})}
    assert not other & asked["test"]
    for row in rows["train"]:
        a, b = row["problem"].removesuffix("?").split("+")
        assert int(row["answer"]) == int(a) + int(b)
        assert row["id"].startswith("sums-")
    assert problems(**SUM) == problems(**SUM)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"task": "ransom_note"}, "makes other problems in every process"),
        ({"task": "nothing"}, "task=nothing: one of sums, words"),
        ({"split": "all"}, "split=all"),
        ({"size": 60, "options": {"most": 50}}, "different problems among 6000"),
        ({"options": {"most": 1}}, "most must be at least 2"),
        ({"options": {"least": 1}}, "options=.*least"),
    ],
)
def test_what_is_refused(stand_in, change, words):
    with pytest.raises(UserError, match=words):
        problems(**SUM | change)


def test_a_row_says_what_makes_it_again(stand_in):
    row = problems(**SUM | {"task": "words", "options": {"most": 5000}})[3]
    made = row["made"]
    again = sys.modules["reasoning_gym"].create_dataset(
        made["task"], size=made["size"], seed=made["seed"], **made["options"]
    )[made["index"]]
    assert (again["question"], again["answer"]) == (row["problem"], row["answer"])
    assert row["id"] == f"words-{made['question']}"


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(UserError, match=r"reasoning-gym cannot be imported .* pip install -e"):
        problems(**SUM)


def test_the_set_as_configured():
    words = ["data=reasoning_gym", "data.train.source.task=gcd", "+model.chat=qwen"]
    data = strict(Data, compose("f_grpo", words).data)
    assert data.benchmarks["test"]["source"]["task"] == "gcd"
    pytest.importorskip("reasoning_gym", reason="pip install -e '.[reasoning-gym]'")
    train = resolve(data.train, "data.train")()
    test = resolve(data.benchmarks["test"], "data.benchmarks.test")()
    assert (len(train), len(test)) == (2048, 200)
    assert not {p.text for p in train} & {p.text for p in test}
    judge = resolve(data.verifier, "data.verifier")
    assert all(judge(p.reference, p.reference).outcome == "correct" for p in test)
