"""Files, a row and the words of a command line make one configuration; what is not known is said
as key, value and the nearest name that there is."""

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from refuses import refuses
from tiny import ROOT

from common.config.compose import CONFIGS, compose, merged
from common.config.strict import strict
from common.experiment import Experiment


@pytest.mark.filterwarnings("ignore:.*missing `_self_`")
@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("method", "dapo_iac_dlc"),  # of files that have defaults themselves
        ("model", "maze_17"),  # without _self_
        ("data", "maze_study"),
        ("slurm", "local-8x80"),
    ],
)
def test_a_file_is_merged_with_its_defaults_as_hydra_does(group, name):
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        theirs = hydra_compose(f"{group}/{name}")[group]
    assert merged(group, ROOT / "configs" / group / f"{name}.yaml") == theirs


def test_words_are_hydras():
    x = compose(
        "f_grpo",
        [
            "experiment=cluster/qwen7b_grpo",
            "method=f_grpo",
            "optim={lr: 3}",  # is merged
            "eval.k=[1,2]",  # replaces
            "+method.advantage.new=1",
            "++seed=4",
            "~data.benchmarks.math500",
            "+eval@data.benchmarks.more=gsm8k",
            "label=${name}",
            "seed=5",
        ],
    )
    assert (x.name, x.label, x.seed, x.eval.k) == ("qwen7b_grpo", "qwen7b_grpo", 5, [1, 2])
    assert (x.optim.lr, x.optim.steps) == (3, 1530)
    assert (x.method.advantage.gamma, x.method.advantage.new) == (0.5, 1)
    assert "math500" not in x.data.benchmarks
    assert x.data.benchmarks.more.name == "gsm8k"


def test_a_composed_configuration_is_the_callers_own():
    compose("study", ["experiment=grpo"]).method.advantage.epsilon = 7
    assert compose("study", ["experiment=grpo"]).method.advantage.epsilon != 7


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("optm.lr=1", "optim.lr"),
        ("optim.lrr=1", "optim.lr"),
        ("method=fgrpo", "f_grpo"),
        ("method=F_GRPO", "f_grpo"),
        ("experiment=f_grpo_gama1", "f_grpo_gamma1"),
        ("~optm=", "optim"),
        ("optim.lr=[1", None),
        ("seed=1,2", None),
        ("+optim.lr=2", None),
        ("optim.equalise_to.x=2", None),
        ("~seed=2", None),
        ("method=none", None),
        ("method=null", None),
        ("eval=math500", None),
        ("shifted=five_numbers", None),
        ("foo@bar=1", None),
    ],
)
def test_a_misspelt_word_is_named_with_the_nearest(word, meant):
    key, _, value = word.lstrip("~").partition("=")
    with refuses(key, value) as caught:
        compose("study", ["seed=1", word])
    assert "\n" not in str(caught.value)
    assert "hydra" not in str(caught.value).lower()
    if meant:
        assert f"{meant}?" in str(caught.value)


def test_a_group_that_a_command_has_no_file_of_is_an_unknown_key():
    with refuses("method", "grpo"):
        compose(CONFIGS, ["method=grpo"], "evaluate")


def test_a_missing_value_is_named_by_its_own_key():
    with refuses("model.path", ""):  # model.name is made of it
        strict(Experiment, compose(CONFIGS, [], "train"))


@pytest.mark.parametrize("name", ["3", "2026", "1e5", "true", "nan", "null"])
def test_text_that_looks_like_a_number_is_taken_in_quotes(name):
    with refuses("name") as caught:
        strict(Experiment, compose("f_grpo", [f"name={name}"]))
    assert "name='" in str(caught.value)
    assert strict(Experiment, compose("f_grpo", [f"name='{name}'"])).name == name
