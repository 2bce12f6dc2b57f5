"""A training set filtered by measured solve rates: which prompts stay, and what is refused."""

from dataclasses import replace

import pytest
from refuses import refuses
from tiny import TINY

from common.backends.prompts import prompts as of_experiment
from common.datasets.solve_rate import filtered, training
from common.errors import UserError
from common.experiment import load
from common.types import Prompt

PROMPTS = [Prompt(f"p{i}", f"text {i}", "1") for i in range(8)]
RIGHT = [8, 0, 4, 8, 2, 6, 8, 1]  # of 8: the mean is 37 / 64
HEADER = "benchmark,problem_id,n,c,distinct"


@pytest.fixture
def counts(tmp_path):
    rows = [f"train,p{i},8,{c},1" for i, c in enumerate(RIGHT)] + ["other,p0,8,0,1"]
    path = tmp_path / "pass-s1-0a1b2c3d" / "counts.csv"
    path.parent.mkdir()
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return str(tmp_path / "pass-s1-*" / "counts.csv")


def kept(**asked) -> list[str]:
    return [prompt.id for prompt in filtered(prompts=PROMPTS, **asked)]


def test_the_easiest_share_goes_and_the_order_stays(counts, capsys):
    assert kept(counts=counts, drop_easiest=0.49) == ["p1", "p2", "p4", "p5", "p7"]
    assert "5 of 8 prompts, mean 0.325 of 0.578, none above 0.750" in capsys.readouterr().err
    assert kept(counts=counts, drop_easiest=0.12) == [p.id for p in PROMPTS]  # 0.96 of a prompt
    one = kept(counts=counts, drop_easiest=0.13)
    assert len(one) == 7
    assert one == kept(counts=counts, drop_easiest=0.13)  # of three equals, always the same
    gone = set(p.id for p in PROMPTS) - set(one)
    assert gone < {"p0", "p3", "p6"}


def test_the_easiest_go_until_the_mean_is_reached(counts):
    assert len(kept(counts=counts, mean=0.55)) == 7  # 29 / 56 = 0.518
    assert kept(counts=counts, mean=0.325) == ["p1", "p2", "p4", "p5", "p7"]  # 13 / 40, just met
    assert kept(counts=counts, mean=0.32) == ["p1", "p2", "p4", "p7"]
    assert kept(counts=counts, mean=0.9) == [p.id for p in PROMPTS]


def test_what_cannot_be_filtered_is_refused_in_a_line(counts, tmp_path):
    for asked, message in (
        ({}, "give one of the two"),
        ({"mean": 0.5, "drop_easiest": 0.5}, "give one of the two"),
        ({"mean": 0.0}, "between 0 and 1"),
        ({"drop_easiest": 1.5}, "between 0 and 1"),
    ):
        with pytest.raises(UserError, match=message):
            kept(counts=counts, **asked)
    with refuses("counts", "nowhere/*.csv"):
        kept(counts="nowhere/*.csv", mean=0.5)
    with pytest.raises(UserError, match=r"1 of 9 prompts have no count .*first: new"):
        filtered(prompts=[*PROMPTS, Prompt("new", "x", "1")], counts=counts, mean=0.5)
    second = tmp_path / "pass-s1-9" / "counts.csv"
    second.parent.mkdir()
    second.write_text(HEADER + "\n")
    with pytest.raises(UserError, match="2 files match; name one"):
        kept(counts=counts, mean=0.5)


def test_a_misspelt_key_is_named():
    node = {"_target_": "common.datasets.prompts.jsonl", "path": "a.jsonl"}
    with refuses("data.train.solve_rate.drop", "0.5"):
        training(node | {"solve_rate": {"counts": "*.csv", "drop": 0.5}}, "data.train")


def test_an_experiment_trains_on_what_is_left(tmp_path):
    x = load(TINY, "f_grpo")
    every, _ = of_experiment(x)
    path = tmp_path / "counts.csv"
    rows = [f"train,{p.id},4,{4 * (i < 10)},1" for i, p in enumerate(every)]
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    asked = {"counts": str(path), "drop_easiest": 0.25}
    rated = replace(x, data=replace(x.data, train=x.data.train | {"solve_rate": asked}))
    assert of_experiment(rated)[0] == every[10:]  # 10 of 40
    assert rated.run_id != x.run_id
