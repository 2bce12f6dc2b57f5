import re

import pytest
from refuses import refuses

from common.config.compose import compose
from common.config.words import for_hydra, options, pairs, quoted, split
from common.errors import UserError

OWN = {"workers": "2", "results_dir": "results"}


def test_pairs():
    assert pairs(["k=1,256", "a.b=[x=y]", "c="]) == {"k": "1,256", "a.b": "[x=y]", "c": ""}
    assert pairs(word for word in ("k=1", "k=2")) == {"k": "2"}  # the last one counts
    with pytest.raises(UserError, match=r"workers\b"):
        pairs(["k=1", "workers"])


def test_a_commands_own_words_and_those_for_hydra():
    words = ["+optim.lr=1", "workers=4", "~a", "seed=1,2", "workers=5", "workersx=1"]
    given, others = split(words, OWN)
    assert given == {"workers": "5", "results_dir": "results"}
    assert others == ["+optim.lr=1", "~a", "seed=1,2", "workersx=1"]
    for empty in ("workers=", "workers"):  # of a shell's unset variable
        with refuses("workers", ""):
            split([empty], OWN)
    assert OWN["workers"] == "2"


@pytest.mark.parametrize(
    ("word", "remedy"),
    [
        ("worker=4", "did you mean workers?"),
        ("x=4", "known: results_dir, workers"),
        ("workers=", "workers=VALUE"),
    ],
)
def test_options_takes_no_other_words(word, remedy):
    assert options(["workers=4"], OWN) == OWN | {"workers": "4"}
    with refuses(*word.split("=")) as caught:
        options([word], OWN)
    assert remedy in str(caught.value)


def test_hydra_is_given_additions_as_such():
    assert for_hydra(["a=1", "verl.x=2", "~d"]) == ["a=1", "++verl.x=2", "~d"]


@pytest.mark.parametrize("word", ["--dry_run", "-n", "--dry_run=true", "--multirun", "'", "job"])
def test_a_word_that_hydra_could_not_read_is_named(word):
    for read in (for_hydra, lambda words: compose("f_grpo", words)):
        with pytest.raises(UserError, match=re.escape(word)) as error:
            read(["seed=1", word])
        assert "key=value" in str(error.value)


@pytest.mark.parametrize("path", ["/a [b] (c)/d", "./e[1]", "/f=g#h"])
def test_a_path_may_have_any_sign(path):
    assert compose("f_grpo", [f"results_dir={path}"])["results_dir"] == path
    assert compose("f_grpo", ["optim.betas=[0.8,0.9]"])["optim"]["betas"] == [0.8, 0.9]


def test_a_value_is_quoted_once():
    assert quoted("name='é'") == "name='é'"
    assert quoted("x=é") == "x='é'"
    assert quoted("x=1") == "x=1"
