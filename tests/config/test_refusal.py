"""What Hydra refuses is said as key, value and the nearest name that there is."""

import pytest
from refuses import refuses

from common.config.compose import compose, prepared


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("optm.lr=1", "optim.lr"),
        ("optim.lrr=1", "optim.lr"),
        ("method=fgrpo", "f_grpo"),
        ("method=F_GRPO", "f_grpo"),
        ("experiment=f_grpo_gama1", "f_grpo_gamma1"),
        ("optim.lr=[1", None),
        ("~optm=", "optim"),
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


def test_a_missing_value_is_named_by_its_own_key():
    from common.config.compose import CONFIGS
    from common.config.strict import strict
    from common.experiment import Experiment

    with refuses("model.path", ""):  # model.name is made of it
        strict(Experiment, compose(CONFIGS, [], "train"))


def test_a_file_of_the_users_own_is_named_as_hydra_stores_it(tmp_path):
    file = tmp_path / "mine_of_a_test.yaml"
    file.write_text("defaults: [grpo]\nname: mine\n")
    assert prepared([f"method={file}", "seed=1"]) == [f"method={file.stem}", "seed=1"]
    with refuses("method", "none.yaml"):
        prepared(["method=none.yaml"])
